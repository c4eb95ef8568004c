"""When to say nothing new: silences and maintenance windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Keeps quiet about what matches, until `ends_at`. `matcher` maps label names to a value, or a prefix and `*`.

    It never hides the end of something its receiver was told about.
    """

    id: str
    matcher: Mapping[str, str]
    starts_at: float
    ends_at: float
    reason: str
    author: str = ""


def matches_value(wanted: str, value: str) -> bool:
    """Whether `wanted`, a value or a prefix followed by `*`, stands for `value`."""
    return value.startswith(wanted[:-1]) if wanted.endswith("*") else value == wanted


class Weekday(StrEnum):
    """A day of the week, as a configuration names it."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"

    @property
    def number(self) -> int:
        """0 for Monday to 6 for Sunday, as `datetime.weekday`."""
        return list(Weekday).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A window that comes back every week in a stated time zone, or one that comes `once`.

    `days` are 0 (Monday) to 6, `start` is hour and minute. A start that the clock skips in spring begins when the clock
    has jumped; one that comes twice in autumn begins the first time. The window always lasts `duration_s` of real time.
    `once` is begin and end in Unix seconds; the weekly fields mean nothing then.
    """

    name: str
    matcher: Mapping[str, str] = field(metadata={"json": "match"})
    days: tuple[int, ...] = ()
    start: tuple[int, int] = (0, 0)
    duration_s: float = 0.0
    zone: tzinfo = field(default=UTC, metadata={"json": "time_zone"})
    once: tuple[float, float] | None = None
