"""What could be read of one section, whether or not it is good, and the keys each section has."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from watchdog.config import Config
from watchdog.errors import ConfigProblem
from watchdog.loading.yaml_tree import Mark

# Collects what is wrong with a configuration, with places and suggestions. Never quotes a secret.

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


SET_BY_LOADING = {(Config, "file"), (Config, "secret_parts")}
"""Fields that are no keys."""


class Fault:
    """What a value that could not be read is replaced by; its problem has been noted."""


FAULT = Fault()


@dataclass(slots=True)
class Record:
    """One section as far as it could be read."""

    kind: type
    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    """Field, `field[number]` of a list or `field.key` of a mapping → where its value stands."""
    literals: dict[str, str] = field(default_factory=dict)
    """The secrets that stand in the file itself, named like `places`, for the check of the file's mode."""
    filled: set[str] = field(default_factory=set)
    """The texts that hold values of environment variables, named like `places`: no message quotes them."""

    meant: set[str] = field(default_factory=set)
    """Keys that are given with a typo: that they are missing is not said as well."""

    def get(self, name: str) -> Any:
        """The value of field `name`, its default when it was not given, or None when it was faulty or is required."""
        if name in self.values:
            value = self.values[name]
            return None if isinstance(value, Fault) else value
        known = fields_of(self.kind)[name]
        if known.default is not MISSING:
            return known.default
        return known.default_factory() if known.default_factory is not MISSING else None

    def given(self, name: str) -> bool:
        """Whether the file says something about field `name`, good or bad."""
        return name in self.values

    def at(self, name: str) -> Place:
        """Where field `name` stands; the section's own place when it was not given."""
        return self.places.get(name, self.place)

    def quoted(self, name: str, text: str) -> str:
        """`text`, the value at `name`, for a message; not the value of an environment variable."""
        return "the value of ${env:…}" if name in self.filled else shown(text)

    def hint(self, name: str, hint: str) -> str:
        """`hint`, which is made from the value at `name`, unless that came from an environment variable."""
        return "" if name in self.filled else hint

    def section(self, name: str) -> Record:
        """The section in field `name`; an empty one (all defaults) when it was not given or is faulty."""
        value = self.values.get(name)
        return value if isinstance(value, Record) else Record(bare(hints_of(self.kind)[name]), self.at(name))

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


@functools.cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """Field → type, with the names in annotations resolved."""
    hints: Mapping[str, Any] = get_type_hints(kind)
    return hints


@functools.cache
def fields_of(kind: type) -> Mapping[str, dataclasses.Field[Any]]:
    """Name → field, of all fields."""
    return {one.name: one for one in dataclasses.fields(kind)}


@functools.cache
def keys_of(kind: type) -> Mapping[str, dataclasses.Field[Any]]:
    """Key in the file → field. A duration `interval_s` is written as `interval`, with its unit in the value."""
    found = {}
    for known in fields_of(kind).values():
        if (kind, known.name) not in SET_BY_LOADING:
            key = known.name.removesuffix("_s") if hints_of(kind)[known.name] is float else known.name
            found[key] = known
    return found


def bare(hint: Any) -> Any:
    """`hint` without its `| None`."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(part for part in get_args(hint) if part is not type(None))
    return hint


def may_be_nothing(hint: Any) -> bool:
    """Whether `hint` allows None."""
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def key_elsewhere(key: str, kind: type) -> str:
    """`did you mean probe.interval?` when `key` belongs to a section inside this one."""
    outer = next((outer for outer, inner in _sections_in(kind).items() if key in inner), None)
    return f"did you mean {outer}.{key}?" if outer else ""


@functools.cache
def _sections_in(kind: type) -> Mapping[str, Mapping[str, object]]:
    hints = {key: bare(hints_of(kind)[one.name]) for key, one in keys_of(kind).items()}
    return {key: keys_of(hint) for key, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
