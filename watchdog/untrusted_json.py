"""JSON from outside: whatever was sent, what comes out can be computed with, printed and stored."""

from __future__ import annotations

import json
import math
from typing import Any

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
