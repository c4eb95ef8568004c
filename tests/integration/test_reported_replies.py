"""Replies of public reports on which the verdict was once wrong, played over a real socket.

A file of `tests/fixtures/replies` holds the steps that answer each chat request, the pages beside it, and in `want`
what is right. All are probed at the same time, once, because each hanging one takes its whole deadline.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.llm_server import LlmServer, Request, reply_with
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.config import ProbeSettings, ServerSettings

_CASES = {
    path.stem: json.loads(path.read_text()) for path in (Path(__file__).parents[1] / "fixtures/replies").iterdir()
}
_RISING = re.compile(r"@\{int\((\d+)\+(\d+)\*t\)\}")
"""A metric that begins at the first number and rises by the second each second."""


class _Played:
    """Answers every request of one case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case
        self._chats = 0
        self._started = time.monotonic()

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        case, path = self._case, request.path
        if path.endswith("/chat/completions"):
            self._chats += 1
            await _play(writer, case["chat"][min(self._chats, len(case["chat"])) - 1])
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


async def _play(writer: asyncio.StreamWriter, steps: list[list[Any]]) -> None:
    for kind, *rest in steps:
        if kind == "sse_head":
            writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        elif kind in ("json", "text"):
            status, body = rest[0], (json.dumps(rest[1]) if kind == "json" else rest[1]).encode()
            content_type = "application/json" if kind == "json" else "text/plain"
            head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
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


async def _probe(case: dict[str, Any]) -> ProbeOutcome:
    async with LlmServer(_Played(case)) as server, ChatClient() as client:
        probe = ProbeSettings(timeout_s=case.get("timeout", 4) / 2, stream="modes" not in case)
        settings = ServerSettings(name="s", base_url=server.url, model="m", probe=probe)
        return await GenerationCheck(settings, client).probe(None, 1000.0)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, ProbeOutcome]:
    """What each case was judged as."""

    async def all_of_them() -> list[ProbeOutcome]:
        return await asyncio.gather(*map(_probe, _CASES.values()))

    return dict(zip(_CASES, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("name", sorted(_CASES))
def test_a_reply_of_a_public_report_is_judged_as_it_should_have_been(
    name: str, outcomes: dict[str, ProbeOutcome]
) -> None:
    want, outcome = _CASES[name]["want"], outcomes[name]
    assert outcome.verdict.value == want["verdict"]
    reasons = want.get("reason", outcome.reason.value)
    assert outcome.reason.value in ([reasons] if isinstance(reasons, str) else reasons)
    assert outcome.severity.value == want.get("severity", outcome.severity.value)


_QUOTED = {
    "b03-mistralrs-1874": "Number of choices must be greater than 0.",
    "b03v-plain-text-errors_a_end": "Number of choices must be greater than 0.",
    "b03v-plain-text-errors_b_end": "Model worker crashed: CUDA error 700",
    "b03v-plain-text-errors_c_end": "Error: engine thread panicked",
    "b03v-plain-text-errors_d_end": "Internal Server Error",
    "b03v-plain-text-errors_e_end": "upstream model is gone",
    "b03v-plain-text-errors_f_after_text": "Error: engine thread panicked",
}


@pytest.mark.parametrize("name", sorted(_QUOTED))
def test_an_error_in_plain_words_inside_a_stream_is_quoted(name: str, outcomes: dict[str, ProbeOutcome]) -> None:
    assert _QUOTED[name] in outcomes[name].summary()
