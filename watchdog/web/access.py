"""Who may look: method, host name and token of a request; and the headers that every reply carries."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from watchdog.config import WebSettings
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
            except (binascii.Error, UnicodeDecodeError):
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self._token)

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
