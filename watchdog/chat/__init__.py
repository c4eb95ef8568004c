"""HTTP to chat servers with aiohttp: one probe exchange, or one small look-up, each under its own hard limit.

`ChatClient` is shared by all checks; `endpoint.endpoint_of` turns a server's settings into what it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import zlib
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from watchdog.chat.connection_errors import (
    TRACE,
    ConnectionTrace,
    Lookup,
    ThreadPerNameResolver,
    connection_error,
    open_socket,
    speaks_plain_http,
    speaks_tls,
    tracing,
)
from watchdog.chat.endpoint import Endpoint
from watchdog.completion.reply import BODY_LIMIT_BYTES, Reply
from watchdog.completion.verdict import USE_HTTP, USE_HTTPS, End, Judgement, unanswered
from watchdog.reasons import ServerReason

_HANDSHAKE_S = 3.0
"""A port that has not answered TLS by then is asked whether it speaks it at all."""
_TAIL_S = 1.0
"""How long to wait, after the finish reason, for the usage event and `[DONE]` that some servers never send."""
_BROKEN = (aiohttp.ClientError, OSError)


class Inflater:
    """Inflates gzip or zlib data, at most `limit` bytes: a gzip bomb costs no more than any other long reply.

    We ask for no compression; some servers compress all the same.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._broken = False

    def feed(self, data: bytes) -> bytes:
        """What `data` inflates to, as far as the limit allows. Data that is not compressed at all comes back as is."""
        if self._broken:
            return data
        out = b""
        while data and self._left > 0 and not self._inflate.eof:
            try:
                piece = self._inflate.decompress(data, min(self._left, 1 << 16))
            except zlib.error:
                self._broken = True
                return out + data
            self._left -= len(piece)
            data = self._inflate.unconsumed_tail
            out += piece
            if not piece and not data:
                break
        return out


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a look-up brought: status and body, or `trouble` in plain words (`status` is then None)."""

    status: int | None = None
    content_type: str = ""
    body: bytes = b""
    trouble: str = ""
    refused: bool = False


class Deadline:
    """When an exchange ends at the latest, on the running loop's clock; it may be brought forward meanwhile."""

    def __init__(self, at: float) -> None:
        self.at = at
        self._limit: asyncio.Timeout | None = None
        self._trace: ConnectionTrace | None = None
        self._looking: asyncio.TimerHandle | None = None

    def start(self, limit: asyncio.Timeout, trace: ConnectionTrace) -> None:
        """An exchange begins under `limit`; just before it ends, its connection is looked at once more."""
        self._limit, self._trace = limit, trace
        self._plan_look()

    def bring_forward(self, at: float) -> None:
        """End at `at`, if that is sooner."""
        if at >= self.at:
            return
        self.at = at
        if self._limit is not None:
            self._limit.reschedule(at)
            if self._looking is not None:
                self._plan_look()

    def replied(self) -> None:
        """The reply has begun: how the connection came to be is settled."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def stop(self) -> None:
        self.replied()
        self._limit = None

    def reschedule(self, at: float) -> None:
        """End the running exchange at `at`, but not after the deadline."""
        if self._limit is not None:
            self._limit.reschedule(min(self.at, at))

    def _plan_look(self) -> None:
        self.replied()
        if self._trace is not None:
            self._looking = asyncio.get_running_loop().call_at(self.at - 0.002, self._trace.look)


class ChatClient:
    """One connection pool for all servers. Every connection is closed after its exchange: nothing is kept, nothing
    is followed (redirects, cookies, proxies), and no more than 1 MiB is read.

    Use as an async context manager, or call `close`.
    """

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        """`lookup` resolves names, with the signature of `socket.getaddrinfo`."""
        self._lookup = lookup
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is open. The client may be used again afterwards."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                force_close=True,
                ttl_dns_cache=30,
                resolver=ThreadPerNameResolver(self._lookup),
                socket_factory=open_socket,
            )
            self._opened = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                read_bufsize=1 << 16,
                trace_configs=[tracing()],
            )
        return self._opened

    async def complete(self, endpoint: Endpoint, body: bytes, deadline: float | Deadline) -> Judgement:
        """POST one chat completion and judge what comes. `deadline` is on the running loop's clock.

        Never raises for anything a server or a network does, and never outlives the deadline.
        """
        ends = deadline if isinstance(deadline, Deadline) else Deadline(deadline)
        exchange = _Exchange(ends)
        judgement = await self._exchange(exchange, endpoint, body, ends)
        return await self._with_the_right_scheme(exchange, endpoint, judgement, ends)

    async def _with_the_right_scheme(
        self, exchange: _Exchange, endpoint: Endpoint, judgement: Judgement, ends: Deadline
    ) -> Judgement:
        """`judgement`, or that base_url says http:// where the port speaks TLS, or the other way round."""
        secure = endpoint.base.scheme == "https"
        if exchange.is_plain:
            return _wrong_scheme(USE_HTTP, exchange.elapsed_s)
        left_s = ends.at - exchange.loop.time()
        if endpoint.proxy is not None or judgement.http_status is not None or left_s <= 0:
            return judgement
        suspect = (ServerReason.TLS,) if secure else (ServerReason.RESET, ServerReason.MALFORMED)
        if judgement.reason not in suspect:
            return judgement
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                if await (speaks_plain_http if secure else speaks_tls)(endpoint.base):
                    return _wrong_scheme(USE_HTTP if secure else USE_HTTPS, exchange.elapsed_s)
        return judgement

    async def _exchange(self, exchange: _Exchange, endpoint: Endpoint, body: bytes, ends: Deadline) -> Judgement:
        trace = TRACE.set(exchange.trace)
        asking = asyncio.create_task(exchange.ask_for_plain(endpoint)) if endpoint.base.scheme == "https" else None
        try:
            async with asyncio.timeout_at(ends.at) as limit:
                ends.start(limit, exchange.trace)
                headers = endpoint.headers.copy()
                headers["Content-Type"] = "application/json"
                async with self._session.post(
                    endpoint.chat,
                    data=body,
                    headers=headers,
                    ssl=endpoint.tls,
                    proxy=endpoint.proxy,
                    allow_redirects=False,
                ) as response:
                    ends.replied()
                    return await exchange.read(response)
        except TimeoutError:
            return exchange.timed_out(tls=endpoint.base.scheme == "https")
        except _BROKEN as error:
            reason, detail = connection_error(error)
            return unanswered(reason, detail, exchange.elapsed_s)
        finally:
            ends.stop()
            if asking is not None:
                asking.cancel()
            TRACE.reset(trace)

    async def fetch(self, endpoint: Endpoint, url: URL, timeout_s: float) -> Fetched:
        """GET `url` with the server's headers; at most 1 MiB, within `timeout_s`. Never raises for a server's fault."""
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.get(
                    url, headers=endpoint.headers, ssl=endpoint.tls, proxy=endpoint.proxy, allow_redirects=False
                ) as response,
            ):
                body = await _bounded_body(response)
                return Fetched(response.status, response.headers.get("Content-Type", ""), body)
        except TimeoutError:
            return Fetched(trouble=f"no answer within {timeout_s:.3g} s")
        except _BROKEN as error:
            reason, words = connection_error(error)
            return Fetched(trouble=words, refused=reason in (ServerReason.REFUSED, ServerReason.RESET))


def _wrong_scheme(detail: str, elapsed_s: float) -> Judgement:
    return replace(unanswered(ServerReason.TLS, detail, elapsed_s), wrong_scheme=True)


class _Exchange:
    """One probe on its way: its clock, its trace, and its reply once there is one."""

    def __init__(self, deadline: Deadline) -> None:
        self.loop = asyncio.get_running_loop()
        self.trace = ConnectionTrace()
        self._started = self.loop.time()
        self._deadline = deadline
        self._reply: Reply | None = None
        self.is_plain = False
        """Whether TLS was not answered, and plain HTTP was."""

    async def ask_for_plain(self, endpoint: Endpoint) -> None:
        """When TLS is not answered for a while: ask whether the port speaks plain HTTP, and if so end this at once."""
        patience_s = min(_HANDSHAKE_S, (self._deadline.at - self.loop.time()) / 4)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self.trace.ready.wait()
        if self.trace.ready.is_set() or endpoint.proxy is not None or not await speaks_plain_http(endpoint.base):
            return
        if not self.trace.ready.is_set():
            self.is_plain = True
            self._deadline.reschedule(self.loop.time())

    @property
    def elapsed_s(self) -> float:
        return self.loop.time() - self._started

    async def read(self, response: aiohttp.ClientResponse) -> Judgement:
        headers = response.headers
        location = headers.get("Location", "") if 300 <= response.status < 400 else ""
        reply = self._reply = Reply(response.status, headers.get("Content-Type", ""), location=location)
        inflater = _inflater_for(response, BODY_LIMIT_BYTES + 1)
        settled, received = False, 0
        try:
            while data := await response.content.readany():
                received += len(data)
                reply.feed(self.elapsed_s, inflater.feed(data) if inflater else data)
                if reply.enough or received > BODY_LIMIT_BYTES:
                    break
                if reply.settled and not settled:
                    settled = True
                    self._deadline.reschedule(self.loop.time() + _TAIL_S)
        except _BROKEN:
            return reply.close(self.elapsed_s, End.CUT)
        return reply.close(self.elapsed_s, End.COMPLETE)

    def timed_out(self, *, tls: bool) -> Judgement:
        if self._reply is not None:
            return self._reply.close(self.elapsed_s, End.DEADLINE)
        reason, detail = self.trace.no_reply(tls=tls)
        return unanswered(reason, detail, self.elapsed_s)


def _inflater_for(response: aiohttp.ClientResponse, limit: int) -> Inflater | None:
    """What inflates the body; None where it is not compressed."""
    coding = response.headers.get("Content-Encoding", "").lower()
    return Inflater(limit) if coding in ("gzip", "x-gzip", "deflate") else None


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    inflater = _inflater_for(response, BODY_LIMIT_BYTES)
    body = bytearray()
    received = 0
    while data := await response.content.readany():
        received += len(data)
        body += inflater.feed(data) if inflater else data
        if received > BODY_LIMIT_BYTES or len(body) > BODY_LIMIT_BYTES:
            break
    return bytes(body[:BODY_LIMIT_BYTES])
