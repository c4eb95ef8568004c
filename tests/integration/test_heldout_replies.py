"""Replies and scrapes that were written apart from the code, over real sockets through the real client.

All are probed at the same time, once, because each hanging one takes its whole deadline.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.llm_server import (
    LlmServer,
    Player,
    Request,
    expectation,
    in_turn,
    recorded,
    recorded_names,
    reply_with,
    routes,
    silence,
)
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.config import ProbeSettings, ServerSettings
from watchdog.model import Verdict

_HELDOUT = Path(__file__).parents[1] / "fixtures/heldout"
_RESPONSES, _METRICS = _HELDOUT / "responses", _HELDOUT / "metrics"
_NAMES = recorded_names(_RESPONSES)
_PAIRS = sorted(path.name.removesuffix(".pair.expect.json") for path in _METRICS.glob("*.pair.expect.json"))
_SINGLES = sorted(p.name.removesuffix(".expect.json") for p in _METRICS.glob("*.expect.json") if ".pair." not in p.name)
_AT_ONCE = 8
Outcomes = dict[str, ProbeOutcome]


async def _probe(play: Player, *, stream: bool, timeout_s: float) -> ProbeOutcome:
    async with LlmServer(play) as server, ChatClient() as client:
        probe = ProbeSettings(timeout_s=timeout_s, stream=stream)
        settings = ServerSettings(name="s", base_url=server.url, model="m", probe=probe)
        return await GenerationCheck(settings, client).probe(None, 1000.0)


async def _probe_all(plays: dict[str, tuple[Player, bool]], timeout_s: float) -> Outcomes:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> tuple[str, ProbeOutcome]:
        play, stream = plays[name]
        async with turns:
            return name, await _probe(play, stream=stream, timeout_s=timeout_s)

    return dict(await asyncio.gather(*map(one, plays)))


def _only_at(path: str, metrics: Player) -> Player:
    """A chat endpoint that never answers, and metrics at exactly one path."""

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        chat = request.path.endswith("/chat/completions")
        other = metrics if request.path == path else reply_with("", 404)
        await (silence if chat else other)(request, writer)

    return play


def _scrape(name: str) -> Player:
    return reply_with((_METRICS / f"{name}.prom").read_bytes(), 200, "text/plain")


def _labels(name: str) -> dict[str, Any]:
    labels: dict[str, Any] = json.loads((_METRICS / f"{name}.expect.json").read_text())
    return labels


@pytest.fixture(scope="module")
def replies() -> Outcomes:
    """What each reply was judged as."""
    plays = {}
    for name in _NAMES:
        streamed = json.loads((_RESPONSES / f"{name}.meta.json").read_text())["request"]["stream"]
        plays[name] = routes(recorded(name, scale=0.02, root=_RESPONSES)), streamed
    return asyncio.run(_probe_all(plays, 1.5))


@pytest.fixture(scope="module")
def scrapes() -> Outcomes:
    """What each scrape, and each pair of scrapes, was read as beside an unanswered probe."""
    plays = {name: (_only_at(_labels(name)["path"], _scrape(name)), True) for name in _SINGLES}
    for name in _PAIRS:
        plays[name] = _only_at("/metrics", in_turn(_scrape(f"{name}.t0"), _scrape(f"{name}.t1"))), True
    return asyncio.run(_probe_all(plays, 0.6))


@pytest.mark.parametrize("name", _NAMES)
def test_a_reply_that_the_code_was_not_written_from_is_judged_as_labelled(name: str, replies: Outcomes) -> None:
    expect, outcome = expectation(name, _RESPONSES), replies[name]
    judged = outcome.judgement
    reason = expect["kind"] if expect["verdict"] == "error" else expect["warn"] or expect["verdict"]
    assert (outcome.reason.value, outcome.alive) == (reason, expect["alive"])
    assert (judged.text, judged.reasoning) == (expect["text"], expect["reasoning"])
    assert (judged.finish_reason, judged.completion_tokens) == (expect["finish_reason"], expect["completion_tokens"])
    assert (outcome.verdict is Verdict.PASS) == (expect["verdict"] == "ok")


@pytest.mark.parametrize("name", _SINGLES)
def test_a_scrape_that_the_code_was_not_written_from_is_read_as_labelled(name: str, scrapes: Outcomes) -> None:
    expect, sample = _labels(name), scrapes[name].sample
    if sample is None:
        assert (expect["running"], expect["waiting"], expect["progress"]["value"]) == (None, None, None)
        return
    read = (sample.running, sample.waiting, sample.kv_usage)
    assert read == (expect["running"], expect["waiting"], expect["kv_usage"])
    assert sample.engine == expect["engine"].removesuffix(" (v0)")
    if expect["progress"]["live"]:
        assert sample.progress == expect["progress"]["value"]
    else:
        assert sample.progress is None
        assert expect["progress"]["value"] in sample.finished.values()


@pytest.mark.parametrize("name", _PAIRS)
def test_a_pair_that_the_code_was_not_written_from_gives_its_movement(name: str, scrapes: Outcomes) -> None:
    expect = json.loads((_METRICS / f"{name}.pair.expect.json").read_text())
    assert scrapes[name].change.movement.value == expect["verdict"]
