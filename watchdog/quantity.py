"""Durations and sizes as people say them. Pure."""

from __future__ import annotations


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
