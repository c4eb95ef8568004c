"""The dialogue of `init`: with a person at a terminal, or unattended, where defaults and flags decide."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

MARKS = {"ok": "green", "note": "cyan", "PROBLEM": "red"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is left to do: `about` names the subject, like `host head`."""

    about: str
    text: str
    fix: str


@dataclass(slots=True)
class Prompter:
    """Prints and asks. `unattended`: nobody answers, so every question gets its default, and `yes` confirms.

    `remaining` collects what is still to be done, printed again at the end.
    """

    unattended: bool
    yes: bool
    remaining: list[Problem] = field(default_factory=list)

    def heading(self, text: str) -> None:
        click.echo(f"\n{click.style(text, bold=True)}")

    def ok(self, text: str) -> None:
        """Print something that is as it should be."""
        self._print("ok", text)

    def note(self, text: str) -> None:
        self._print("note", text)

    def verbatim(self, text: str) -> None:
        """Print a line to be copied as it is."""
        click.echo(f"    {text}")

    def problem(self, text: str, fix: str, *, about: str) -> None:
        """Print something that is wrong; with its `fix` it is repeated at the end, unless `about` is cleared."""
        self._print("PROBLEM", text)
        click.echo(f"         → {fix}")
        self.remaining.append(Problem(about, text, fix))

    def clear(self, about: str) -> None:
        """Forget the problems reported about `about`."""
        self.remaining = [problem for problem in self.remaining if problem.about != about]

    def ask(self, question: str, default: str = "", *, hidden: bool = False) -> str:
        """The answer to `question`; `default` when unattended or when only Enter is pressed."""
        if self.unattended:
            return default
        answer = click.prompt(question, default=default, show_default=bool(default) and not hidden, hide_input=hidden)
        return str(answer).strip()

    def confirm(self, question: str, *, default: bool) -> bool:
        """Yes or no. Unattended, only `--yes` confirms."""
        if self.unattended:
            click.echo(f"{question} {'yes (--yes)' if self.yes else 'no (unattended, and no --yes)'}")
            return self.yes
        return click.confirm(question, default=default)

    def confirm_retry(self, question: str) -> bool:
        """Whether to try again, after a person may have fixed something; never when unattended."""
        return not self.unattended and click.confirm(question, default=True)

    def _print(self, mark: str, text: str) -> None:
        click.echo(f"{click.style(f'{mark:7}', fg=MARKS[mark])}  {text}")
