"""One written value → a duration, number, truth value, severity or JSON value; refuses what could be meant two ways."""

from __future__ import annotations

import math
import re
import zoneinfo
from datetime import datetime, time
from zoneinfo import ZoneInfo

from watchdog.config import (
    AlertingSettings,
    HeartbeatSettings,
    HostSettings,
    KernelLogSettings,
    MaintenanceSettings,
    ProbeSettings,
    ReceiverSettings,
    ServerSettings,
    Size,
    VitalsSettings,
)
from watchdog.loading.records import shown
from watchdog.loading.yaml_tree import Entries, Items, Node, Scalar
from watchdog.model import Json

UNITS_S = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
DURATION_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|[wdhms])", re.ASCII)
MAX_DURATION_S = 3660 * 86400.0
INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
REAL = re.compile(r"-?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][-+]?\d{1,4})?", re.ASCII)
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MAYBE_TRUTH = {"on": "true", "yes": "true", "y": "true", "off": "false", "no": "false", "n": "false"}
NOTHING = ("", "~", "null", "Null", "NULL")
NO_NUMBER = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class ScalarError(Exception):
    """A written value that is not of the wanted kind."""

    def __init__(self, problem: str, hint: str = "") -> None:
        """Take the problem and what may have been meant."""
        self.problem, self.hint = problem, hint
        super().__init__(problem)


def duration(text: str) -> float:
    """Seconds from `90s`, `2m`, `1h30m`, `500ms`, `7d`; raises ScalarError. A number needs its unit."""
    total, end, previous = 0.0, 0, math.inf
    for part in DURATION_PART.finditer(text):
        unit_s = UNITS_S[part[2]]
        if part.start() != end or unit_s >= previous:
            break
        total, end, previous = total + float(part[1]) * unit_s, part.end(), unit_s
    if end == len(text) > 0:
        if total > MAX_DURATION_S:
            raise ScalarError(f"{shown(text)} is longer than ten years")
        return total
    if INTEGER.fullmatch(text) and not text.startswith("-"):
        raise ScalarError(f"{shown(text)} is a duration without a unit", f"did you mean {text}s?")
    raise ScalarError(f"{shown(text)} is no duration", "write it like 90s, 2m, 1h or 1h30m")


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
    """Bytes from `4GiB`, `512MiB`, `100B`; raises ScalarError. `GB` is refused, as it means two sizes."""
    if found := SIZE.fullmatch(text):
        return Size(float(found[1]) * SIZES[found[2] or ""])
    meant = SIZE_MEANT.fullmatch(text)
    hint = f"did you mean {meant[1]}{meant[2].upper()}iB?" if meant else "write it like 4GiB or 512MiB"
    raise ScalarError(f"{shown(text)} is no size", hint)


def written_size(count: float) -> str:
    """The shortest text that `size` reads back, to three digits behind the point: 4294967296 → `4GiB`."""
    unit = next((unit for unit, factor in reversed(SIZES.items()) if count >= factor), "")
    return f"{round(count / SIZES[unit], 3):g}{unit}{'iB' if unit else 'B'}"


def integer(node: Scalar) -> int:
    """A whole number in plain decimal digits; raises ScalarError."""
    if node.plain and INTEGER.fullmatch(node.text):
        return int(node.text)
    if INTEGER.fullmatch(node.text):
        raise ScalarError("expected a whole number, found text in quotes", f"did you mean {node.text}?")
    raise ScalarError(f"expected a whole number, found {shown(node.text)}")


def truth(node: Scalar) -> bool:
    """`true` or `false`. `on`, `yes` and their like are refused: YAML versions differ about them."""
    value = TRUTH.get(node.text)
    if value is not None and node.plain:
        return value
    likely = MAYBE_TRUTH.get(node.text.lower()) or (node.text.lower() if value is not None else None)
    raise ScalarError(f"expected true or false, found {shown(node.text)}", f"did you mean {likely}?" if likely else "")


CLOCK_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)


def clock_time(text: str) -> time:
    """A time of day like `02:30`; raises ScalarError."""
    found = CLOCK_TIME.fullmatch(text)
    if found is None:
        raise ScalarError(f"{shown(text)} is no time of day", "write it like 02:30, from 00:00 to 23:59")
    return time(int(found[1]), int(found[2]))


def moment(text: str) -> datetime:
    """An absolute time like `2026-11-03T22:00+01:00`; raises ScalarError, also when the offset from UTC is missing."""
    example = "write it like 2026-11-03T22:00+01:00, or with Z for UTC"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ScalarError(f"{shown(text)} is no date and time", example) from None
    if found.tzinfo is None:
        raise ScalarError(f"{shown(text)} does not say its offset from UTC, so it may mean many moments", example)
    if not 1970 < found.year < 9999:
        raise ScalarError(f"{shown(text)} is no date of this world", example)
    return found


def time_zone(text: str) -> ZoneInfo:
    """A zone of the IANA database like `Europe/Berlin`; raises ScalarError. `text` may not be a path or an offset."""
    try:
        return ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ScalarError(f"there is no time zone {shown(text)}", "write it like Europe/Berlin, or UTC") from None


def is_nothing(node: Node) -> bool:
    """Whether the value is empty or a plain `null`."""
    return isinstance(node, Scalar) and node.plain and node.text in NOTHING


def json_scalar(node: Scalar) -> Json:
    """The JSON value of one written value, as YAML 1.2 reads it; raises ScalarError for what JSON does not have."""
    text = node.text
    if not node.plain:
        return text
    if text in NOTHING:
        return None
    if text in TRUTH:
        return TRUTH[text]
    if text.lower() in MAYBE_TRUTH:
        raise ScalarError(
            f"{shown(text)} may mean text or a truth value", f"write {MAYBE_TRUTH[text.lower()]}, or put it in quotes"
        )
    if NO_NUMBER.fullmatch(text):
        raise ScalarError(f"{shown(text)} is no JSON number", "put it in quotes if text is meant")
    if INTEGER.fullmatch(text):
        return int(text)
    if REAL.fullmatch(text) and any(sign.isdigit() for sign in text):
        value = float(text)
        if math.isinf(value):
            raise ScalarError(f"{shown(text)} is too large")
        return value
    return text


def kind_of(node: Node) -> str:
    """What a node is, in the words of a person."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Entries):
        return "a section with keys"
    return "nothing" if is_nothing(node) else "a single value"


# The range of every number in the configuration: least and most, both allowed.

DAY_S = 86400.0
LIMITS: dict[tuple[type, str], tuple[float, float]] = {
    (ProbeSettings, "interval_s"): (1.0, 7 * DAY_S),
    (ProbeSettings, "timeout_s"): (0.1, 3600.0),
    (ProbeSettings, "max_tokens"): (1, 4096),
    (ProbeSettings, "failures"): (1, 100),
    (ProbeSettings, "successes"): (1, 100),
    (ProbeSettings, "metrics_timeout_s"): (0.1, 60.0),
    (KernelLogSettings, "interval_s"): (1.0, 7 * DAY_S),
    (KernelLogSettings, "timeout_s"): (0.1, 3600.0),
    (KernelLogSettings, "failures"): (1, 100),
    (KernelLogSettings, "successes"): (1, 100),
    (VitalsSettings, "interval_s"): (1.0, 7 * DAY_S),
    (VitalsSettings, "timeout_s"): (0.1, 3600.0),
    (VitalsSettings, "failures"): (1, 100),
    (VitalsSettings, "successes"): (1, 100),
    (VitalsSettings, "memory_available_min"): (Size(2**20), Size(2**44)),
    (HostSettings, "port"): (1, 65535),
    (ReceiverSettings, "timeout_s"): (0.1, 600.0),
    (ReceiverSettings, "fallback_after"): (1, 1000),
    (AlertingSettings, "reminder_first_s"): (1.0, 30 * DAY_S),
    (AlertingSettings, "reminder_every_s"): (1.0, 30 * DAY_S),
    (AlertingSettings, "occurrence_quiet_s"): (1.0, 30 * DAY_S),
    (AlertingSettings, "flap_window"): (2, 100),
    (AlertingSettings, "flap_failures"): (2, 100),
    (AlertingSettings, "expire_delivery_s"): (60.0, 365 * DAY_S),
    (MaintenanceSettings, "duration_s"): (1.0, 7 * DAY_S),
    (HeartbeatSettings, "interval_s"): (1.0, DAY_S),
    (HeartbeatSettings, "timeout_s"): (0.1, 60.0),
}
"""Every number field is in here; a test holds that."""

ONE_OR_MORE = {
    (ServerSettings, "receivers"): "leave the key out to tell every receiver",
    (HostSettings, "receivers"): "leave the key out to tell every receiver",
    (ReceiverSettings, "alertmanager"): "give one address or more",
    (MaintenanceSettings, "days"): "name one day or more, like [sat, sun]",
}
"""Lists whose emptiness would not mean what it says → what to do."""

LINES_ALLOWED = {(HostSettings, "identity")}
"""Secrets of more than one line: a private key in OpenSSH or PEM form."""


def limit_of(kind: type, name: str, value: float) -> str:
    """What is wrong with `value` in field `name`, or an empty text."""
    least, most = LIMITS[kind, name]
    if least <= value <= most:
        return ""
    written = written_duration if name.endswith("_s") else written_size if isinstance(value, Size) else "{:g}".format
    side, bound = ("at least", least) if value < least else ("at most", most)
    return f"{written(value)} is out of range; it must be {side} {written(bound)}"
