"""Does it grow? One daemon, kept busy: a server asked every second, two hosts, a page scraped every second.

    python -m benchmarks.soak [--minutes 60]

The webhook is flaky: it refuses, or says nothing, every third message. The server fails for ten seconds a minute. The
resident memory is read every half minute; after the first third of the time it may move by 3 MiB, no more. Exits 1 if
it does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil
from aiohttp import web
from aiohttp.typedefs import Handler

from benchmarks.processes import FakeServers, folder, free_port, serving, start, stop, watchdog, webhook

LEVEL_MIB = 3.0
_EVERY_S = 30.0


def flaky() -> Handler:
    """An answer that takes two of three messages."""
    count = itertools.count()

    async def take(request: web.Request) -> web.Response:
        await request.read()
        number = next(count)
        if number % 6 == 5:
            await asyncio.sleep(30)
        return web.Response(status=503 if number % 3 == 2 else 200)

    return take


@contextlib.asynccontextmanager
async def demo_hosts(directory: Path) -> AsyncIterator[str]:
    """The two machines of the demo, in another process; gives the `hosts:` of a configuration."""
    place = directory / "rig"
    place.mkdir()
    process = await start(sys.executable, "-m", "watchdog.demo.rig", str(place), lines=True)
    try:
        assert process.stdout is not None
        config = Path(json.loads(await process.stdout.readline())["config"]).read_text()
        yield config.partition("hosts:\n")[2].partition("receivers:")[0]
    finally:
        await stop(process)


async def fail_now_and_then(fake: FakeServers) -> None:
    """Ten seconds a minute, until cancelled."""
    while True:
        await asyncio.sleep(50)
        await fake.put_into("500", "s")
        await asyncio.sleep(10)
        await fake.put_into("ok", "s")


async def scrape(port: int) -> None:
    """The page and the metrics, every second, until cancelled."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            await asyncio.sleep(1)
            for path in ("/", "/metrics"):
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"http://127.0.0.1:{port}{path}") as reply:
                        await reply.read()


async def measure(minutes: float) -> list[tuple[float, float]]:
    """(minute, resident MiB) of the daemon."""
    curve = []
    with folder() as directory:
        async with contextlib.AsyncExitStack() as parts:
            fake = await parts.enter_async_context(serving())
            hook = await parts.enter_async_context(webhook(flaky()))
            hosts = await parts.enter_async_context(demo_hosts(directory))
            port = free_port()
            config = (
                f"servers:\n  - {{name: s, base_url: '{fake.base_url('ours', 's')}', model: tiny, "
                "probe: {interval: 1s, timeout: 1s}}\n"
                f"hosts:\n{hosts.rstrip()}\n"
                f"receivers:\n  - {{name: hook, url: 'json://{hook}', timeout: 5s}}\n"
                f"web: {{listen: '127.0.0.1:{port}'}}\n"
            )
            daemon = await parts.enter_async_context(watchdog(config, directory))
            tasks = [asyncio.create_task(one) for one in (fail_now_and_then(fake), scrape(port))]
            clock = asyncio.get_running_loop().time
            began, process = clock(), psutil.Process(daemon.pid)
            while clock() - began < minutes * 60:
                await asyncio.sleep(_EVERY_S)
                curve.append(((clock() - began) / 60, process.memory_info().rss / 2**20))
                print(f"{curve[-1][0]:6.1f} min {curve[-1][1]:7.1f} MiB", flush=True)
            for task in tasks:
                task.cancel()
    return curve


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long")
    options = parser.parse_args()
    curve = asyncio.run(measure(options.minutes))
    later = [rss for minute, rss in curve if minute >= options.minutes / 3]
    spread = max(later) - min(later)
    print(f"after {options.minutes / 3:.0f} min: {min(later):.1f} to {max(later):.1f} MiB   budget {LEVEL_MIB} MiB")
    return int(spread > LEVEL_MIB)


if __name__ == "__main__":
    sys.exit(main())
