"""What `/metrics` reads from the state: open incidents, queues, and how long we were blind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from watchdog.metrics import Reading
from watchdog.model import Severity
from watchdog.store import PLAN, BlindWindow, Reader


def reading_of(reader: Reader, started_at: float, now: float, receivers: Iterable[str]) -> Reading:
    """The state at `now`; blind times count from `started_at`, so that they only ever grow while we run."""
    snapshot = reader.snapshot(now)
    checks = sorted(reader.memory(PLAN) or {})
    open_now = Counter(incident.severity.value for incident in snapshot.open_incidents)
    firing = {incident.key for incident in snapshot.open_incidents}
    waiting = {one.name: one.waiting for one in snapshot.receivers}
    blind = reader.blind_windows(started_at)
    return Reading(
        open_incidents={severity.value: open_now[severity.value] for severity in Severity},
        firing={check: int(check in firing) for check in checks},
        blind_s={check: blind_seconds(blind, check, started_at, now) for check in checks},
        waiting={name: waiting.get(name, 0) for name in receivers},
        storage_ok=snapshot.storage is None,
    )


def blind_seconds(windows: Iterable[BlindWindow], check: str, since_at: float, until_at: float) -> float:
    """The time within `since_at` to `until_at` in which `check` could not be seen; overlapping windows count once."""
    spans = sorted(
        (max(one.began_at, since_at), min(one.ended_at or until_at, until_at))
        for one in windows
        if one.key in ("", check)
    )
    total, seen_until = 0.0, since_at
    for begin, end in spans:
        total += max(0.0, end - max(begin, seen_until))
        seen_until = max(seen_until, end)
    return total
