"""Many chat servers behind one port, as lean as asyncio can: what a prober costs must not hide behind what it probes.

    python -m benchmarks.fake_servers

prints its port and serves until it is told to stop. Every first part of a path is a group of clients, the second a
server: `/ours/e7/v1/chat/completions`. It answers after 5 ms, streamed or not, as asked.

- `GET /set/<server>/<mode>` makes a server `ok`, `hang` (accepts, says nothing) or `500`;
- `GET /arrivals` gives `{"group/server": [Unix seconds, …]}` of the completions asked for since the last call.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from contextlib import suppress

DELAY_S = 0.005
MODEL = "tiny"
TOKENS = (" pong", " ok", " the", " and", " it")


def _reply(body: bytes, status: str = "200 OK", content_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _whole() -> bytes:
    message = {"role": "assistant", "content": "".join(TOKENS)}
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    choices = [{"index": 0, "message": message, "finish_reason": "length"}]
    return json.dumps(
        {"id": "chatcmpl-1", "object": "chat.completion", "model": MODEL, "choices": choices, "usage": usage}
    ).encode()


PLAIN = _reply(_whole())
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
STREAM = (
    _event({"role": "assistant", "content": ""}),
    *(_event({"content": token}) for token in TOKENS),
    _event({}, "length") + b"data: [DONE]\n\n",
)
BROKEN = _reply(b'{"error": {"message": "EngineCore encountered an issue.", "code": 500}}', "500 Internal Server Error")
NOT_FOUND = _reply(b'{"detail": "Not Found"}', "404 Not Found")
MODELS = _reply(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())


class Servers:
    """Which server is in which mode, and who asked when."""

    def __init__(self) -> None:
        """All are well."""
        self.modes: dict[str, str] = {}
        self.arrivals: dict[str, list[float]] = defaultdict(list)


class _Connection(asyncio.Protocol):
    """One connection: takes requests apart by hand."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.data = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            head = self.data[:end]
            found = head.lower().find(b"content-length:")
            length = int(head[found + 15 :].split(b"\r\n", 1)[0]) if found >= 0 else 0
            if len(self.data) < end + 4 + length:
                return
            body, self.data = self.data[end + 4 : end + 4 + length], self.data[end + 4 + length :]
            self.take(head, body)

    def take(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1].decode()
        parts = path.strip("/").split("/")
        closing = b"connection: close" in head.lower()
        if path.endswith("/chat/completions"):
            self.servers.arrivals[f"{parts[0]}/{parts[1]}"].append(time.time())
            mode = self.servers.modes.get(parts[1], "ok")
            if mode != "hang":
                asyncio.get_running_loop().call_later(DELAY_S, self.answer, mode, b'"stream":' in body, closing)
            return
        if parts[0] == "set":
            self.servers.modes[parts[1]] = parts[2]
            self.write(MODELS, closing)
        elif parts[0] == "arrivals":
            self.write(_reply(json.dumps(self.servers.arrivals).encode()), closing)
            self.servers.arrivals.clear()
        else:
            self.write(MODELS if path.endswith("/models") else NOT_FOUND, closing)

    def answer(self, mode: str, streamed: bool, closing: bool) -> None:
        if self.transport.is_closing():
            return
        if mode == "500":
            self.write(BROKEN, closing)
        elif not streamed:
            self.write(PLAIN, closing)
        else:
            self.transport.write(STREAM_HEAD)
            for event in STREAM:  # one write a token, as an engine does
                self.transport.write(event)
            self.transport.close()

    def write(self, reply: bytes, closing: bool) -> None:
        self.transport.write(reply)
        if closing:
            self.transport.close()


async def _serve() -> None:
    servers = Servers()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(servers), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve())
