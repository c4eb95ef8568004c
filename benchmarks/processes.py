"""Starting and measuring the processes that a benchmark compares."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web
from aiohttp.typedefs import Handler

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """What processes took together: CPU seconds so far, resident MiB now."""

    cpu_s: float
    rss_mib: float


def cost_of(pids: list[int]) -> Cost:
    """The cost of these processes and of those they started."""
    cpu_s = rss = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                cpu_s += sum(one.cpu_times()[:4])  # its own and those of children that have ended
                rss += one.memory_info().rss
    return Cost(cpu_s, rss / 2**20)


async def start(*command: str, log: Path | None = None, lines: bool = False) -> asyncio.subprocess.Process:
    """Start a process; `lines` gives its standard output as a pipe, else all it says goes to `log` or nowhere."""
    with contextlib.ExitStack() as files:
        said = files.enter_context(log.open("ab")) if log else asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE if lines else said, stderr=said if log else None, cwd=ROOT
        )


async def stop(process: asyncio.subprocess.Process) -> None:
    """End a process that `start` started, at once if it does not go by itself."""
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 10)
    except TimeoutError:
        process.kill()
        await process.wait()


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class FakeServers:
    """`benchmarks.fake_servers` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        """Use `serving`."""
        self.process, self.port = process, port

    def base_url(self, group: str, server: str) -> str:
        """What a client of `group` asks when it asks `server`."""
        return f"http://127.0.0.1:{self.port}/{group}/{server}/v1"

    async def get(self, path: str) -> Any:
        """The JSON behind `path`."""

        def ask() -> Any:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
                return json.load(reply)

        return await asyncio.to_thread(ask)

    async def put_into(self, mode: str, *servers: str) -> None:
        """Make `servers` `ok`, `hang` or `500`."""
        for server in servers:
            await self.get(f"/set/{server}/{mode}")


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[FakeServers]:
    """The fake servers, as long as the block lasts."""
    process = await start(sys.executable, "-m", "benchmarks.fake_servers", lines=True)
    try:
        assert process.stdout is not None
        yield FakeServers(process, int(await process.stdout.readline()))
    finally:
        await stop(process)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for state and logs that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="inference-watchdog-bench-") as name:
        yield Path(name)


@contextlib.asynccontextmanager
async def watchdog(config: str, directory: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Our daemon with this configuration, state and log below `directory`."""
    path = directory / "config.yaml"
    path.touch(mode=0o600)
    path.write_text(config)
    process = await start(
        *(sys.executable, "-m", "watchdog", "run", "--config", str(path), "--state-dir", str(directory / "state")),
        log=directory / "watchdog.log",
    )
    try:
        yield process
    finally:
        await stop(process)


async def _take(request: web.Request) -> web.Response:
    await request.read()
    return web.Response()


@contextlib.asynccontextmanager
async def webhook(answer: Handler = _take) -> AsyncIterator[str]:
    """A webhook on loopback that answers everything with `answer`; gives its address without the scheme."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}/hook"
    finally:
        await runner.cleanup()
