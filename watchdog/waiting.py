"""Waiting for whichever comes first: a time, an event, the end of some work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from watchdog.clock import Clock


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
