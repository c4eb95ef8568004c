"""Replies in steps, as fixtures hold them, played over a real socket to the real probe."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

from tests.support.llm_server import LlmServer, Request, reply_with
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.config import ProbeSettings, ServerSettings

_RISING = re.compile(r"@\{int\((\d+)\+(\d+)\*t\)\}")
"""A metric that begins at the first number and rises by the second each second."""


class Played:
    """Answers every request of one case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case
        self._chats = 0
        self._started = time.monotonic()

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        case, path = self._case, request.path
        if path.endswith("/chat/completions"):
            self._chats += 1
            await play_steps(writer, case["chat"][min(self._chats, len(case["chat"])) - 1])
        elif path in case.get("paths", {}):
            status, body, content_type = case["paths"][path]
            await reply_with(body, status, content_type)(request, writer)
        elif path.endswith("/models"):
            models = [{"id": "m", "object": "model", "owned_by": case.get("owner", "vllm")}]
            await reply_with({"object": "list", "data": models})(request, writer)
        elif path == "/metrics" and case.get("metrics"):
            await reply_with("\n".join(map(self._line, case["metrics"])) + "\n", 200, "text/plain")(request, writer)
        else:
            await reply_with({"detail": "Not Found"}, 404)(request, writer)

    def _line(self, line: str) -> str:
        elapsed = time.monotonic() - self._started
        return _RISING.sub(lambda found: str(int(int(found[1]) + int(found[2]) * elapsed)), line)


async def play_steps(writer: asyncio.StreamWriter, steps: list[list[Any]]) -> None:
    for kind, *rest in steps:
        if kind == "sse_head":
            writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        elif kind in ("json", "text"):
            status, body = rest[0], (json.dumps(rest[1]) if kind == "json" else rest[1]).encode()
            content_type = "application/json" if kind == "json" else "text/plain"
            content_type = rest[2] if len(rest) > 2 else content_type
            head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        elif kind == "redirect":
            status, where = rest
            writer.write(f"HTTP/1.1 {status} X\r\nlocation: {where}\r\ncontent-length: 0\r\n\r\n".encode())
        elif kind in ("sse", "chunk"):
            text = rest[0] if kind == "chunk" else f"data: {_said(rest[0])}\n\n"
            writer.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        elif kind == "endchunk":
            writer.write(b"0\r\n\r\n")
        elif kind == "hold":
            await writer.drain()
            await asyncio.sleep(3600)
        else:
            assert kind == "fin"
    await writer.drain()


def _said(event: Any) -> str:
    return event if isinstance(event, str) else json.dumps(event)


async def probe_case(case: dict[str, Any]) -> ProbeOutcome:
    async with LlmServer(Played(case)) as server, ChatClient() as client:
        probe = ProbeSettings(timeout_s=case.get("timeout", 4) / 2, stream="modes" not in case)
        settings = ServerSettings(name="s", base_url=server.url, model="m", probe=probe)
        return await GenerationCheck(settings, client).probe(None, 1000.0)
