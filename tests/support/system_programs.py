"""Programs of the system that some tests need, and free ports for them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest


def program(name: str) -> str:
    """The path of an installed program; without it the test is skipped, or fails in CI."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed (requirements/debian.txt)")
        pytest.skip(f"{name} is not installed (requirements/debian.txt): NOT TESTED")
    return found


def free_port() -> int:
    """A port nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def listening(port: int, *command: str, log: Path | None = None) -> AsyncIterator[None]:
    """A program of ours, until it listens at `port`; ended afterwards."""
    sink = log.open("wb") if log is not None else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=sink, stderr=sink)
    try:
        async with asyncio.timeout(20):
            while True:
                with suppress(OSError):
                    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                assert process.returncode is None, f"{command[0]} ended with {process.returncode}"
                await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if not isinstance(sink, int):
            sink.close()
