"""Small statistics: percentiles, and a share with what may be said about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from watchdog.model import Verdict
from watchdog.store import Sample

Z_95 = 1.959963984540054
"""The standard normal quantile of a two-sided 95 % interval."""


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value at `share` (0 to 1) of the sorted `ordered`, interpolated between its neighbours; None if empty."""
    if not ordered:
        return None
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `total`, with its Wilson 95 % interval (Wilson 1927): right also for few, none and all."""

    count: int
    total: int

    @property
    def value(self) -> float | None:
        """From 0 to 1; None of nothing."""
        return self.count / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lower and upper bound of the Wilson score interval; None of nothing."""
        if not self.total:
            return None
        n, p, z2 = self.total, self.count / self.total, Z_95 * Z_95
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return (
            0.0 if self.count == 0 else max(0.0, middle - half),
            1.0 if self.count == n else min(1.0, middle + half),
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """How a measure is spread: how many values, and some percentiles (None of nothing)."""

    count: int
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    longest: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of `values` in any order."""
        ordered = sorted(values)
        return cls(
            len(ordered),
            percentile(ordered, 0.5),
            percentile(ordered, 0.9),
            percentile(ordered, 0.95),
            percentile(ordered, 0.99),
            ordered[-1] if ordered else None,
        )


# The stretch of time that a page or plot shows, ending at a round local time so that its marks are round too.

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


# A server's past as a row of buckets of equal length: what a plot draws.

BUCKETS = 240
"""Buckets of a plot: more than a phone has pixels for, few enough to be small."""


@dataclass(frozen=True, slots=True)
class Level:
    """One measure within one bucket: its median, and what 95 % of its values stay below (above, for a speed)."""

    middle: float
    worst: float


@dataclass(slots=True)
class Bucket:
    """What happened in one stretch of time. A level of None: nothing was measured."""

    passes: int = 0
    fails: int = 0
    unknowns: int = 0
    ttft: Level | None = None
    duration: Level | None = None
    speed: Level | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """All buckets in time order, and each measure over the whole of the time."""

    buckets: tuple[Bucket, ...]
    passes: int
    fails: int
    unknowns: int
    ttft: Spread
    duration: Spread
    speed: Spread


@dataclass(slots=True)
class _Values:
    ttft: list[float] = field(default_factory=list)
    duration: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)


def series_of(samples: Iterable[Sample], span: Span, buckets: int = BUCKETS) -> Series:
    """`samples` sorted into `buckets` over `span`; only passing ones have times, a failure's time says nothing."""
    made, values, every = [Bucket() for _ in range(buckets)], [_Values() for _ in range(buckets)], _Values()
    for sample in samples:
        position = int((sample.at - span.since_at) / span.length_s * buckets)
        if not 0 <= position < buckets:
            continue
        bucket = made[position]
        if sample.verdict is Verdict.FAIL:
            bucket.fails += 1
        elif sample.verdict is Verdict.UNKNOWN:
            bucket.unknowns += 1
        else:
            bucket.passes += 1
            for kept in (values[position], every):
                kept.duration.append(sample.duration_s)
                if sample.ttft_s is not None:
                    kept.ttft.append(sample.ttft_s)
                if sample.tokens_per_s is not None:
                    kept.speed.append(sample.tokens_per_s)
    for bucket, found in zip(made, values, strict=True):
        bucket.ttft, bucket.duration = _level(found.ttft, 0.95), _level(found.duration, 0.95)
        bucket.speed = _level(found.speed, 0.05)
    return Series(
        tuple(made),
        sum(bucket.passes for bucket in made),
        sum(bucket.fails for bucket in made),
        sum(bucket.unknowns for bucket in made),
        Spread.of(every.ttft),
        Spread.of(every.duration),
        Spread.of(every.speed),
    )


def _level(values: list[float], worst: float) -> Level | None:
    ordered = sorted(values)
    middle, far = percentile(ordered, 0.5), percentile(ordered, worst)
    return None if middle is None or far is None else Level(middle, far)
