"""A server's past as a row of buckets of equal length: what a plot draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from watchdog.model import Verdict
from watchdog.overview.figures import Spread, percentile
from watchdog.overview.span import Span
from watchdog.store import Sample

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
