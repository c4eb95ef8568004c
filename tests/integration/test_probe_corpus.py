"""Every recorded reply, over a real socket with its recorded timing, through the real client."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.llm_server import (
    METRICS,
    LlmServer,
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

_PAIRS = sorted(path.name.removesuffix(".pair.expect.json") for path in METRICS.glob("*.pair.expect.json"))
_SINGLES = sorted(p.name.removesuffix(".expect.json") for p in METRICS.glob("*.expect.json") if ".pair." not in p.name)


async def _probe(url: str, *, stream: bool, timeout_s: float = 1.5) -> ProbeOutcome:
    settings = ProbeSettings(timeout_s=timeout_s, stream=stream)
    server = ServerSettings(name="s", base_url=url, model="m", probe=settings)
    async with ChatClient() as client:
        return await GenerationCheck(server, client).probe(None, 1000.0)


@pytest.mark.parametrize("framing", ["", "close"])
@pytest.mark.parametrize("name", recorded_names())
async def test_a_recorded_reply_is_judged_as_labelled(name: str, framing: str) -> None:
    expect = expectation(name)
    streamed = json.loads((METRICS.parent / f"responses/{name}.meta.json").read_text())["request"]["stream"]
    async with LlmServer(routes(recorded(name, scale=0.02, framing=framing))) as server:
        outcome = await _probe(server.url, stream=streamed)
    judged = outcome.judgement
    reason = expect["kind"] if expect["verdict"] == "error" else expect["verdict"]
    assert (outcome.reason.value, outcome.alive) == (reason, expect["alive"])
    assert (judged.text, judged.reasoning) == (expect["text"], expect["reasoning"])
    assert (judged.finish_reason, judged.completion_tokens) == (expect["finish_reason"], expect["completion_tokens"])


@pytest.mark.parametrize("name", recorded_names())
async def test_a_server_that_answers_every_path_alike_is_judged_the_same(name: str) -> None:
    """No model is named, so `/v1/models` is asked first and gets the very same reply, as do the metrics."""
    expect = expectation(name)
    async with LlmServer(recorded(name, scale=0.02)) as server:
        settings = ServerSettings(name="s", base_url=server.url, probe=ProbeSettings(timeout_s=1.5))
        async with ChatClient() as client:
            outcome = await GenerationCheck(settings, client).probe(None, 1000.0)
    reason = expect["kind"] if expect["verdict"] == "error" else expect["verdict"]
    assert (outcome.reason.value, outcome.alive) == (reason, expect["alive"])


@pytest.mark.parametrize("name", _PAIRS)
async def test_a_recorded_pair_of_scrapes_around_an_unanswered_probe_gives_its_movement(name: str) -> None:
    expect = json.loads((METRICS / f"{name}.pair.expect.json").read_text())
    scrapes = [reply_with((METRICS / f"{name}.{t}.prom").read_bytes(), 200, "text/plain") for t in ("t0", "t1")]
    async with LlmServer(routes(silence, metrics=in_turn(*scrapes))) as server:
        outcome = await _probe(server.url, stream=True, timeout_s=1.0)
        metrics_asked = len(server.asked("/metrics"))
    assert outcome.change.movement.value == expect["verdict"]
    assert metrics_asked == 2


@pytest.mark.parametrize("name", _SINGLES)
async def test_a_recorded_scrape_is_read_as_labelled(name: str) -> None:
    expect = json.loads((METRICS / f"{name}.expect.json").read_text())
    scrape = reply_with((METRICS / f"{name}.prom").read_bytes(), 200, "text/plain")
    paths = {"metrics": scrape} if expect["path"] == "/metrics" else {expect["path"].lstrip("/"): scrape}
    async with LlmServer(routes(silence, **paths)) as server:
        outcome = await _probe(server.url, stream=True, timeout_s=0.6)
    sample = outcome.sample
    if expect["running"] is None:
        assert sample is None
        assert "cannot tell busy from hung" in outcome.summary()
        return
    assert sample is not None
    assert sample.engine == expect["engine"].removesuffix(" (v0)")
    assert (sample.running, sample.waiting, sample.kv_usage) == (
        expect["running"],
        expect["waiting"],
        expect["kv_usage"],
    )
    if expect["progress"]["live"]:
        assert sample.progress == expect["progress"]["value"]
    else:
        assert sample.progress is None
        assert expect["progress"]["value"] in sample.finished.values()


async def test_the_probe_closes_its_connection_at_the_deadline() -> None:
    async with LlmServer(routes(silence)) as server:
        await _probe(server.url, stream=True, timeout_s=0.4)
        (request,) = server.asked()
        await asyncio.wait_for(request.client_left(), 1.0)
