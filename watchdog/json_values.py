"""JSON values: from outside, where whatever was sent can be computed with, printed and stored; and of our own types.

Frozen dataclasses are written and read back by one rule for everything that is stored: one whose fields are
keyword-only becomes an object, any other one a row of its values in order. A field with `metadata={"json": NAME}` is
stored under that name: it was renamed in the code after it had been stored. One with `metadata={"sparse": True}` came
later than the others and is left out while it is None or an empty tuple.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from datetime import tzinfo
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from watchdog.model import Json
from watchdog.text import without_surrogates

DEEPEST = 64
"""Lists and objects within each other; nothing we ask for comes near it, and code that walks deeper would fail."""
_LONGEST_NUMBER = 18
_GREATEST = 1e18


def loads_untrusted(text: str | bytes) -> Json:
    """The value of a JSON text; raises ValueError if it is none, or nested deeper than `DEEPEST`.

    Numbers that nobody counts to, and `NaN` and its kind, become None; lone surrogates become question marks.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > DEEPEST:
        _demand_shallow(value)
    return _clean(value) if "\\u" in text else value


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else None


def _fraction(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) and abs(value) <= _GREATEST else None


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=lambda _word: None)


def _demand_shallow(value: Json) -> None:
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        level = [part for part in level if isinstance(part, dict | list)]
        if not level:
            return
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
    raise ValueError("nested too deeply")


def _clean(value: Json) -> Json:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(name): _clean(item) for name, item in value.items()}
    return value


# Our own types.

T = TypeVar("T")
_Decode = Callable[[Any], Any]


def to_json(value: object) -> Json:
    """`value` as a JSON value: dataclasses, enums, time zones, mappings and tuples become what JSON has for them."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        if _is_object(fields):
            given = ((field, getattr(value, field.name)) for field in fields)
            return {_key(field): to_json(one) for field, one in given if one not in (None, ()) or not _is_sparse(field)}
        return [to_json(getattr(value, field.name)) for field in fields]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return str(value) if isinstance(value, tzinfo) else value


def from_json(kind: type[T], raw: Json) -> T:
    """The `kind` (a dataclass) that `to_json` wrote. Missing fields take their default, unknown ones are ignored.

    Raises ValueError if it is no such thing: a required field is missing, a word is none of its enum's.
    """
    of_any: Any = kind
    decode = _decoder(of_any)
    try:
        decoded: T = raw if decode is None else decode(raw)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"not a stored {kind.__name__}: {error}") from error
    return decoded


def _is_object(fields: tuple[dataclasses.Field[Any], ...]) -> bool:
    return all(field.kw_only for field in fields)


def _key(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get("json", field.name))


def _is_sparse(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("sparse"))


@cache
def _decoder(kind: Any) -> _Decode | None:
    """What turns a JSON value into a `kind`; None if it already is one."""
    if get_origin(kind) is not None:
        return _generic_decoder(get_origin(kind), get_args(kind))
    if kind is tzinfo:
        return _zone
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_decoder(kind)
    return kind if isinstance(kind, type) and issubclass(kind, Enum) else None


def _generic_decoder(origin: Any, inner: tuple[Any, ...]) -> _Decode | None:
    if origin in (Union, UnionType):
        (some,) = (_decoder(one) for one in inner if one is not NoneType)
        return None if some is None else lambda raw: None if raw is None else some(raw)
    if origin is tuple:
        return _tuple_decoder(inner)
    each = _decoder(inner[1])  # a mapping
    return dict if each is None else lambda raw: {key: each(item) for key, item in raw.items()}


def _dataclass_decoder(kind: type) -> _Decode:
    fields, hints = dataclasses.fields(kind), get_type_hints(kind)
    columns = tuple((_key(field), field.name, _decoder(hints[field.name])) for field in fields)
    is_object = _is_object(fields)

    def decode(raw: Json) -> object:
        given = raw if is_object else dict(zip((key for key, _, _ in columns), raw, strict=False))
        return kind(**{name: part(given[key]) if part else given[key] for key, name, part in columns if key in given})

    return decode


def _tuple_decoder(inner: tuple[Any, ...]) -> _Decode:
    decoders = [_decoder(one) for one in inner if one is not Ellipsis]
    if Ellipsis in inner:
        each = decoders[0]
        return tuple if each is None else lambda raw: tuple([each(item) for item in raw])
    return lambda raw: tuple([one(item) if one else item for one, item in zip(decoders, raw, strict=True)])


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only maintenance windows have one

    return ZoneInfo(name)
