"""The keys of every section, as a table derived from the settings classes in `config`: a field there is a key here.

The walk reads values by it, `docs/generate_reference.py` writes the reference of all keys from it.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from watchdog.config import Limits, NotEmpty, SetByLoading, Text


@dataclass(frozen=True, slots=True)
class Form:
    """What a value looks like: its type, and for a list or a mapping the form of its items.

    `type` is a settings class, `tuple`, `dict`, Any (JSON), or the type of a single value. `or_null` = it may be null.
    """

    type: Any
    item: Form | None = None
    or_null: bool = False
    limits: Limits | None = None
    when_empty: str = ""
    is_path: bool = False
    has_lines: bool = False

    @property
    def section(self) -> type | None:
        """The settings class of this value or, for a list, of its entries."""
        kind: type = self.item.type if self.type is tuple and self.item else self.type
        return kind if is_dataclass(kind) else None


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section: `name` in the file, `field` in the settings class."""

    name: str
    field: str
    form: Form
    default: Any
    required: bool


@functools.cache
def fields_of(kind: type) -> Mapping[str, Key]:
    """Field of the settings class `kind` → its key. A duration `interval_s` is written as `interval: 90s`."""
    hints = get_type_hints(kind, include_extras=True)
    keys = {}
    for one in dataclasses.fields(kind):
        if SetByLoading not in get_args(hints[one.name]):
            form = _form_of(hints[one.name])
            name = one.name.removesuffix("_s") if form.type is float else one.name
            default = None if one.default is MISSING else one.default
            if one.default_factory is not MISSING:
                default = one.default_factory()
            required = one.default is MISSING and one.default_factory is MISSING
            keys[one.name] = Key(name, one.name, form, default, required)
    return keys


@functools.cache
def keys_of(kind: type) -> Mapping[str, Key]:
    """Name in the file → key of the section `kind`."""
    return {key.name: key for key in fields_of(kind).values()}


@functools.cache
def inner_keys(kind: type) -> Mapping[str, str]:
    """Key of a section inside the section `kind` → that section; of several the first."""
    found: dict[str, str] = {}
    for outer in keys_of(kind).values():
        if outer.form.section and outer.form.item is None:
            found = dict.fromkeys(keys_of(outer.form.section), outer.name) | found
    return found


def _form_of(hint: Any) -> Form:
    marks: list[Any] = []
    while get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        marks += more
    if get_origin(hint) in (Union, types.UnionType):
        inner = next(part for part in get_args(hint) if part is not type(None))
        form = dataclasses.replace(_form_of(inner), or_null=True)
    elif get_origin(hint) is tuple:
        form = Form(tuple, _form_of(get_args(hint)[0]))
    elif get_origin(hint) is not None:
        form = Form(dict, _form_of(get_args(hint)[1]))
    else:
        form = Form(hint)
    for mark in marks:
        if isinstance(mark, Limits):
            form = dataclasses.replace(form, limits=mark)
        elif isinstance(mark, NotEmpty):
            form = dataclasses.replace(form, when_empty=mark.hint)
        else:
            form = dataclasses.replace(form, is_path=mark is Text.PATH, has_lines=mark is Text.LINES)
    return form
