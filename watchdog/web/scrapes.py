"""`/probe`: a Prometheus asks, we probe, and it gets the result. Never a burst, whoever asks how often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchdog.clock import Clock
from watchdog.model import Observation

RunProbe = Callable[[str], Awaitable[Observation | None]]
"""Server name → the observation of a probe made now; None if there is no such server."""
FRESH_SHARE = 0.5
"""Two who ask within half of a server's interval share one probe: a pair of Prometheus servers asks for one."""


@dataclass(frozen=True, slots=True)
class _Last:
    observation: Observation
    at: float


class ScrapedProbes:
    """Probes that are made when they are asked for; one in flight per server."""

    def __init__(self, run: RunProbe, clock: Clock) -> None:
        """`run` makes one probe and takes its result in as any other."""
        self._run = run
        self._clock = clock
        self._last: dict[str, _Last] = {}
        self._running: dict[str, asyncio.Task[Observation | None]] = {}

    async def ask(self, server: str, interval_s: float, within_s: float | None) -> Observation | None:
        """A result not older than half of `interval_s`; None if it is not there `within_s`. The probe goes on then."""
        last = self._last.get(server)
        if last is not None and self._clock.monotonic() - last.at < FRESH_SHARE * interval_s:
            return last.observation
        task = self._running.get(server)
        if task is None:
            task = asyncio.create_task(self._probe(server), name=f"scraped {server}")
            self._running[server] = task
        done, _ = await asyncio.wait((task,), timeout=within_s)
        return task.result() if done else None

    async def _probe(self, server: str) -> Observation | None:
        began = self._clock.monotonic()
        try:
            seen = await self._run(server)
        finally:
            del self._running[server]
        if seen is not None:
            self._last[server] = _Last(seen, began)
        return seen

    async def stop(self) -> None:
        """Cancel what runs; a cancelled probe counts for nothing."""
        running = tuple(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
