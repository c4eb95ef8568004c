"""Durations and sizes as people say them; the middle of many. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def span(duration_s: float) -> str:
    """A duration for people: `40 s`, `6 min`, `3 h 20 min`, `2 d 4 h`."""
    seconds = max(0, round(duration_s))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def gib(size: float) -> str:
    """Bytes for people: `23.4 GiB`, `512 MiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def quantile(samples: Iterable[float], percent: float = 50) -> float:
    """The value that `percent` of the samples do not exceed, between two samples by their distance; 50: the median.

    As `statistics.quantiles` does it (method "inclusive"), whose module would cost an idle daemon 1 MiB for `decimal`
    and `fractions`. Raises ValueError without samples.
    """
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("no samples")
    below, part = divmod((len(ordered) - 1) * percent / 100, 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + (high - low) * part
