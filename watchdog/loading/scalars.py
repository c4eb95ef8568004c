"""One written value → duration, number, boolean, enum, time or JSON value; refuses what is ambiguous."""

from __future__ import annotations

import math
import re
import zoneinfo
from collections.abc import Callable, Mapping
from datetime import datetime, time
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from watchdog.config import HttpMethod, Limits, Size
from watchdog.loading.problems import SettingError, shown
from watchdog.loading.schema import Form
from watchdog.loading.yaml_tree import Scalar, is_nothing
from watchdog.model import Json, Severity, Weekday

UNITS_S = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
DURATION_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|[wdhms])", re.ASCII)
MAX_DURATION_S = 3660 * 86400.0
INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
REAL = re.compile(r"-?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][-+]?\d{1,4})?", re.ASCII)
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
AMBIGUOUS_BOOLEANS = {"on": "true", "yes": "true", "y": "true", "off": "false", "no": "false", "n": "false"}
NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


def duration(text: str) -> float:
    """Seconds from `90s`, `2m`, `1h30m`, `500ms`, `7d`; raises SettingError. A number needs its unit."""
    total, end, previous = 0.0, 0, math.inf
    for part in DURATION_PART.finditer(text):
        unit_s = UNITS_S[part[2]]
        if part.start() != end or unit_s >= previous:
            break
        total, end, previous = total + float(part[1]) * unit_s, part.end(), unit_s
    if end == len(text) > 0:
        if total > MAX_DURATION_S:
            raise SettingError(f"{shown(text)} is longer than ten years")
        return total
    if INTEGER.fullmatch(text) and not text.startswith("-"):
        raise SettingError(f"{shown(text)} is a duration without a unit", f"did you mean {text}s?")
    raise SettingError(f"{shown(text)} is not a duration", "write it like 90s, 2m, 1h or 1h30m")


def written_duration(seconds: float) -> str:
    """The shortest text that `duration` reads back: 5400 → `1h30m`. From a minute up, parts of a second are dropped."""
    if seconds < 60:
        return f"{seconds:g}s"
    parts, rest = [], int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return "".join(parts)


SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(?:([KMGT])iB|B)", re.ASCII)
SIZE_MEANT = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?([kKmMgGtT])(?:i?[bB])?", re.ASCII)


def size(text: str) -> Size:
    """Bytes from `4GiB`, `512MiB`, `100B`; raises SettingError. `GB` is refused, as it is ambiguous."""
    if found := SIZE.fullmatch(text):
        return Size(float(found[1]) * SIZES[found[2] or ""])
    meant = SIZE_MEANT.fullmatch(text)
    hint = f"did you mean {meant[1]}{meant[2].upper()}iB?" if meant else "write it like 4GiB or 512MiB"
    raise SettingError(f"{shown(text)} is not a size", hint)


def written_size(count: float) -> str:
    """The shortest text that `size` reads back, to three digits behind the point: 4294967296 → `4GiB`."""
    unit = next((unit for unit, factor in reversed(SIZES.items()) if count >= factor), "")
    return f"{round(count / SIZES[unit], 3):g}{unit}{'iB' if unit else 'B'}"


def integer(node: Scalar) -> int:
    """A whole number in plain decimal digits; raises SettingError."""
    if node.plain and INTEGER.fullmatch(node.text):
        return int(node.text)
    if INTEGER.fullmatch(node.text):
        raise SettingError("expected a whole number, found text in quotes", f"did you mean {node.text}?")
    raise SettingError(f"expected a whole number, found {shown(node.text)}")


def boolean(node: Scalar) -> bool:
    """`true` or `false`. `on`, `yes` and the like are refused, as YAML versions differ about them."""
    value = BOOLEANS.get(node.text)
    if value is not None and node.plain:
        return value
    likely = AMBIGUOUS_BOOLEANS.get(node.text.lower()) or (node.text.lower() if value is not None else None)
    raise SettingError(f"expected true or false, found {shown(node.text)}", f"did you mean {likely}?" if likely else "")


CLOCK_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)


def clock_time(text: str) -> time:
    """A time of day like `02:30`; raises SettingError."""
    found = CLOCK_TIME.fullmatch(text)
    if found is None:
        raise SettingError(f"{shown(text)} is not a time of day", "write it like 02:30, from 00:00 to 23:59")
    return time(int(found[1]), int(found[2]))


def timestamp(text: str) -> datetime:
    """An absolute time like `2026-11-03T22:00+01:00`; raises SettingError, also when the offset from UTC is missing."""
    example = "write it like 2026-11-03T22:00+01:00, or with Z for UTC"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise SettingError(f"{shown(text)} is not a date and time", example) from None
    if found.tzinfo is None:
        raise SettingError(f"{shown(text)} has no offset from UTC, so it is ambiguous", example)
    if not 1970 < found.year < 9999:
        raise SettingError(f"{shown(text)} is out of range", example)
    return found


def time_zone(text: str) -> ZoneInfo:
    """A zone of the IANA database like `Europe/Berlin`; raises SettingError. `text` may not be a path or an offset."""
    try:
        return ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingError(f"there is no time zone {shown(text)}", "write it like Europe/Berlin, or UTC") from None


def json_scalar(node: Scalar) -> Json:
    """The JSON value of one written value, as YAML 1.2 reads it; raises SettingError for what JSON does not have."""
    text = node.text
    if not node.plain:
        return text
    if is_nothing(node):
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if text.lower() in AMBIGUOUS_BOOLEANS:
        raise SettingError(
            f"{shown(text)} may mean a text or a boolean",
            f"write {AMBIGUOUS_BOOLEANS[text.lower()]}, or put it in quotes",
        )
    if NOT_A_NUMBER.fullmatch(text):
        raise SettingError(f"{shown(text)} is not a JSON number", "put it in quotes if text is meant")
    if INTEGER.fullmatch(text):
        return int(text)
    if REAL.fullmatch(text) and any(char.isdigit() for char in text):
        value = float(text)
        if math.isinf(value):
            raise SettingError(f"{shown(text)} is too large")
        return value
    return text


FROM_TEXT: Mapping[type, Callable[[str], Any]] = {
    float: duration,
    Size: size,
    time: clock_time,
    datetime: timestamp,
    ZoneInfo: time_zone,
}
ENUM_NAMES = {Severity: "severity", Weekday: "day of the week", HttpMethod: "method"}
"""What a person calls a member of the enum."""


def convert(form: Form, node: Scalar) -> Any:
    """One written value of a form other than free text, within its limits; raises SettingError."""
    if form.type is bool:
        return boolean(node)
    if form.type in ENUM_NAMES:
        return _word(form.type, node.text)
    value = integer(node) if form.type is int else FROM_TEXT[form.type](node.text)
    if form.limits is not None:
        _check_limits(form, form.limits, value)
    return value


def _word(kind: type[StrEnum], text: str) -> StrEnum:
    words = [member.value for member in kind]
    if text in words:
        return kind(text)
    listed = f"{', '.join(words[:-1])} or {words[-1]}"
    raise SettingError(f"{shown(text)} is not a {ENUM_NAMES[kind]}; it is {listed}", typo=(text, words))


def _check_limits(form: Form, limits: Limits, value: float) -> None:
    if limits.least <= value <= limits.most:
        return
    side, bound = ("at least", limits.least) if value < limits.least else ("at most", limits.most)
    raise SettingError(f"{written(form, value)} is out of range; it must be {side} {written(form, bound)}")


def written(form: Form, value: float) -> str:
    """A number of this form as it is written in the file: `2m`, `4GiB`, `5`."""
    if form.type is float:
        return written_duration(value)
    return written_size(value) if form.type is Size else f"{value:g}"
