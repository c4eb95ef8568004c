"""The problems of a configuration with their places, and what could be read of its sections in spite of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from watchdog.errors import ConfigProblem
from watchdog.loading.schema import fields_of
from watchdog.loading.yaml_tree import Mark

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,47}")
STRAYED_SECRET = re.compile(r"PRIVATE KEY|[:/][^:/\s]+@")
MAX_PROBLEMS = 100
MAX_NOTED = 1000
MAX_SUGGESTIONS = 30
"""Suggestions cost time; a file with more faults than this is not a matter of a typo."""
MAX_SHOWN = 60


class SettingError(Exception):
    """A value that cannot be used; says what is wrong and what to do, and never holds a secret.

    `typo` is a word that may be misspelled and the words it may stand for: a near one becomes the hint.
    """

    def __init__(self, problem: str, hint: str = "", *, typo: tuple[str, Collection[str]] | None = None) -> None:
        self.problem, self.hint, self.typo = problem, hint, typo
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: in the file (`mark`), and in the configuration (`servers[0].probe.interval`)."""

    mark: Mark
    path: str = ""

    def at(self, mark: Mark, key: str | int) -> Place:
        """The place of a value inside this one: key `key` of a mapping or number `key` of a list.

        A key that does not look like one is left out of the path: it may be a secret without its colon.
        """
        if isinstance(key, int):
            return Place(mark, f"{self.path}[{key}]")
        if KEY.fullmatch(key) is None:
            return Place(mark, self.path)
        return Place(mark, f"{self.path}.{key}" if self.path else key)


@dataclass(slots=True)
class Problems:
    """All errors and warnings of one loading. Never quotes a secret."""

    file: str
    errors: list[ConfigProblem] = field(default_factory=list)
    warnings: list[ConfigProblem] = field(default_factory=list)
    suggested: int = 0
    count: int = 0

    def error(self, place: Place, problem: str, hint: str = "") -> None:
        """Note something that prevents the start. Beyond `MAX_NOTED` problems are only counted."""
        self.count += 1
        if len(self.errors) < MAX_NOTED:
            self.errors.append(ConfigProblem(self.file, *place.mark, place.path, problem, hint))

    def note(self, place: Place, found: SettingError) -> None:
        """Note as an error what is wrong with the value at `place`."""
        hint = self.suggest(*found.typo) if found.typo else ""
        self.error(place, found.problem, hint or found.hint)

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Note something that is allowed, and is probably not what is wanted."""
        self.warnings.append(ConfigProblem(self.file, *place.mark, place.path, problem, hint))

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """The one of `known` that `word` may be a typo of, or None."""
        if len(word) > MAX_SHOWN or self.suggested >= MAX_SUGGESTIONS:
            return None
        self.suggested += 1
        by_lower = {name.lower(): name for name in known}
        near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
        return by_lower[near[0]] if near else None

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
    """`text` of a setting that is not secret, quoted for a message: one line, control characters escaped, clipped.

    A text that looks like a login or a private key is not quoted: a lost line break may have brought it here.
    """
    if STRAYED_SECRET.search(text):
        return "this text"
    clipped = text if len(text) <= limit else text[:limit] + "…"
    return (
        "'" + "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in clipped) + "'"
    )


class Fault:
    """Stands for a value that could not be read; its problem has been noted."""


FAULT = Fault()


@dataclass(slots=True)
class Record:
    """One section as far as it could be read: values by field, and where each stands.

    Checks look at it even when the file has faults, so that everything wrong with it is reported at once.
    """

    kind: type
    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    """Field, `field[number]` of a list or `field.key` of a mapping → where its value stands."""
    literals: dict[str, str] = field(default_factory=dict)
    """The secrets that stand in the file itself, named like `places`, for the check of the file's mode."""
    from_environment: set[str] = field(default_factory=set)
    """The texts that hold values of environment variables, named like `places`: no message quotes them."""
    misspelled: set[str] = field(default_factory=set)
    """Keys that are given with a typo: they are not reported as missing as well."""

    def get(self, name: str) -> Any:
        """The value of field `name`, its default when it was not given, or None when it was faulty or is required."""
        value = self.values[name] if name in self.values else fields_of(self.kind)[name].default
        return None if isinstance(value, Fault) else value

    def given(self, name: str) -> bool:
        """Whether the file says something about field `name`, good or bad."""
        return name in self.values

    def at(self, name: str) -> Place:
        """Where field `name` stands; the section's own place when it was not given."""
        return self.places.get(name, self.place)

    def quoted(self, name: str, text: str) -> str:
        """`text`, the value at `name`, for a message; not the value of an environment variable."""
        return "the value of ${env:…}" if name in self.from_environment else shown(text)

    def hint(self, name: str, hint: str) -> str:
        """`hint`, which is made from the value at `name`, unless that came from an environment variable."""
        return "" if name in self.from_environment else hint

    def section(self, name: str) -> Record:
        """The section in field `name`; an empty one (all defaults) when it was not given or is faulty."""
        value = self.values.get(name)
        return value if isinstance(value, Record) else Record(fields_of(self.kind)[name].form.type, self.at(name))

    def sections(self, name: str) -> tuple[Record, ...]:
        """The good entries of the list of sections in field `name`."""
        return tuple(entry for entry in self.get(name) or () if isinstance(entry, Record))

    def build(self) -> Any:
        """The settings. Call it only when no problem was noted."""
        return self.kind(**{name: _built(value) for name, value in self.values.items()})


def _built(value: Any) -> Any:
    if isinstance(value, Record):
        return value.build()
    if isinstance(value, tuple):
        return tuple(_built(entry) for entry in value)
    return value
