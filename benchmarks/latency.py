"""From a fault to the webhook, beside blackbox exporter + Prometheus + Alertmanager on the same fake servers.

    python -m benchmarks.latency [--faults 5] [--interval 15] [--alone]

Both probe every 15 s, wait 10 s, and alert at the first failure (`failures: 1`, `for: 0s`, `group_wait: 0s`).
At random moments, spread over two intervals, some servers hang and others answer with 500; a fault counts until the
webhook has the alert. Exits 1 if the median of ours is over its budget, 3 if the peer is not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from benchmarks import prometheus_stack
from benchmarks.processes import FakeServers, folder, serving, watchdog
from benchmarks.scale import OURS

TIMEOUT_S = 10
BUDGETS_S = {"hang": 18.0, "500": 9.0}
"""Medians, at an interval of 15 s (design §11)."""


def servers_in(body: Any) -> list[str]:
    """The servers that a webhook's body says are failing: ours by its title, theirs by its labels."""
    if "alerts" in body:
        firing = [alert["labels"]["instance"] for alert in body["alerts"] if alert["status"] == "firing"]
        return [address.split("/")[4] for address in firing]
    found = re.match(r"FIRING (\w+):", body.get("title", ""))
    return [found[1]] if found else []


class Ear:
    """A webhook that notes when it heard of a server for the first time. `heard[side][server]` in Unix seconds."""

    def __init__(self) -> None:
        """Nothing was heard yet."""
        self.heard: dict[str, dict[str, float]] = {OURS: {}, prometheus_stack.GROUP: {}}
        self.port = 0

    async def _hear(self, request: web.Request) -> web.Response:
        at = time.time()
        for server in servers_in(await request.json()):
            self.heard[request.path.strip("/")].setdefault(server, at)
        return web.Response()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen on a free port, as long as the block lasts."""
        app = web.Application()
        app.router.add_post("/{side}", self._hear)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()


def configuration(fake: FakeServers, servers: list[str], interval_s: int, port: int) -> str:
    """Ours: the first failure alerts."""
    probe = f"{{interval: {interval_s}s, timeout: {min(TIMEOUT_S, interval_s)}s, failures: 1}}"
    rows = [
        f"  - {{name: {name}, base_url: '{fake.base_url(OURS, name)}', model: tiny, probe: {probe}}}\n"
        for name in servers
    ]
    return f"servers:\n{''.join(rows)}receivers:\n  - {{name: hook, url: 'json://127.0.0.1:{port}/{OURS}'}}\n"


async def measure(options: argparse.Namespace, directory: Path) -> dict[str, dict[str, list[float]]]:
    """Side → kind of fault → seconds from the fault to the webhook; `inf` for one that nobody heard of."""
    kinds = {f"{kind}{number}": kind for kind in BUDGETS_S for number in range(options.faults)}
    servers = {f"e{number}": kind for number, kind in enumerate(kinds.values())}
    chance, broken, ear = random.Random(options.seed), {}, Ear()
    async with serving() as fake, ear.listening(), contextlib.AsyncExitStack() as sides:
        config = configuration(fake, list(servers), options.interval, ear.port)
        (directory / OURS).mkdir()
        await sides.enter_async_context(watchdog(config, directory / OURS))
        watching = [OURS]
        if not options.alone:
            hook = f"http://127.0.0.1:{ear.port}/{prometheus_stack.GROUP}"
            theirs = directory / prometheus_stack.GROUP
            await sides.enter_async_context(
                prometheus_stack.running(fake, list(servers), options.interval, hook, theirs)
            )
            watching.append(prometheus_stack.GROUP)
        await asyncio.sleep(2 * options.interval + 5)

        async def break_one(server: str, kind: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            broken[server] = time.time()
            await fake.put_into(kind, server)

        moments = {server: chance.uniform(0, 2 * options.interval) for server in servers}
        await asyncio.gather(*(break_one(server, servers[server], moments[server]) for server in servers))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(4 * options.interval):
                while any(len(ear.heard[side]) < len(servers) for side in watching):
                    await asyncio.sleep(0.2)
    found: dict[str, dict[str, list[float]]] = {}
    for side in watching:
        found[side] = {kind: [] for kind in BUDGETS_S}
        for server, kind in servers.items():
            found[side][kind].append(ear.heard[side].get(server, float("inf")) - broken[server])
    return found


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=9, help="how many of each kind")
    parser.add_argument("--interval", type=int, default=15)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    absent = [] if options.alone else prometheus_stack.missing()
    if absent:
        print(f"latency: NOT MEASURED, these are not installed: {', '.join(absent)}", file=sys.stderr)
        return 3
    with folder() as directory:
        found = asyncio.run(measure(options, directory))
    print(f"seed {options.seed}, interval {options.interval} s, timeout {TIMEOUT_S} s, fault to webhook in seconds")
    over = False
    for side, kinds in found.items():
        for kind, took in kinds.items():
            median = statistics.median(took)
            over |= side == OURS and median > BUDGETS_S[kind]
            budget = f"   budget {BUDGETS_S[kind]}" if side == OURS else ""
            print(f"{side:7} {kind:5} median {median:5.1f}  min {min(took):5.1f}  max {max(took):5.1f}{budget}")
    if options.json:
        options.json.write_text(json.dumps(found))
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
