"""From a server's behaviour to who is paged, for what looks like a hang and for what is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.alerting_path import Station, configuration, receiver
from tests.support.llm_server import LlmServer, Player, Request, reply_with, routes, silence
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.config import ProbeSettings, ServerSettings
from watchdog.model import Severity

_TIMEOUT_S = 0.6


def _metrics(**of_look: Callable[[int], float]) -> Player:
    """vLLM's metrics; each value by the number of the look: a probe looks twice."""
    looks = count()

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        look = next(looks)
        body = "".join(f'vllm:{name}{{engine="0"}} {value(look)}\n' for name, value in of_look.items())
        await reply_with(body, 200, "text/plain")(request, writer)

    return play


def _engine(
    running: int, waiting: int, tokens: Callable[[int], float], usage: Callable[[int], float] = lambda _: 0.2
) -> Player:
    return _metrics(
        num_requests_running=lambda _: running,
        num_requests_waiting=lambda _: waiting,
        generation_tokens_total=tokens,
        kv_cache_usage_perc=usage,
    )


async def _slow_tokens(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for _ in range(8):
        writer.write(b'data: {"id":"c","object":"chat.completion.chunk","model":"m",'
                     b'"choices":[{"index":0,"delta":{"content":"ok "}}]}\n\n')  # fmt: skip
        await writer.drain()
        await asyncio.sleep(_TIMEOUT_S / 3)


CASES: dict[str, tuple[Player, Player, str, list[str], list[str]]] = {
    # an honest chunked prefill: no token, and KV use rises
    "kvprefill": (
        silence,
        _engine(1, 1, lambda _: 1000, lambda look: 0.05 + 0.01 * look),
        "prefilling",
        [],
        ["FIRING"],
    ),
    # a gateway that hangs before an engine that works for others
    "gateway": (silence, _engine(0, 0, lambda look: 1000 + 5 * look), "front_end", ["FIRING"], ["FIRING"]),
    # the counter stands still in the third window only, then moves again
    "busy, busy, still": (silence, _engine(3, 2, lambda look: 1000 + 7 * (look - (look >= 5))), "busy", [], ["FIRING"]),
    # tokens come until the time is over
    "slow tokens": (_slow_tokens, reply_with("", 404), "slow", [], ["FIRING"]),
    # and one that is a hang
    "hung": (silence, _engine(1, 1, lambda _: 1000), "frozen", ["FIRING"], ["FIRING"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_looks_like_a_hang_warns_and_what_is_one_pages(tmp_path: Path, case: str) -> None:
    chat, metrics, diagnosis, phone, mail = CASES[case]
    config = configuration(receiver("phone", min_severity=Severity.PAGE), receiver("mail"))
    memory: Any = None
    async with (
        LlmServer(routes(chat, metrics=metrics)) as server,
        ChatClient() as client,
        Station(tmp_path, config) as st,
    ):
        settings = ServerSettings(
            name="deepseek", base_url=server.url, model="m", probe=ProbeSettings(timeout_s=_TIMEOUT_S)
        )
        check = GenerationCheck(settings, client)
        for _ in range(4):
            result = await check.run(memory, st.clock.wall())
            memory = result.memory if result.memory is not None else memory
            await st.look(*result.observations)
            await st.pass_time(120)
        assert (st.sinks["phone"].kinds, st.sinks["mail"].kinds) == (phone, mail)
        (incident,) = st.ingest.open_incidents
        assert incident.diagnosis is not None
        assert incident.diagnosis.name == diagnosis
