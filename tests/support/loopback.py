"""An HTTP server on loopback for fakes of all kinds."""

from __future__ import annotations

from typing import Self

from aiohttp import web


class LoopbackServer:
    """Serves `app()` on a free port, then known as `port`; after `down` it comes `up` on the same one."""

    port = 0
    _runner: web.AppRunner | None = None

    def app(self) -> web.Application:
        """What is served."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.down()

    async def up(self) -> None:
        """Listen."""
        self._runner = web.AppRunner(self.app(), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        """Stop listening: connections are refused."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
