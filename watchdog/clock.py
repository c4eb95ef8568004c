"""The only place that reads the time, and waiting for it or for an event. Everything else takes `now` or a `Clock`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Protocol

# Linux has a clock of its own that goes on while the machine sleeps; macOS gives its monotonic one that meaning.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class Clock(Protocol):
    """Wall time in Unix seconds, monotonic time in seconds, and sleeping."""

    def wall(self) -> float:
        """Unix seconds; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; stops while the machine sleeps."""
        ...

    def elapsed(self) -> float:
        """Seconds that never go back, and go on while the machine sleeps: what the wall clock should have moved by."""
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

    def elapsed(self) -> float:
        return time.monotonic() if _ELAPSED is None else time.clock_gettime(_ELAPSED)

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(max(0.0, duration_s))


async def sleep_or_event(clock: Clock, duration_s: float, event: asyncio.Event) -> None:
    """Return once `event` is set, or after `duration_s` of the clock; the event stays as it is."""
    sleep = asyncio.ensure_future(clock.sleep(max(0.0, duration_s)))
    woken = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((sleep, woken), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleep.cancel()
        woken.cancel()


async def run_while(work: Coroutine[None, None, None], wanted: Callable[[], bool], changed: asyncio.Event) -> bool:
    """Run `work` until it ends (True; raises what it raised) or is no longer `wanted` (False; it is cancelled).

    `wanted` is asked again, and the event cleared, each time `changed` is set.
    """
    task = asyncio.create_task(work)
    try:
        while wanted():
            woken = asyncio.ensure_future(changed.wait())
            try:
                await asyncio.wait((task, woken), return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
            changed.clear()
            if task.done():
                task.result()
                return True
        return False
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
