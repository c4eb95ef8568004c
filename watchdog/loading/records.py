"""What could be read of one section, whether or not it is good, and the keys each section has."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from watchdog.config import Config
from watchdog.loading.problems import Place, shown

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
