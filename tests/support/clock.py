"""A clock that moves only when told: whole days of schedule run in milliseconds."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class ManualClock:
    """Wall and monotonic time that advance together, unless `jump_wall` moves the wall clock alone."""

    def __init__(self, wall: float = 1_795_000_000.0) -> None:
        """Start at `wall` Unix seconds and at 1000 monotonic seconds."""
        self._wall = wall
        self._monotonic = 1000.0
        self._asleep = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def wall(self) -> float:
        """Unix seconds."""
        return self._wall

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return self._monotonic

    def elapsed(self) -> float:
        """Monotonic seconds, and those slept."""
        return self._monotonic + self._asleep

    async def sleep(self, duration_s: float) -> None:
        """Wait until `advance` has moved past the end of the sleep."""
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + duration_s, next(self._order), future))
        await future

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock: NTP, or a person."""
        self._wall += seconds

    def sleep_for(self, seconds: float) -> None:
        """The machine sleeps: the monotonic clock stands, the others go on."""
        self._wall += seconds
        self._asleep += seconds

    def stand_still(self, seconds: float) -> None:
        """Both clocks move while nobody runs, as in a paused process. Sleepers wake at the next `advance`."""
        self._wall += seconds
        self._monotonic += seconds

    async def advance(self, seconds: float) -> None:
        """Move both clocks by `seconds`, waking sleepers in order and letting each run until it waits again."""
        end = self._monotonic + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, future = heapq.heappop(self._sleepers)
            self._wall += max(0.0, at - self._monotonic)
            self._monotonic = max(self._monotonic, at)
            if not future.done():
                future.set_result(None)
            await settle()
        self._wall += end - self._monotonic
        self._monotonic = end
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let every ready task run until all of them wait for something else."""
    for _ in range(rounds):
        await asyncio.sleep(0)
