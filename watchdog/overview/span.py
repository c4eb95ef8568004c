"""The stretch of time that a page or plot shows, ending at a round local time so that its marks are round too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

HOUR_S = 3600.0
DAY_S = 86400.0


class Length(StrEnum):
    """The stretches that can be asked for."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def seconds(self) -> float:
        """How long it is."""
        return {"24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S}[self.value]

    @property
    def words(self) -> str:
        """As a person says it."""
        return {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}[self.value]


@dataclass(frozen=True, slots=True)
class Span:
    """From `since_at` to `until_at` (Unix seconds), and the words of equally spaced marks, both ends included."""

    since_at: float
    until_at: float
    marks: tuple[str, ...]

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.until_at - self.since_at

    def share(self, at: float) -> float:
        """Where `at` lies, from 0 (begin) to 1 (end); what lies outside is at the nearer end."""
        return min(1.0, max(0.0, (at - self.since_at) / self.length_s))


def span_of(length: Length, now: float, zone: tzinfo | None) -> Span:
    """The last `length` up to the next full hour (a day) or midnight (longer), in `zone` (None: the machine's)."""
    local = datetime.fromtimestamp(now, UTC).astimezone(zone)
    if length is Length.DAY:
        end = local.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        form, step_s = "%H:%M", 6 * HOUR_S
    else:
        end = local.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        form, step_s = ("%a %d", DAY_S) if length is Length.WEEK else ("%d %b", 5 * DAY_S)
    until_at = end.timestamp()
    since_at = until_at - length.seconds
    marks = []
    for number in range(round(length.seconds / step_s) + 1):
        # Over a change of the clocks midnight is an hour off: half a day later it is still the right date.
        at = since_at + number * step_s + (0 if length is Length.DAY else DAY_S / 2)
        shown = datetime.fromtimestamp(at, UTC).astimezone(zone)
        marks.append(shown.strftime(form))
    return Span(since_at, until_at, tuple(marks))


def span_between(since_at: float, until_at: float, zone: tzinfo | None, marks: int = 7) -> Span:
    """From `since_at` to `until_at` with `marks` equally spaced marks: times of day up to two days, then dates."""
    form = "%a %H:%M" if until_at - since_at <= 2 * DAY_S else "%d %b"
    step_s = (until_at - since_at) / (marks - 1)
    moments = (datetime.fromtimestamp(since_at + number * step_s, UTC).astimezone(zone) for number in range(marks))
    return Span(since_at, until_at, tuple(moment.strftime(form) for moment in moments))
