"""A chat server and a phone for a daemon in a container: a program, steered and read through files.

    python -m tests.support.container_servers DIRECTORY

writes `ports` (chat, phone) when both listen. `mode` may hold a word of `watchdog.demo.rig.Mode`; while a file
`phone-down` is there the phone answers 503. Alerts are appended to `alerts`, one JSON list [title, message] a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from aiohttp import web

from watchdog.demo.rig import ChatServer, Mode


class FilePhone:
    """Receives apprise `json://` notifications and appends them to a file."""

    def __init__(self, directory: Path) -> None:
        """Keep `alerts` in `directory`, and look for `phone-down` there."""
        self._directory = directory
        self.port = 0

    async def start(self) -> None:
        """Listen on a free loopback port."""
        app = web.Application()
        app.router.add_post("/alerts", self._receive)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.json()
        if (self._directory / "phone-down").exists():
            return web.Response(status=503)
        with (self._directory / "alerts").open("a") as file:
            file.write(json.dumps([body["title"], body["message"]]) + "\n")
        return web.Response(text="ok")


async def _serve(directory: Path) -> None:
    chat, phone = ChatServer(), FilePhone(directory)
    await chat.start()
    await phone.start()
    (directory / "ports.new").write_text(f"{chat.port} {phone.port}")
    (directory / "ports.new").rename(directory / "ports")
    wanted = directory / "mode"
    while True:
        chat.mode = Mode(wanted.read_text().strip() or "ok") if wanted.exists() else Mode.OK
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
