"""Counting lines per rule and device over a sliding window: many of a mild kind are not mild."""

from __future__ import annotations

from collections.abc import Mapping

from watchdog.kernlog.rules import Burst
from watchdog.model import Json, Severity

BUCKETS = 20
"""A window is counted in this many steps, so what is remembered stays small however many lines come."""

MAX_COUNTED = 100
"""So many pairs of rule and device are counted at once; the one longest without a line is forgotten first."""


class Bursts:
    """Counts over sliding windows. Kept between runs as JSON: `{"rule device": {"step": count}}`."""

    def __init__(self, memory: Json = None) -> None:
        """Go on from what `remembered` gave before; anything unreadable counts as nothing."""
        self._counts: dict[str, dict[int, int]] = {}
        if isinstance(memory, Mapping):
            for name, steps in memory.items():
                if isinstance(steps, Mapping):
                    self._counts[str(name)] = {
                        int(step): int(count)
                        for step, count in steps.items()
                        if str(step).lstrip("-").isdigit() and isinstance(count, int)
                    }

    def raised(self, rule: str, device: str | None, burst: Burst, at: float) -> Severity | None:
        """Count one line at `at` (seconds, any epoch); the burst's severity once the window holds enough of them."""
        name = f"{rule} {device or '-'}"
        step_s = burst.window_s / BUCKETS
        step = int(at // step_s)
        counts = self._counts.pop(name, {})
        counts = {seen: count for seen, count in counts.items() if abs(step - seen) < BUCKETS}
        counts[step] = counts.get(step, 0) + 1
        self._counts[name] = counts
        while len(self._counts) > MAX_COUNTED:
            self._counts.pop(next(iter(self._counts)))
        return burst.severity if sum(counts.values()) >= burst.count else None

    def remembered(self) -> Json:
        """What the next run needs, as JSON."""
        return {name: {str(step): count for step, count in steps.items()} for name, steps in self._counts.items()}
