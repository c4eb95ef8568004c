"""Every kind of hostile server in a process of its own, so that serving them does not slow down who is tested.

Run as a program it prints one JSON line, kind → port, and serves until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.support import llm_server

_ROOT = Path(__file__).parents[2]


async def _serve() -> None:
    players: dict[str, llm_server.Player] = {
        "silence": llm_server.silence,
        "drip": llm_server.drip,
        "drip_headers": llm_server.drip_headers,
        "endless_header": llm_server.endless_header,
        "endless_headers": llm_server.endless_headers,
        "huge_body": llm_server.huge_body,
        "endless_text": llm_server.endless_text,
        "gzip_bomb": llm_server.gzip_bomb(),
        "keepalive_only": llm_server.recorded("mlx-keepalive-only", scale=0.05),
    }
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(llm_server.LlmServer(llm_server.routes(player)))
            for name, player in players.items()
        }
        print(json.dumps({name: server.port for name, server in servers.items()}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@asynccontextmanager
async def hostile_servers() -> AsyncIterator[dict[str, int]]:
    """Start them in a process of their own; gives kind → port, and stops that process at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.hostile_servers",
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
