"""Figures over a stretch of time: shares and percentiles, blind time, and a server's past in buckets for a plot."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from watchdog.model import Verdict
from watchdog.store import BlindWindow, Sample
from watchdog.text import local_time

HOUR_S = 3600.0
DAY_S = 86400.0
Z_95 = 1.959963984540054
"""The standard normal quantile of a two-sided 95 % interval."""
BUCKETS = 240
"""Buckets of a plot: more than a phone has pixels for, few enough to be small."""


def cut_points(values: Sequence[float], parts: int) -> list[float]:
    """The `parts - 1` quantiles that cut `values` (at least one, in any order) into equally likely parts."""
    # Before Python 3.13 the standard library refuses a single value.
    return statistics.quantiles(values if len(values) > 1 else [*values, *values], n=parts, method="inclusive")


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
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return (
            0.0 if self.count == 0 else max(0.0, centre - half),
            1.0 if self.count == n else min(1.0, centre + half),
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """How many values a measure has, and some percentiles of them (None without values)."""

    count: int
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of `values`, which may be in any order."""
        if not values:
            return cls(0)
        cuts = cut_points(values, 100)
        return cls(len(values), cuts[49], cuts[89], cuts[94], cuts[98], max(values))


def windows_hiding(windows: Iterable[BlindWindow], key: str) -> tuple[BlindWindow, ...]:
    """Those in which nothing was seen of the check `key`, or of anything."""
    return tuple(window for window in windows if window.key in ("", key))


def blind_seconds(windows: Iterable[BlindWindow], since_at: float, until_at: float) -> float:
    """The seconds between `since_at` and `until_at` that `windows` cover; overlapping ones count once."""
    total, covered_until = 0.0, since_at
    for window in sorted(windows, key=lambda one: one.began_at):
        begin = max(window.began_at, covered_until)
        end = min(until_at if window.ended_at is None else window.ended_at, until_at)
        total += max(0.0, end - begin)
        covered_until = max(covered_until, end)
    return total


class Length(StrEnum):
    """The stretches of time that the page can show."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def seconds(self) -> float:
        return {"24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S}[self.value]

    @property
    def words(self) -> str:
        """Its length for people: `7 days`."""
        return {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}[self.value]


@dataclass(frozen=True, slots=True)
class Span:
    """From `since_at` to `until_at` (Unix seconds), and the labels of equally spaced marks, both ends included."""

    since_at: float
    until_at: float
    marks: tuple[str, ...]

    @property
    def length_s(self) -> float:
        return self.until_at - self.since_at

    def share(self, at: float) -> float:
        """Where `at` lies, from 0 (begin) to 1 (end); what lies outside is at the nearer end."""
        return min(1.0, max(0.0, (at - self.since_at) / self.length_s))


def span_of(length: Length, now: float, zone: tzinfo | None) -> Span:
    """The last `length` up to the next full hour (a day) or midnight (longer), in `zone` (None: the machine's).

    It ends at a round local time so that its marks are round too.
    """
    hour = local_time(now, zone).replace(minute=0, second=0, microsecond=0)
    if length is Length.DAY:
        end, form, step_s, offset_s = hour + timedelta(hours=1), "%H:%M", 6 * HOUR_S, 0.0
    else:
        end = hour.replace(hour=0) + timedelta(days=1)
        form, step_s = ("%a %d", DAY_S) if length is Length.WEEK else ("%d %b", 5 * DAY_S)
        # When the clocks change midnight is an hour off: half a day later it is still the right date.
        offset_s = DAY_S / 2
    since_at = end.timestamp() - length.seconds
    count = round(length.seconds / step_s) + 1
    marks = (local_time(since_at + number * step_s + offset_s, zone).strftime(form) for number in range(count))
    return Span(since_at, end.timestamp(), tuple(marks))


def span_between(since_at: float, until_at: float, zone: tzinfo | None, marks: int = 7) -> Span:
    """From `since_at` to `until_at` with `marks` equally spaced marks: times of day up to two days, then dates."""
    form = "%a %H:%M" if until_at - since_at <= 2 * DAY_S else "%d %b"
    step_s = (until_at - since_at) / (marks - 1)
    times: Iterable[datetime] = (local_time(since_at + number * step_s, zone) for number in range(marks))
    return Span(since_at, until_at, tuple(time.strftime(form) for time in times))


@dataclass(frozen=True, slots=True)
class Level:
    """One measure within one bucket: its median, and what 95 % of its values stay below (above, for a speed)."""

    median: float
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
    """A server's past: equally long buckets in time order, and each measure over the whole of the time."""

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

    def add(self, sample: Sample) -> None:
        self.duration.append(sample.duration_s)
        if sample.ttft_s is not None:
            self.ttft.append(sample.ttft_s)
        if sample.tokens_per_s is not None:
            self.speed.append(sample.tokens_per_s)


def series_of(samples: Iterable[Sample], span: Span, buckets: int = BUCKETS) -> Series:
    """`samples` sorted into `buckets` over `span`; only passing ones have times, a failure's time says nothing."""
    filled, values, every = [Bucket() for _ in range(buckets)], [_Values() for _ in range(buckets)], _Values()
    for sample in samples:
        position = int((sample.at - span.since_at) / span.length_s * buckets)
        if not 0 <= position < buckets:
            continue
        bucket = filled[position]
        if sample.verdict is Verdict.FAIL:
            bucket.fails += 1
        elif sample.verdict is Verdict.UNKNOWN:
            bucket.unknowns += 1
        else:
            bucket.passes += 1
            values[position].add(sample)
            every.add(sample)
    for bucket, found in zip(filled, values, strict=True):
        bucket.ttft, bucket.duration = _level(found.ttft, 95), _level(found.duration, 95)
        bucket.speed = _level(found.speed, 5)
    return Series(
        tuple(filled),
        sum(bucket.passes for bucket in filled),
        sum(bucket.fails for bucket in filled),
        sum(bucket.unknowns for bucket in filled),
        Spread.of(every.ttft),
        Spread.of(every.duration),
        Spread.of(every.speed),
    )


def _level(values: list[float], worst_percent: int) -> Level | None:
    if not values:
        return None
    cuts = cut_points(values, 20)
    return Level(cuts[9], cuts[worst_percent // 5 - 1])
