"""Small statistics: percentiles, and a share with what may be said about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
