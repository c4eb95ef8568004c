"""Reads nodes into records, directed by the frozen dataclasses of `config`: a field there is a key here.

A record holds what could be read and where each value stands, so that the rules can still look at a file with faults
and everything wrong with it is reported at once. `Record.build` makes the settings when nothing was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from datetime import datetime, time
from enum import StrEnum
from typing import Any, get_args, get_origin
from zoneinfo import ZoneInfo

from watchdog.config import HttpMethod, Secret, Size
from watchdog.loading import scalars
from watchdog.loading.records import (
    FAULT,
    Fault,
    Place,
    Problems,
    Record,
    bare,
    hints_of,
    key_elsewhere,
    keys_of,
    may_be_nothing,
    shown,
)
from watchdog.loading.references import CONTROL_BUT_LINES, LINE_BREAK_OR_CONTROL, References
from watchdog.loading.scalars import LINES_ALLOWED, ONE_OR_MORE, limit_of
from watchdog.loading.yaml_tree import Entries, Items, Mark, Node, Scalar
from watchdog.model import Severity, Weekday

MAX_TEXT = 4096
MAX_SECRET = 64 * 1024
READ_FROM_TEXT: Mapping[type, Callable[[str], Any]] = {
    float: scalars.duration,
    Size: scalars.size,
    time: scalars.clock_time,
    datetime: scalars.moment,
    ZoneInfo: scalars.time_zone,
}
CALLED = {Severity: "severity", Weekday: "day of the week", HttpMethod: "method"}
"""What a person calls the words of a closed list."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Reads nodes; notes every problem on the way."""

    problems: Problems
    references: References

    def record(self, node: Node, kind: type, place: Place) -> Record | Fault:
        """Read the section `node` as `kind`."""
        if not isinstance(node, Entries):
            return self._fault(place, f"expected a section with keys, found {scalars.kind_of(node)}")
        record, known = Record(kind, place), keys_of(kind)
        for key, key_mark, value in self.entries(node, place):
            if key not in known:
                self._unknown_key(key, record, key_mark)
                continue
            name = known[key].name
            record.places[name] = place.at(value.mark, key)
            record.values[name] = self._field(record, name, value)
        for key, one in known.items():
            if (
                one.name not in record.values
                and key not in record.meant
                and one.default is MISSING
                and one.default_factory is MISSING
            ):
                self.problems.error(place, f"`{key}` is missing")
        return record

    def entries(self, node: Entries, place: Place) -> list[tuple[str, Mark, Node]]:
        """Key, its mark and value of each pair: merge keys are filled in, duplicates noted and left out."""
        own: dict[str, tuple[str, Mark, Node]] = {}
        merged: dict[str, tuple[str, Mark, Node]] = {}
        for key, value in node.pairs:
            if not isinstance(key, Scalar):
                self.problems.error(Place(key.mark, place.path), f"a key must be a word, found {scalars.kind_of(key)}")
            elif key.plain and key.text == "<<":
                for found in self._merged(value, place):
                    merged.setdefault(found[0], found)
            elif key.text in own:
                first = own[key.text][1].line
                self.problems.error(
                    place.at(key.mark, key.text), "this key is given twice", f"first on line {first}; remove one"
                )
            else:
                own[key.text] = (key.text, key.mark, value)
        return [*own.values(), *(found for key, found in merged.items() if key not in own)]

    def _merged(self, value: Node, place: Place) -> list[tuple[str, Mark, Node]]:
        sources = value.items if isinstance(value, Items) else (value,)
        found: list[tuple[str, Mark, Node]] = []
        for source in sources:
            if isinstance(source, Entries):
                found += self.entries(source, place)
            else:
                self.problems.error(
                    Place(value.mark, place.path), "a merge key (<<) takes a section", "write <<: *anchor"
                )
        return found

    def _unknown_key(self, key: str, record: Record, mark: Mark) -> None:
        place, kind = record.place, record.kind
        if not key.replace("-", "_").isidentifier() or len(key) > 40:
            # Not repeated: `api_key:value` without the space makes a secret part of the key.
            hint = "every key needs a colon and a space, like `name: head`"
            self.problems.error(Place(mark, place.path), "this is no key", hint)
            return
        near = self.problems.nearest(key, keys_of(kind))
        if near and keys_of(kind)[near].name not in record.values:
            record.meant.add(near)
        hint = f"did you mean {near}?" if near else key_elsewhere(key, kind)
        self.problems.error(place.at(mark, key), "unknown key", hint or f"known here: {', '.join(keys_of(kind))}")

    def _fault(self, place: Place, problem: str, hint: str = "") -> Fault:
        self.problems.error(place, problem, hint)
        return FAULT

    def _field(self, record: Record, name: str, node: Node) -> Any:
        hint = hints_of(record.kind)[name]
        place = record.places[name]
        if is_nothing_allowed := may_be_nothing(hint):
            hint = bare(hint)
        if scalars.is_nothing(node):
            if is_nothing_allowed and isinstance(node, Scalar) and node.text:
                return None
            return self._fault(place, "has no value", "give one, or remove the key")
        value = self.value(record, name, hint, node, place)
        return value if isinstance(value, Fault) else self._within_limits(record.kind, name, value, place)

    def _within_limits(self, kind: type, name: str, value: Any, place: Place) -> Any:
        if isinstance(value, tuple) and not value and (kind, name) in ONE_OR_MORE:
            return self._fault(place, "is an empty list", ONE_OR_MORE[kind, name])
        if isinstance(value, int | float) and not isinstance(value, bool):
            problem = limit_of(kind, name, value)
            if problem:
                return self._fault(place, problem)
        return value

    def value(self, record: Record, name: str, hint: Any, node: Node, place: Place) -> Any:
        """Read `node` as `hint` says: a section, list, mapping, or one value."""
        if is_dataclass(hint) and isinstance(hint, type):
            return self.record(node, hint, place)
        if get_origin(hint) is not None:
            *_, inner = (part for part in get_args(hint) if part is not Ellipsis)
            read = self._list if get_origin(hint) is tuple else self._mapping
            return read(record, name, inner, node, place)
        if hint is Any:
            return self._json(node, place)
        if not isinstance(node, Scalar):
            return self._fault(place, f"expected a single value, found {scalars.kind_of(node)}")
        if hint is Secret:
            return self._secret(record, name, node, place)
        value = self._scalar(hint, node, place)
        if isinstance(value, str) and value != node.text:
            record.filled.add(name)
        return value

    def _list(self, record: Record, name: str, hint: Any, node: Node, place: Place) -> Any:
        if isinstance(node, Scalar) and hint is Secret:
            node = Items(node.mark, (node,), 2, 2)  # `alertmanager: http://…`: one address needs no brackets
        if not isinstance(node, Items):
            return self._fault(place, f"expected a list, found {scalars.kind_of(node)}", "write it like [one, two]")
        values = []
        for number, item in enumerate(node.items):
            where = record.places[f"{name}[{number}]"] = place.at(item.mark, number)
            if scalars.is_nothing(item):
                values.append(self._fault(where, "has no value", "give one, or remove the entry"))
            else:
                values.append(self.value(record, f"{name}[{number}]", hint, item, where))
        return tuple(values)

    def _mapping(self, record: Record, name: str, hint: Any, node: Node, place: Place) -> Any:
        if not isinstance(node, Entries):
            return self._fault(place, f"expected a section with keys, found {scalars.kind_of(node)}")
        found = {}
        for key, _, item in self.entries(node, place):
            where = record.places[f"{name}.{key}"] = place.at(item.mark, key)
            if hint is not Any and scalars.is_nothing(item):
                self._fault(where, "has no value", "give one, or remove the key")
                continue
            value = self.value(record, f"{name}.{key}", hint, item, where)
            if not isinstance(value, Fault):
                found[key] = value
        return found

    def _scalar(self, hint: Any, node: Scalar, place: Place) -> Any:
        try:
            if hint is bool:
                return scalars.truth(node)
            if hint is int:
                return scalars.integer(node)
            if hint in READ_FROM_TEXT:
                return READ_FROM_TEXT[hint](node.text)
        except scalars.ScalarError as fault:
            return self._fault(place, fault.problem, fault.hint)
        if hint in CALLED:
            return self._word(hint, node.text, place)
        return self._text(node.text, place)

    def _word(self, kind: type[StrEnum], text: str, place: Place) -> StrEnum | Fault:
        words = list(kind)
        if text in words:
            return kind(text)
        hint = self.problems.suggest(text, words)
        listed = f"{', '.join(words[:-1])} or {words[-1]}"
        return self._fault(place, f"{shown(text)} is no {CALLED[kind]}; it is {listed}", hint)

    def _text(self, text: str, place: Place) -> str | Fault:
        if LINE_BREAK_OR_CONTROL.search(text):
            return self._fault(place, "holds a line break or a control character", "write it on one line")
        if not text.strip():
            return self._fault(place, "is empty", "give a text, or remove the key")
        if len(text) > MAX_TEXT:
            return self._fault(place, f"is longer than {MAX_TEXT} characters")
        expanded = self.references.expand(text, place, secret=False)
        return FAULT if expanded is None else expanded.text

    def _secret(self, record: Record, name: str, node: Scalar, place: Place) -> Secret | Fault:
        lines = (record.kind, name) in LINES_ALLOWED
        if (CONTROL_BUT_LINES if lines else LINE_BREAK_OR_CONTROL).search(node.text):
            return self._fault(place, "holds a line break or a control character", "write it on one line")
        if not node.text.strip() or len(node.text) > MAX_SECRET:
            return self._fault(place, "is empty" if not node.text.strip() else "is too long")
        expanded = self.references.expand(node.text, place, secret=True, lines=lines)
        if expanded is None:
            return FAULT
        if expanded.is_literal:
            record.literals[name] = expanded.text
        return Secret(expanded.text)

    def _json(self, node: Node, place: Place) -> Any:
        if isinstance(node, Items):
            return [self._json(item, place.at(item.mark, number)) for number, item in enumerate(node.items)]
        if isinstance(node, Entries):
            return {key: self._json(value, place.at(value.mark, key)) for key, _, value in self.entries(node, place)}
        try:
            value = scalars.json_scalar(node)
        except scalars.ScalarError as fault:
            return self._fault(place, fault.problem, fault.hint)
        if not isinstance(value, str):
            return value
        expanded = self.references.expand(value, place, secret=False)
        return FAULT if expanded is None else expanded.text
