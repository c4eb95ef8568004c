"""Run inside a network namespace: reads `survey` or `judge` lines, answers each with one word about our own network."""

from __future__ import annotations

import asyncio
import sys

from tests.support.alerting_path import observed
from watchdog.clock import SystemClock
from watchdog.selfwatch.local_network import Endpoint, LocalNetwork
from watchdog.selfwatch.own_network import OwnNetwork


async def main(server: str, port: int) -> None:
    clock = SystemClock()
    network = OwnNetwork(clock, LocalNetwork(ports=(9,)), None)
    network.watch({"generation/deepseek": Endpoint(server, port), "kernel_log/head": Endpoint(server, 22)})
    while True:
        word = (await asyncio.to_thread(sys.stdin.readline)).strip()
        if word == "survey":
            print("new" if await network.survey() else "same", flush=True)
        elif word == "judge":
            began = clock.monotonic()
            await network.is_back()  # a look of its own, not one that is shared
            seen = await network.attribute(observed(reason="unreachable", at=clock.wall()))
            print(seen.reason, round(clock.monotonic() - began, 2), seen.statement, flush=True)
        else:
            return


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
