"""Moments as a person reads them: local time with its zone, the date only where it is another day."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def moment(at: float, now: float, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """`at` (Unix seconds) in `zone` (None: the machine's own); the date only if it is not that of `now`."""
    local = _local(at, zone)
    clock = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    day = "" if local.date() == _local(now, zone).date() else local.strftime("%Y-%m-%d ")
    return f"{day}{clock} {local.strftime('%Z')}"


def _local(at: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone)
