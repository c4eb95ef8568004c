"""Who may look, and how many at a time: method, host name and token of a request, headers of replies, connections."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from watchdog.config import WebSettings
from watchdog.descriptors import PAGE_CONNECTIONS, require_room
from watchdog.errors import StoreError
from watchdog.overview.html import content_policy

OPEN_TO_ALL = frozenset({"/healthz"})
"""Asked by other watchdogs and monitors, which may have no token; says only whether we make progress."""
HEADERS = {
    "Server": "inference-watchdog",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def _reply(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.Response(status=error.status, text=f"{error.status} {error.reason}\n")
    except StoreError as error:
        return web.Response(status=503, text=f"The state cannot be read: {error}\n")


class Access:
    """Decides which requests are answered: the only middleware."""

    def __init__(self, settings: WebSettings) -> None:
        """Requests must carry the token of `settings`, if it has one, and use one of its names or an address."""
        self._token = settings.token.reveal().encode() if settings.token is not None else None
        self._names = frozenset({"localhost", *settings.names})

    @property
    def middleware(self) -> Middleware:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            refused = self._refused(request)
            reply = await _reply(request, handler) if refused is None else refused
            for name, value in (*HEADERS.items(), ("Content-Security-Policy", content_policy())):
                reply.headers.setdefault(name, value)
            return reply

        return middleware

    def knows(self, request: web.Request) -> bool:
        """Whether the request carries the token, if there is one: as bearer token, or as password of any user."""
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).decode().partition(":")[2]
            except ValueError:  # no base64, or no UTF-8 in it
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token)

    def _refused(self, request: web.Request) -> web.Response | None:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"}, text="Read only: use GET or HEAD.\n")
        if not self._is_ours(request.headers.get("Host", "")):
            words = "Unknown host name. Add it to `web.names`, or use an IP address.\n"
            return web.Response(status=421, text=words)
        if request.path not in OPEN_TO_ALL and not self.knows(request):
            realm = 'Basic realm="inference-watchdog", charset="UTF-8"'
            words = "Send the token of `web.token`, as the password (with any user name) or as a bearer token.\n"
            return web.Response(status=401, headers={"WWW-Authenticate": realm}, text=words)
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether `host` names us. A foreign page may point its own name at our address (DNS rebinding)."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True


HEADER_TIMEOUT_S = 10.0
"""How long a new connection may take for the first line and the headers of its request."""
IDLE_TIMEOUT_S = 15.0
"""How long a connection is kept between two requests."""
EXCHANGE_TIMEOUT_S = 300.0
"""How long one request may take until its reply has been read."""

RawHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Connections:
    """Bounds what visitors of the page hold open. One too many costs the connection that has waited longest."""

    def __init__(
        self,
        most: int = PAGE_CONNECTIONS,
        *,
        header_timeout_s: float = HEADER_TIMEOUT_S,
        exchange_timeout_s: float = EXCHANGE_TIMEOUT_S,
    ) -> None:
        self._most = most
        self._header_timeout_s = header_timeout_s
        self._exchange_timeout_s = exchange_timeout_s
        self._timers: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        self._busy: set[asyncio.BaseTransport] = set()

    def __len__(self) -> int:
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
        timer = self._timers.pop(transport, None)
        if timer is not None:
            timer.cancel()
        self._busy.discard(transport)

    @property
    def middleware(self) -> Middleware:
        """For `web.Application(middlewares=…)`, before all others: knows which connections have a request."""

        @web.middleware
        async def middleware(request: web.Request, handler: RawHandler) -> web.StreamResponse:
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
