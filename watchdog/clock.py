"""The only place that reads the time. Everything else takes `now` or a `Clock`."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in Unix seconds, monotonic time in seconds, and sleeping."""

    def wall(self) -> float:
        """Unix seconds; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; stops while the machine sleeps."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Return after `duration_s` seconds of monotonic time."""
        ...


class SystemClock:
    def wall(self) -> float:
        """Unix seconds from the system's real-time clock."""
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(max(0.0, duration_s))
