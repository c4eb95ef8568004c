"""A receiver that stands for your phone: a webhook on loopback that hands each alert to a callback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Alert:
    """What arrived: apprise's JSON form."""

    title: str
    message: str


class Phone:
    """Receives apprise `json://` notifications."""

    def __init__(self, on_alert: Callable[[Alert], None]) -> None:
        """`on_alert` is called for each alert, in the order of arrival."""
        self._on_alert = on_alert
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """What goes into a receiver's `url:`."""
        return f"json://127.0.0.1:{self.port}/alerts"

    async def start(self) -> None:
        """Listen on a free loopback port."""
        app = web.Application()
        app.router.add_post("/alerts", self._receive)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._on_alert(Alert(body.get("title", ""), body.get("message", "")))
        return web.Response(text="ok")
