"""Collects what is wrong with a configuration, with places and suggestions. Never quotes a secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from watchdog.errors import ConfigProblem
from watchdog.loading.document import Mark

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,47}")
STRAYED_SECRET = re.compile(r"PRIVATE KEY|[:/][^:/\s]+@")
MAX_PROBLEMS = 100
MAX_NOTED = 1000
MAX_SUGGESTIONS = 30
"""Suggestions cost time; a file with more faults than this is not a matter of a typo."""
MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: in the file (`mark`), and in the configuration (`servers[0].probe.interval`)."""

    mark: Mark
    path: str = ""

    def at(self, mark: Mark, key: str | int) -> Place:
        """The place of a value inside this one: key `key` of a mapping or number `key` of a list.

        A key that looks like no key is left out of the path: it may be a secret without its colon.
        """
        if isinstance(key, int):
            return Place(mark, f"{self.path}[{key}]")
        if KEY.fullmatch(key) is None:
            return Place(mark, self.path)
        return Place(mark, f"{self.path}.{key}" if self.path else key)


@dataclass(slots=True)
class Problems:
    """All errors and warnings of one loading."""

    file: str
    errors: list[ConfigProblem] = field(default_factory=list)
    warnings: list[ConfigProblem] = field(default_factory=list)
    suggested: int = 0
    count: int = 0

    def error(self, place: Place, problem: str, hint: str = "") -> None:
        """Note something that stops the start. Beyond `MAX_NOTED` problems are only counted."""
        self.count += 1
        if len(self.errors) < MAX_NOTED:
            self.errors.append(ConfigProblem(self.file, *place.mark, place.path, problem, hint))

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Note something that is allowed, and is probably not what is wanted."""
        self.warnings.append(ConfigProblem(self.file, *place.mark, place.path, problem, hint))

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """The one of `known` that `word` may be a typo of, or None."""
        if len(word) > MAX_SHOWN or self.suggested >= MAX_SUGGESTIONS:
            return None
        self.suggested += 1
        folded = {name.lower(): name for name in known}
        near = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
        return folded[near[0]] if near else None

    def suggest(self, word: str, known: Iterable[str]) -> str:
        """`did you mean X?` for the nearest of `known`, or an empty text when none is near."""
        near = self.nearest(word, known)
        return f"did you mean {near}?" if near else ""

    def sorted_errors(self) -> tuple[ConfigProblem, ...]:
        """The errors in the order of their place in the file, the first `MAX_PROBLEMS` of them."""
        found = _in_file_order(self.errors)
        if len(found) <= MAX_PROBLEMS:
            return found
        hidden = len(found) - MAX_PROBLEMS + self.count - len(self.errors)
        rest = ConfigProblem(self.file, 0, 0, "", f"and {hidden} more problems")
        return (*found[:MAX_PROBLEMS], rest)

    def sorted_warnings(self) -> tuple[ConfigProblem, ...]:
        """The warnings in the order of their place in the file."""
        return _in_file_order(self.warnings)


def _in_file_order(problems: list[ConfigProblem]) -> tuple[ConfigProblem, ...]:
    unique = dict.fromkeys(problems)
    return tuple(sorted(unique, key=lambda problem: (problem.line, problem.column, problem.path)))


def shown(text: str, limit: int = MAX_SHOWN) -> str:
    """`text` of a setting that is no secret, quoted for a message: one line, control characters escaped, clipped.

    A text that looks like a login or a private key is not quoted: a lost line break may have brought it here.
    """
    if STRAYED_SECRET.search(text):
        return "this text"
    clipped = text if len(text) <= limit else text[:limit] + "…"
    return (
        "'" + "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in clipped) + "'"
    )
