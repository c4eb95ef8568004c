"""Headless Chromium, driven over its DevTools protocol: pages as a person sees them."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip


def chromium() -> str:
    """The path of Chromium; without it the test is skipped, or fails in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed (requirements/debian.txt)")
        pytest.skip("chromium is not installed (requirements/debian.txt): NOT TESTED")
    return found


class Tab:
    """One page. `requests` holds every address it asked for, `complaints` what it wrote to its console."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Use `browser`."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.requests: list[str] = []
        self.complaints: list[str] = []

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.command(f"{domain}.enable")
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif said["method"] == "Network.requestWillBeSent":
                self.requests.append(said["params"]["request"]["url"])
            elif said["method"] == "Log.entryAdded":
                self.complaints.append(said["params"]["entry"]["text"])

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol; returns its result."""
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._socket.send_json({"id": number, "method": method, "params": params})
        said = await asyncio.wait_for(answer, 60)
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    async def open(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load `url` in a window of that size."""
        phone = width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        await self.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded.clear()
        await self.command("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), 30)

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression (awaited), also where the page's own policy allows no script."""
        said = await self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    async def picture(self, *, whole: bool = True) -> bytes:
        """A PNG of the window, or of the whole page."""
        shot = await self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Tab]:
    """A fresh Chromium with one tab; `profile` must not exist yet."""
    process = await asyncio.create_subprocess_exec(
        chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port_file = profile / "DevToolsActivePort"
        async with asyncio.timeout(30):
            while not port_file.exists() or "\n" not in port_file.read_text():
                assert process.returncode is None, f"chromium ended with {process.returncode}"
                await asyncio.sleep(0.05)
        port = int(port_file.read_text().split()[0])
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
                targets = [one for one in await reply.json() if one["type"] == "page"]
            address = targets[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket, Tab(socket) as tab:
                yield tab
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
