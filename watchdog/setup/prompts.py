"""The conversation of `init`: with a person at a terminal, or with nobody, where defaults and flags decide."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

MARKS = {"ok": "green", "note": "cyan", "PROBLEM": "red"}


@dataclass(slots=True)
class Talk:
    """Says and asks. `unattended`: nobody answers, so every question gets its default, and `yes` agrees.

    `left` collects what is still to be done, told once more at the end.
    """

    unattended: bool
    yes: bool
    left: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """Begin a part."""
        click.echo(f"\n{click.style(text, bold=True)}")

    def well(self, text: str) -> None:
        """Something is as it should be."""
        self._say("ok", text)

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self._say("note", text)

    def plain(self, text: str) -> None:
        """A line as it is, to be copied: no mark, no wrapping."""
        click.echo(f"    {text}")

    def problem(self, text: str, fix: str, *, about: str) -> None:
        """Something is wrong; `fix` says what to do and is repeated at the end under the name `about`."""
        self._say("PROBLEM", text)
        click.echo(f"         → {fix}")
        self.left.append(f"{about}: {text}\n    → {fix}")

    def solved(self, about: str) -> None:
        """What was said about `about` is no longer so."""
        self.left = [entry for entry in self.left if not entry.startswith(f"{about}: ")]

    def ask(self, question: str, default: str = "", *, hidden: bool = False) -> str:
        """The answer to `question`; `default` when unattended or when only Enter is pressed."""
        if self.unattended:
            return default
        answer = click.prompt(question, default=default, show_default=bool(default) and not hidden, hide_input=hidden)
        return str(answer).strip()

    def agree(self, question: str, *, default: bool) -> bool:
        """Yes or no. Unattended, only `--yes` agrees."""
        if self.unattended:
            click.echo(f"{question} {'yes (--yes)' if self.yes else 'no (unattended, and no --yes)'}")
            return self.yes
        return click.confirm(question, default=default)

    def again(self, question: str) -> bool:
        """Whether to try once more, after a person may have repaired something; never when unattended."""
        return not self.unattended and click.confirm(question, default=True)

    def _say(self, mark: str, text: str) -> None:
        click.echo(f"{click.style(f'{mark:7}', fg=MARKS[mark])}  {text}")
