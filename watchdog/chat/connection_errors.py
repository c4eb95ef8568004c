"""How far a request came before it failed: name, connection, handshake, or all the way to a silent server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from watchdog.descriptors import require_room, used_up, words_for
from watchdog.reasons import ServerReason
from watchdog.text import one_line

TRACE: ContextVar[ConnectionTrace | None] = ContextVar("trace", default=None)
"""The trace of the request that runs in this context. Tasks started on its behalf see the same one."""


class ConnectionTrace:
    """The sockets opened for one request, and what is known about them just before its deadline."""

    __slots__ = ("_sockets", "connected", "opened", "ready")

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.opened = False
        self.connected = False
        self.ready = asyncio.Event()
        """Set when the connection stands, with TLS where that is spoken."""

    def add(self, opened: socket.socket) -> None:
        """Take a socket that is about to connect."""
        self._sockets.append(opened)
        self.opened = True

    def look(self) -> None:
        """Note whether a connection stands. Called before the deadline: afterwards the sockets are closed."""
        for opened in self._sockets:
            try:
                opened.getpeername()
            except OSError:
                continue
            self.connected = True
        self._sockets.clear()

    def no_reply(self, *, tls: bool) -> tuple[ServerReason, str]:
        """Why no reply came by the deadline."""
        if not self.opened:
            return ServerReason.DNS, "the name was not resolved in time"
        if not self.connected:
            return ServerReason.UNREACHABLE, "no answer to the connection attempt"
        if tls:
            return ServerReason.NO_REPLY, "the port accepts connections, but the TLS handshake did not finish"
        return ServerReason.NO_REPLY, "the port accepts connections, but sent no reply"


async def _note_ready(*_: object) -> None:
    trace = TRACE.get()
    if trace is not None:
        trace.ready.set()


def tracing() -> aiohttp.TraceConfig:
    """What has aiohttp tell the current trace when its connection is ready."""
    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(_note_ready)
    return config


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """Open the socket for `address`, as getaddrinfo gives it, and note it on the current trace.

    Raises OSError (EMFILE) when the descriptors that are left are kept for delivery.
    """
    opened = socket.socket(address[0], address[1], address[2])
    try:
        require_room(opened.fileno())
    except OSError:
        opened.close()
        raise
    trace = TRACE.get()
    if trace is not None:
        trace.add(opened)
    return opened


def connection_error(error: Exception) -> tuple[ServerReason, str]:
    """The reason and plain words for a failure of the connection or of HTTP itself, before there was a reply."""
    number = used_up(error, connecting=True) or used_up(getattr(error, "os_error", None), connecting=True)
    if number is not None:
        found = ServerReason.LOCAL, words_for(number)
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        found = ServerReason.DNS, f"the name {error.host} does not resolve"
    elif isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError)):
        found = ServerReason.TLS, _tls_words(error)
    elif isinstance(error, aiohttp.ClientConnectorError):
        found = _connect_error(error.os_error)
    elif isinstance(error, aiohttp.ClientHttpProxyError):
        found = ServerReason.UPSTREAM_DOWN, f"the proxy refused with HTTP {error.status}"
    elif isinstance(error, aiohttp.ClientResponseError):
        found = ServerReason.MALFORMED, f"not valid HTTP: {one_line(error.message, 120)}"
    elif isinstance(error, aiohttp.InvalidURL):
        found = ServerReason.NOT_FOUND, "the address is not a valid URL"
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        found = ServerReason.RESET, "the connection was closed before any reply"
    else:
        found = ServerReason.RESET, "the connection broke before any reply"
    return found


def _connect_error(error: OSError) -> tuple[ServerReason, str]:
    if isinstance(error, ConnectionRefusedError):
        return ServerReason.REFUSED, "nothing listens on the port"
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return ServerReason.RESET, "the connection was reset while it was set up"
    words = error.strerror or str(error) or type(error).__name__
    return ServerReason.UNREACHABLE, words.rstrip(".")


def _tls_words(error: Exception) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    verify = getattr(cause, "verify_message", "")
    return f"the certificate is not trusted: {verify}" if verify else f"the TLS handshake failed: {_reason(cause)}"


def _reason(cause: object) -> str:
    return str(getattr(cause, "reason", "") or getattr(cause, "strerror", "") or type(cause).__name__)


# Name look-ups that cannot delay anything else.

Lookup = Callable[..., list[Any]]


class ThreadPerNameResolver(AbstractResolver):
    """Resolves each name in a thread of its own; further calls for a name that hangs wait for the same thread."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        """`lookup` has the signature of `socket.getaddrinfo`."""
        self._lookup = lookup
        self._pending: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Addresses of `host`. Raises OSError (also for names that are no names), as aiohttp expects."""
        key = (host, int(family))
        future = self._pending.get(key)
        if future is None:
            future = self._pending[key] = asyncio.get_running_loop().create_future()
            try:
                threading.Thread(target=self._work, args=(key, future), name=f"resolve {host}", daemon=True).start()
            except RuntimeError as error:  # no thread can be started
                del self._pending[key]
                raise OSError(errno.EAGAIN, str(error)) from None
        found = await asyncio.shield(future)
        return [_result(host, port, info) for info in found]

    async def close(self) -> None:
        """Forget what is under way; its threads are daemons and end by themselves."""
        for future in self._pending.values():
            future.cancel()
        self._pending.clear()

    def _work(self, key: tuple[str, int], future: asyncio.Future[list[Any]]) -> None:
        host, family = key
        found: list[Any] = []
        failure: OSError | None = None
        try:
            found = self._lookup(host, None, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except OSError as error:
            failure = _own_fault() or error
        except UnicodeError as error:
            failure = OSError(None, f"no valid host name: {error}")
        try:
            future.get_loop().call_soon_threadsafe(self._finish, key, future, found, failure)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _finish(
        self, key: tuple[str, int], future: asyncio.Future[list[Any]], found: list[Any], failure: OSError | None
    ) -> None:
        self._pending.pop(key, None)
        if future.done():
            return
        if failure is None:
            future.set_result(found)
        else:
            future.set_exception(failure)
            future.exception()  # seen: the asker may have left at its deadline


def _own_fault() -> OSError | None:
    """Why no name can be looked up now, if that is our own fault: getaddrinfo hides that it got no descriptor."""
    try:
        require_room()
    except OSError as error:
        return error
    return None


def _result(host: str, port: int, info: Any) -> ResolveResult:
    family, _, proto, _, address = info
    scoped = family == socket.AF_INET6 and len(address) > 3 and address[3]
    return ResolveResult(
        hostname=host,
        host=f"{address[0]}%{address[3]}" if scoped else address[0],
        port=port,
        family=family,
        proto=proto,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


# Is base_url's scheme the wrong one? A second connection asks the port in the other one's language.

_PATIENCE_S = 2.0


async def speaks_plain_http(base: URL) -> bool:
    """Whether the port of `base` answers a request without TLS. Sends neither path nor key."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(base.host, base.port)
            with contextlib.closing(writer):
                writer.write(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n")
                status = (await reader.readexactly(12)).decode("latin-1")
                page = (await reader.read(4096)).decode("latin-1").lower()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return False
    # A port that speaks TLS may say so in plain HTTP, with 400.
    return status.startswith("HTTP/") and not (status.endswith("400") and ("https" in page or "ssl" in page))


async def speaks_tls(base: URL) -> bool:
    """Whether the port of `base` begins TLS with us, with whatever certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(
                base.host, base.port, ssl=context, server_hostname=base.host, ssl_handshake_timeout=_PATIENCE_S
            )
            writer.transport.abort()
    except ssl.SSLError as error:
        return (error.reason or "").startswith(("TLSV", "SSLV3_ALERT", "TLS_ALERT"))  # it refused us, in TLS
    except (OSError, TimeoutError, ValueError):
        return False
    return True
