"""A raw asyncio server on a real socket. It plays recorded replies with their timing and end, and hostile ones."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RESPONSES = Path(__file__).parents[1] / "fixtures/corpus/responses"
METRICS = Path(__file__).parents[1] / "fixtures/corpus/metrics"
LONG_S = 3600.0


@dataclass(frozen=True)
class Request:
    """One request as it was received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader

    async def client_left(self) -> None:
        """Return when the client has closed its side."""
        while await self.reader.read(65536):
            pass

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


Player = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class LlmServer:
    """Serves on a free loopback port; `play` answers each request. Use as an async context manager."""

    play: Player
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    open_now: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The base URL of its API."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/v1"

    def asked(self, end: str = "/chat/completions") -> list[Request]:
        """The requests whose path ends so."""
        return [request for request in self.requests if request.path.endswith(end)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open_now += 1
        try:
            request = await _read_request(reader)
            self.requests.append(request)
            await self.play(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self.open_now -= 1
            self._tasks.discard(task)
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body, reader)


def head_of(status: int, headers: dict[str, str]) -> bytes:
    """The head of a reply."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def reply_with(body: bytes | str | dict[str, Any], status: int = 200, content_type: str = "application/json") -> Player:
    """Answer every request with one whole body."""
    raw = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        headers = {"Content-Type": content_type, "Content-Length": str(len(raw)), "Connection": "close"}
        writer.write(head_of(status, headers) + raw)
        await writer.drain()

    return play


def chat_reply(text: str = "ok", **more: Any) -> dict[str, Any]:
    """A plain completion that says `text`."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], **more}


def routes(chat: Player, **others: Player) -> Player:
    """Answer chat completions with `chat` and paths ending in a keyword (`models`, `metrics`…) with its player."""

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path.endswith("/chat/completions"):
            await chat(request, writer)
            return
        other = next((o for name, o in others.items() if request.path.endswith("/" + name)), reply_with("", 404))
        await other(request, writer)

    return play


def in_turn(*players: Player) -> Player:
    """Answer the first request with the first player, and so on; the last one goes on."""
    left = list(players)

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, writer)

    return play


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """Accept, and never answer."""
    await asyncio.sleep(LONG_S)


def recorded(name: str, *, scale: float = 1.0, framing: str = "", root: Path = RESPONSES) -> Player:
    """Play a recorded reply of the corpus in `root`: its status, headers, body pieces at their times, and its end.

    `scale` shortens the times (60 recorded seconds become `60 * scale`). `framing` is `chunked`, `close` or `length`;
    by default as the engines frame streams and plain replies.
    """
    meta = json.loads((root / f"{name}.meta.json").read_text())
    body = (root / meta["file"]).read_bytes()
    streamed = meta["file"].endswith(".sse")
    how = framing or ("chunked" if streamed else "length")
    timeline = [(at * scale, what) for at, what in meta.get("timeline", []) if what != "client timeout"]

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        headers = {**meta["headers"], "Connection": "close"}
        if how == "chunked" and "Content-Length" not in headers:
            headers["Transfer-Encoding"] = "chunked"
        elif how == "length" and meta["end"] == "complete":
            headers["Content-Length"] = str(len(body))
        chunked = "Transfer-Encoding" in headers
        started = asyncio.get_running_loop().time()

        async def until(at: float) -> None:
            await asyncio.sleep(max(0.0, started + at - asyncio.get_running_loop().time()))

        times = [at for at, what in timeline if what != "headers"]
        await until(next((at for at, what in timeline if what == "headers"), 0.0))
        writer.write(head_of(meta["status"], headers))
        pieces = [piece + b"\n\n" for piece in body.split(b"\n\n") if piece] if streamed else [body] if body else []
        for number, piece in enumerate(pieces):
            await until(times[min(number, len(times) - 1)] if times else 0.0)
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
        if meta["end"] == "hang":
            await asyncio.sleep(LONG_S)
        elif meta["end"] == "complete" and chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return play


def expectation(name: str, root: Path = RESPONSES) -> dict[str, Any]:
    """What a recorded reply must be judged as."""
    expect: dict[str, Any] = json.loads((root / f"{name}.expect.json").read_text())
    return expect


def recorded_names(root: Path = RESPONSES) -> list[str]:
    """Every recorded reply."""
    return sorted(path.name.removesuffix(".meta.json") for path in root.glob("*.meta.json"))


# Hostile servers


async def endless_header(request: Request, writer: asyncio.StreamWriter) -> None:
    """One header value that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"a" * 65536)
        await writer.drain()


async def endless_headers(request: Request, writer: asyncio.StreamWriter) -> None:
    """Small headers without end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-Y: 1\r\n" * 4096)
        await writer.drain()


async def drip(request: Request, writer: asyncio.StreamWriter, every_s: float = 1.0) -> None:
    """A stream that opens, then one byte of a comment a second."""
    writer.write(head_of(200, {"Content-Type": "text/event-stream", "Connection": "close"}))
    while True:
        writer.write(b":")
        await writer.drain()
        await asyncio.sleep(every_s)


async def drip_headers(request: Request, writer: asyncio.StreamWriter) -> None:
    """The head itself, one byte a second."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(1)


async def huge_body(request: Request, writer: asyncio.StreamWriter) -> None:
    """Two gibibytes of JSON string, announced as such."""
    size = 2 << 30
    writer.write(head_of(200, {"Content-Type": "application/json", "Content-Length": str(size)}) + b'{"choices": "')
    while True:
        writer.write(b"a" * 65536)
        await writer.drain()


async def endless_text(request: Request, writer: asyncio.StreamWriter) -> None:
    """A stream of real text that ignores max_tokens."""
    writer.write(head_of(200, {"Content-Type": "text/event-stream", "Connection": "close"}))
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"delta": {"content": "word "}}]}
    while True:
        writer.write(f"data: {json.dumps(chunk)}\n\n".encode() * 64)
        await writer.drain()


def gzip_bomb() -> Player:
    """A small gzip body that inflates to 64 MiB, although identity was asked for."""
    bomb = gzip.compress(b'{"choices": "' + b"a" * (64 << 20), 9)

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", "Content-Length": str(len(bomb))}
        writer.write(head_of(200, headers) + bomb)
        await writer.drain()

    return play


def redirect(to: str) -> Player:
    """Answer chat completions with a redirect; what it leads to says 200."""

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head_of(302, {"Location": to, "Content-Length": "0", "Connection": "close"}))
        await writer.drain()

    return play


async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
    """Close without a byte."""


async def reset(request: Request, writer: asyncio.StreamWriter) -> None:
    """Reset the connection without a byte."""
    writer.transport.abort()


async def not_http(request: Request, writer: asyncio.StreamWriter) -> None:
    """Something that is not HTTP."""
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await writer.drain()
