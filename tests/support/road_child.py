"""Run inside a network namespace: reads `survey` or `judge` lines, answers each with one word about our own road."""

from __future__ import annotations

import asyncio
import sys

from tests.support.station import observed
from watchdog.clock import SystemClock
from watchdog.selfwatch.local_network import Door, Neighbourhood
from watchdog.selfwatch.own_network import OwnRoad


async def main(server: str, port: int) -> None:
    clock = SystemClock()
    road = OwnRoad(clock, Neighbourhood(ports=(9,)), None)
    road.watch({"generation/deepseek": Door(server, port), "kernel_log/head": Door(server, 22)})
    while True:
        word = (await asyncio.to_thread(sys.stdin.readline)).strip()
        if word == "survey":
            print("new" if await road.survey() else "same", flush=True)
        elif word == "judge":
            began = clock.monotonic()
            await road.is_back()  # a look of its own, not one that is shared
            seen = await road.judged(observed(reason="unreachable", at=clock.wall()))
            print(seen.reason, round(clock.monotonic() - began, 2), seen.summary, flush=True)
        else:
            return


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
