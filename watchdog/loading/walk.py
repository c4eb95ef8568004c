"""The one walk over the nodes of a file: reads each value as the schema says and notes where it stands.

Everything that is wrong is noted on the way, and the walk goes on, so that all of it is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watchdog.config import Secret
from watchdog.loading import scalars
from watchdog.loading.problems import FAULT, Fault, Place, Problems, Record, SettingError
from watchdog.loading.references import CONTROL_BUT_LINES, LINE_BREAK_OR_CONTROL, References
from watchdog.loading.schema import Form, inner_keys, keys_of
from watchdog.loading.yaml_tree import Entries, Items, Mark, Node, Scalar, is_nothing, kind_of

MAX_TEXT = 4096
MAX_SECRET = 64 * 1024


@dataclass(frozen=True, slots=True)
class Walk:
    """Reads nodes into records; notes every problem."""

    problems: Problems
    references: References

    def section(self, node: Node, kind: type, place: Place) -> Record | Fault:
        """The section `node`, with the keys of the settings class `kind`."""
        if not isinstance(node, Entries):
            return self._fault(place, f"expected a section with keys, found {kind_of(node)}")
        record, known = Record(kind, place), keys_of(kind)
        for name, mark, value in self._entries(node, place):
            if name in known:
                field, form = known[name].field, known[name].form
                record.places[field] = place.at(value.mark, name)
                if form.or_null and isinstance(value, Scalar) and value.text and is_nothing(value):
                    record.values[field] = None
                else:
                    record.values[field] = self._value(record, field, form, value)
            else:
                self._unknown_key(name, record, mark)
        for key in known.values():
            if key.required and key.field not in record.values and key.name not in record.misspelled:
                self.problems.error(place, f"`{key.name}` is missing")
        return record

    def _entries(self, node: Entries, place: Place) -> list[tuple[str, Mark, Node]]:
        """Key, its mark and value of each pair: merge keys are filled in, duplicates noted and left out."""
        own: dict[str, tuple[str, Mark, Node]] = {}
        merged: dict[str, tuple[str, Mark, Node]] = {}
        for key, value in node.pairs:
            if not isinstance(key, Scalar):
                self.problems.error(Place(key.mark, place.path), f"a key must be a word, found {kind_of(key)}")
            elif key.plain and key.text == "<<":
                for found in self._merged(value, place):
                    merged.setdefault(found[0], found)
            elif key.text in own:
                first = own[key.text][1].line
                where = place.at(key.mark, key.text)
                self.problems.error(where, "this key is used twice", f"first on line {first}; remove one")
            else:
                own[key.text] = (key.text, key.mark, value)
        return [*own.values(), *(found for key, found in merged.items() if key not in own)]

    def _merged(self, value: Node, place: Place) -> list[tuple[str, Mark, Node]]:
        sources = value.items if isinstance(value, Items) else (value,)
        found: list[tuple[str, Mark, Node]] = []
        for source in sources:
            if isinstance(source, Entries):
                found += self._entries(source, place)
            else:
                where = Place(value.mark, place.path)
                self.problems.error(where, "a merge key (<<) needs a section", "write <<: *anchor")
        return found

    def _unknown_key(self, name: str, record: Record, mark: Mark) -> None:
        place, known = record.place, keys_of(record.kind)
        if not name.replace("-", "_").isidentifier() or len(name) > 40:
            # Not repeated: `api_key:value` without the space makes a secret part of the key.
            hint = "every key needs a colon and a space, like `name: head`"
            self.problems.error(Place(mark, place.path), "this is not a key", hint)
            return
        near = self.problems.nearest(name, known)
        if near and known[near].field not in record.values:
            record.misspelled.add(near)
        elsewhere = inner_keys(record.kind).get(name)
        meant = near or (f"{elsewhere}.{name}" if elsewhere else "")
        hint = f"did you mean {meant}?" if meant else f"known here: {', '.join(known)}"
        self.problems.error(place.at(mark, name), "unknown key", hint)

    def _fault(self, place: Place, problem: str, hint: str = "") -> Fault:
        self.problems.error(place, problem, hint)
        return FAULT

    def _value(self, record: Record, name: str, form: Form, node: Node, unit: str = "key") -> Any:
        """The value at `name` of `record`. `unit`: what a person could remove instead of leaving it empty."""
        place = record.places[name]
        if form.type is Any:
            return self._json(node, place)
        if is_nothing(node):
            return self._fault(place, "has no value", f"give one, or remove the {unit}")
        if form.when_empty and isinstance(node, Items) and not node.items:
            return self._fault(place, "is an empty list", form.when_empty)
        if form.item is not None:
            read = self._list if form.type is tuple else self._mapping
            return read(record, name, form.item, node)
        return self.section(node, form.section, place) if form.section else self._single(record, name, form, node)

    def _single(self, record: Record, name: str, form: Form, node: Node) -> Any:
        if not isinstance(node, Scalar):
            return self._fault(record.places[name], f"expected a single value, found {kind_of(node)}")
        if form.type is Secret:
            return self._secret(record, name, form, node)
        if form.type is str:
            return self._text(record, name, form, node)
        try:
            return scalars.convert(form, node)
        except SettingError as found:
            self.problems.note(record.places[name], found)
            return FAULT

    def _list(self, record: Record, name: str, item_form: Form, node: Node) -> Any:
        place = record.places[name]
        if isinstance(node, Scalar) and item_form.type is Secret:
            node = Items(node.mark, (node,), 2, 2)  # `alertmanager: http://…`: one address needs no brackets
        if not isinstance(node, Items):
            return self._fault(place, f"expected a list, found {kind_of(node)}", "write it like [one, two]")
        values = []
        for number, item in enumerate(node.items):
            inner = f"{name}[{number}]"
            record.places[inner] = place.at(item.mark, number)
            values.append(self._value(record, inner, item_form, item, "entry"))
        return tuple(values)

    def _mapping(self, record: Record, name: str, item_form: Form, node: Node) -> Any:
        place = record.places[name]
        if not isinstance(node, Entries):
            return self._fault(place, f"expected a section with keys, found {kind_of(node)}")
        found = {}
        for key, _, item in self._entries(node, place):
            inner = f"{name}.{key}"
            record.places[inner] = place.at(item.mark, key)
            value = self._value(record, inner, item_form, item)
            if not isinstance(value, Fault):
                found[key] = value
        return found

    def _text(self, record: Record, name: str, form: Form, node: Scalar) -> str | Fault:
        place = record.places[name]
        if LINE_BREAK_OR_CONTROL.search(node.text):
            return self._fault(place, "contains a line break or a control character", "write it on one line")
        if not node.text.strip():
            return self._fault(place, "is empty", "give a text, or remove the key")
        if len(node.text) > MAX_TEXT:
            return self._fault(place, f"is longer than {MAX_TEXT} characters")
        text = self._expanded(node.text, place)
        if isinstance(text, Fault):
            return text
        if text != node.text:
            record.from_environment.add(name)
        return str(self.references.path(text)) if form.is_path else text

    def _expanded(self, text: str, place: Place) -> str | Fault:
        expanded = self.references.expand(text, secret=False)
        for found in expanded.faults:
            self.problems.note(place, found)
        return FAULT if expanded.faults else expanded.text

    def _secret(self, record: Record, name: str, form: Form, node: Scalar) -> Secret | Fault:
        place = record.places[name]
        if (CONTROL_BUT_LINES if form.has_lines else LINE_BREAK_OR_CONTROL).search(node.text):
            return self._fault(place, "contains a line break or a control character", "write it on one line")
        if not node.text.strip() or len(node.text) > MAX_SECRET:
            return self._fault(place, "is empty" if not node.text.strip() else "is too long")
        expanded = self.references.expand(node.text, secret=True, lines=form.has_lines)
        for found in expanded.faults:
            self.problems.note(place, found)
        if expanded.is_literal:
            record.literals[name] = expanded.text
        return FAULT if expanded.faults else Secret(expanded.text)

    def _json(self, node: Node, place: Place) -> Any:
        if isinstance(node, Items):
            return [self._json(item, place.at(item.mark, number)) for number, item in enumerate(node.items)]
        if isinstance(node, Entries):
            return {key: self._json(value, place.at(value.mark, key)) for key, _, value in self._entries(node, place)}
        try:
            value = scalars.json_scalar(node)
        except SettingError as found:
            self.problems.note(place, found)
            return FAULT
        return self._expanded(value, place) if isinstance(value, str) else value
