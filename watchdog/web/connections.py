"""The connections of the page: only so many, and none that says nothing for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from watchdog.descriptors import PAGE_CONNECTIONS, require_room

HEADER_TIMEOUT_S = 10.0
"""How long a new connection may take for the first line and the headers of its request."""
IDLE_TIMEOUT_S = 15.0
"""How long a connection is kept between two requests."""
EXCHANGE_TIMEOUT_S = 300.0
"""How long one request may take until its reply has been read."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Connections:
    """Bounds what visitors of the page hold open. One too many costs the connection that has waited longest."""

    def __init__(
        self,
        most: int = PAGE_CONNECTIONS,
        *,
        header_timeout_s: float = HEADER_TIMEOUT_S,
        exchange_timeout_s: float = EXCHANGE_TIMEOUT_S,
    ) -> None:
        """At most `most` connections at the same time."""
        self._most = most
        self._header_timeout_s = header_timeout_s
        self._exchange_timeout_s = exchange_timeout_s
        self._timers: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        self._busy: set[asyncio.BaseTransport] = set()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._timers)

    def opened(self, transport: asyncio.Transport) -> None:
        """Take a new connection, or end it at once when what is left is kept for delivery."""
        try:
            opened = transport.get_extra_info("socket")
            require_room(None if opened is None else opened.fileno())
        except OSError:
            transport.abort()
            return
        if len(self._timers) >= self._most:
            self._end(next((one for one in self._timers if one not in self._busy), next(iter(self._timers))))
        self._limit(transport, self._header_timeout_s)

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection."""
        timer = self._timers.pop(transport, None)
        if timer is not None:
            timer.cancel()
        self._busy.discard(transport)

    @property
    def middleware(self) -> Middleware:
        """For `web.Application(middlewares=…)`, before all others: knows which connections have a request."""

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            transport = request.transport
            if transport is None or transport not in self._timers:
                return await handler(request)
            self._limit(transport, self._exchange_timeout_s)
            self._busy.add(transport)
            try:
                return await handler(request)
            finally:
                self._busy.discard(transport)

        return middleware

    def _limit(self, transport: asyncio.Transport, seconds: float) -> None:
        self.closed(transport)
        self._timers[transport] = asyncio.get_running_loop().call_later(seconds, self._end, transport)

    def _end(self, transport: asyncio.BaseTransport) -> None:
        self.closed(transport)
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class BoundedRunner(web.AppRunner):
    """An `AppRunner` whose server tells `connections` of every connection."""

    def __init__(self, app: web.Application, connections: Connections) -> None:
        """Without an access log and without signal handlers."""
        super().__init__(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0, keepalive_timeout=IDLE_TIMEOUT_S
        )
        self._kept = connections

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        made, lost, kept = server.connection_made, server.connection_lost, self._kept
        transports: dict[object, asyncio.Transport] = {}

        def connection_made(handler: web.RequestHandler, transport: asyncio.Transport) -> None:
            made(handler, transport)
            transports[handler] = transport
            kept.opened(transport)

        def connection_lost(handler: web.RequestHandler, exc: BaseException | None = None) -> None:
            kept.closed(transports.pop(handler))
            lost(handler, exc)

        server.connection_made = connection_made  # type: ignore[method-assign]  # the only hooks that aiohttp has
        server.connection_lost = connection_lost  # type: ignore[method-assign]  # the only hooks that aiohttp has
        return server
