"""The generation check against real sockets: models, resends, limits, sleeping servers, busy and hung engines."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.llm_server import (
    METRICS,
    LlmServer,
    Player,
    Request,
    chat_reply,
    in_turn,
    recorded,
    reply_with,
    routes,
    silence,
)
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.config import ProbeSettings, Secret, ServerSettings
from watchdog.errors import WatchdogError
from watchdog.model import CheckResult, Observation, Severity, Verdict

OK = reply_with(chat_reply("ok"))
INSTANT_STOP = reply_with(chat_reply("", usage={"completion_tokens": 1}))


def _settings(server: LlmServer, **more: Any) -> ServerSettings:
    defaults: dict[str, Any] = {"model": "m", "probe": ProbeSettings(timeout_s=1.0)}
    return ServerSettings(name="deepseek", base_url=server.url, **{**defaults, **more})


async def _run(settings: ServerSettings, memory: Any = None, now: float = 1000.0) -> CheckResult:
    async with ChatClient() as client:
        return await GenerationCheck(settings, client).run(memory, now)


def _main(result: CheckResult) -> Observation:
    return next(o for o in result.observations if o.key.startswith("generation/"))


def _models(*names: str, **parents: str) -> Player:
    data = [{"id": name, "parent": parents.get(name)} for name in names]
    return reply_with({"object": "list", "data": data})


async def test_a_healthy_server_passes_with_its_timings() -> None:
    async with LlmServer(routes(recorded("vllm-stream-ok"))) as server:
        observation = _main(await _run(_settings(server, hosts=("head",))))
    assert (observation.key, observation.verdict, observation.reason) == ("generation/deepseek", Verdict.PASS, "ok")
    assert observation.labels == {"server": "deepseek", "host": "head"}
    assert {"duration_s", "ttft_s", "resent"} <= set(observation.measurements)


async def test_the_request_is_small_limited_streamed_and_never_the_same_twice() -> None:
    async with LlmServer(routes(OK)) as server:
        extra = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": None, "max_tokens": 900}
        for _ in range(2):
            await _run(_settings(server, extra_body=extra))
        first, second = (request.json for request in server.asked())
        headers = server.asked()[0].headers
    assert (first["max_tokens"], first["stream"], first["model"]) == (5, True, "m")
    assert first["chat_template_kwargs"] == {"enable_thinking": False}
    assert "temperature" not in first
    assert first["messages"] != second["messages"]
    assert headers["accept-encoding"] == "identity"
    assert headers["connection"] == "close"


async def test_without_a_name_the_single_model_is_asked_for_and_remembered() -> None:
    async with LlmServer(routes(OK, models=_models("big", "lora", lora="big"))) as server:
        result = await _run(_settings(server, model=None))
        again = await _run(_settings(server, model=None), result.memory)
        assert [request.json["model"] for request in server.asked()] == ["big", "big"]
        assert len(server.asked("/models")) == 1
    assert _main(again).verdict is Verdict.PASS


async def test_several_models_and_no_name_is_a_configuration_fault_and_wakes_none() -> None:
    async with LlmServer(routes(OK, models=_models("a", "b"))) as server:
        observation = _main(await _run(_settings(server, model=None)))
        assert not server.asked()
    assert observation.reason == "unknown_model"
    assert "a, b" in observation.summary


async def test_a_model_that_was_replaced_is_found_again_in_the_same_round() -> None:
    gone = reply_with({"error": {"message": "The model `old` does not exist.", "code": 404}}, 404)

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        await (OK if request.json["model"] == "new" else gone)(request, writer)

    async with LlmServer(routes(chat, models=_models("new"))) as server:
        result = await _run(_settings(server, model=None), {"model": "old"})
        assert [request.json["model"] for request in server.asked()] == ["old", "new"]
    assert _main(result).verdict is Verdict.PASS


async def test_another_model_answering_is_evidence() -> None:
    async with LlmServer(routes(reply_with(chat_reply("ok", model="tiny")))) as server:
        observation = _main(await _run(_settings(server)))
    assert observation.verdict is Verdict.PASS
    assert any("another model answers: tiny" in item.text for item in observation.evidence)


async def test_an_instant_stop_is_resent_once_and_both_attempts_are_evidence() -> None:
    async with LlmServer(routes(in_turn(INSTANT_STOP, OK))) as server:
        passed = _main(await _run(_settings(server)))
    async with LlmServer(routes(INSTANT_STOP)) as server:
        failed = _main(await _run(_settings(server)))
        assert len(server.asked()) == 2
    assert (passed.reason, passed.measurements["resent"]) == ("ok", 1)
    assert [item.text.split(":")[0] for item in passed.evidence] == ["attempt 1", "attempt 2"]
    assert passed.summary.endswith(", after one resend")
    assert "resend" not in failed.summary
    assert (failed.reason, failed.verdict, len(failed.evidence)) == ("instant_stop", Verdict.FAIL, 2)


async def test_the_other_limit_is_used_only_after_a_400_that_asks_for_it_and_is_remembered() -> None:
    refusal = recorded("openai-unsupported-max-tokens")

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        await (OK if "max_completion_tokens" in request.json else refusal)(request, writer)

    async with LlmServer(routes(chat)) as server:
        first = await _run(_settings(server))
        second = await _run(_settings(server), first.memory)
        sent = ["max_tokens" in request.json for request in server.asked()]
    assert (_main(first).verdict, _main(second).verdict) == (Verdict.PASS, Verdict.PASS)
    assert sent == [True, False, False]


async def test_a_400_that_comes_again_is_a_bad_request() -> None:
    async with LlmServer(routes(recorded("openai-unsupported-max-tokens"))) as server:
        result = await _run(_settings(server))
        assert len(server.asked()) == 2
    assert _main(result).reason == "bad_request"
    assert "configuration" in _main(result).summary


@pytest.mark.parametrize(
    ("path", "asleep", "awake"),
    [
        ("ps", {"models": []}, {"models": [{"name": "m:latest", "model": "m:latest"}]}),
        ("running", {"running": []}, {"running": [{"model": "m", "state": "ready"}]}),
        ("models", {"data": [{"id": "m", "state": "not-loaded"}]}, {"data": [{"id": "m", "state": "loaded"}]}),
    ],
)
async def test_a_sleeping_model_is_not_woken(path: str, asleep: Any, awake: Any) -> None:
    async with LlmServer(routes(OK, **{path: reply_with(asleep)})) as server:
        sleeping = _main(await _run(_settings(server, on_demand=True)))
        assert not server.asked()
    async with LlmServer(routes(OK, **{path: reply_with(awake)})) as server:
        woken = _main(await _run(_settings(server, on_demand=True)))
    assert (sleeping.verdict, sleeping.reason) == (Verdict.UNKNOWN, "asleep")
    assert woken.verdict is Verdict.PASS


async def test_an_on_demand_server_that_is_down_still_fails() -> None:
    async with LlmServer(OK) as server:
        settings = _settings(server, on_demand=True)
    assert _main(await _run(settings)).reason == "refused"


def _scrape(running: int, waiting: int, tokens: int) -> Player:
    lines = {"num_requests_running": running, "num_requests_waiting": waiting, "generation_tokens_total": tokens}
    return reply_with("".join(f"vllm:{name} {value}\n" for name, value in lines.items()), 200, "text/plain")


async def test_a_busy_engine_is_alive_and_warns() -> None:
    async with LlmServer(routes(silence, metrics=in_turn(_scrape(8, 3, 5000), _scrape(8, 4, 5430)))) as server:
        observation = _main(await _run(_settings(server)))
    assert (observation.reason, observation.severity, observation.verdict) == ("busy", Severity.WARN, Verdict.FAIL)
    assert "generation_tokens_total rose by 430" in observation.summary
    assert "8 running, 4 waiting" in observation.summary


def _prefill(usage: float) -> Player:
    lines = ["num_requests_running 1", "num_requests_waiting 0", "generation_tokens_total 43", "prompt_tokens_total 43"]
    body = "".join(f"vllm:{line}\n" for line in [*lines, f"kv_cache_usage_perc {usage}"])
    return reply_with(body, 200, "text/plain")


@pytest.mark.parametrize(("running", "words"), [(2, "hung: 2 running"), (0, "the engine reports none")])
async def test_a_frozen_engine_is_hung_and_pages(running: int, words: str) -> None:
    async with LlmServer(routes(silence, metrics=_scrape(running, 0, 5000))) as server:
        observation = _main(await _run(_settings(server)))
    assert (observation.reason, observation.severity) == ("no_reply", Severity.PAGE)
    assert words in observation.summary


async def test_without_metrics_busy_and_hung_cannot_be_told_apart_and_that_is_said() -> None:
    async with LlmServer(routes(silence)) as server:
        first = await _run(_settings(server))
        second = await _run(_settings(server), first.memory)
        looked = [request.path for request in server.requests if "metrics" in request.path]
    assert _main(first).summary.endswith("cannot tell busy from hung: the metrics gave HTTP 404")
    assert _main(second).summary.endswith("cannot tell busy from hung: no metrics")
    assert looked == ["/metrics", "/v1/metrics", "/prometheus/metrics"]


async def test_metrics_that_are_still_awaited_when_the_probe_ends_are_told_as_no_answer() -> None:
    async with LlmServer(routes(recorded("nginx-504"), metrics=silence)) as server:
        observation = _main(await _run(_settings(server)))
    assert observation.summary.endswith("cannot tell busy from hung: the metrics gave no answer")


async def test_a_long_prompt_that_is_being_read_is_alive_and_warns() -> None:
    scrapes = (_prefill(0.05), _prefill(0.21))
    async with LlmServer(routes(silence, metrics=in_turn(*scrapes))) as server:
        observation = _main(await _run(_settings(server)))
    assert (observation.reason, observation.severity) == ("busy", Severity.WARN)
    assert "busy, alive: it reads a long prompt, KV cache use rose from 0.05 to 0.21" in observation.summary


async def test_a_frozen_gateway_before_an_engine_that_works_for_others_pages_and_is_blamed() -> None:
    async with LlmServer(routes(silence, metrics=in_turn(_scrape(0, 0, 1000), _scrape(0, 0, 1300)))) as server:
        observation = _main(await _run(_settings(server)))
    assert (observation.reason, observation.severity) == ("no_reply", Severity.PAGE)
    assert "our request did not reach the engine, which works for others" in observation.summary
    assert observation.measurements["engine_works_for_others"] == 1


async def _severities(windows: list[list[Player]]) -> list[str]:
    """The severity of each failed probe; a window is what the metrics show before and after it."""
    memory: Any = None
    found: list[str] = []
    for window in windows:
        async with LlmServer(routes(silence, metrics=in_turn(*window))) as server:
            result = await _run(_settings(server), memory)
        memory = result.memory if result.memory is not None else memory
        observation = _main(result)
        still = observation.measurements.get("engine_still_windows", 0)
        found.append(f"{observation.severity.value} {still:g}")
    return found


async def test_what_was_proven_alive_pages_only_after_as_many_still_windows_as_open_an_incident() -> None:
    busy, still = [_scrape(3, 2, 10), _scrape(3, 2, 17)], [_scrape(3, 2, 17)]
    blind: list[Player] = [_scrape(3, 2, 17), reply_with("", 500)]
    assert await _severities([busy, busy, still, busy]) == ["warn 0", "warn 0", "warn 1", "warn 0"]
    assert await _severities([busy, still, blind, still, still]) == ["warn 0", "warn 1", "warn 1", "warn 2", "page 3"]
    # gone as silent as a server that pages from the start: no counters, three times in a row
    assert await _severities([busy, blind, blind, blind]) == ["warn 0", "warn 0", "warn 0", "page 0"]
    assert await _severities([busy, blind, blind, still, blind, busy]) == [*["warn 0"] * 3, *["warn 1"] * 2, "warn 0"]
    assert await _severities([still, still, blind, still]) == ["page 1", "page 2", "page 2", "page 3"]


async def test_garbage_passes_and_fails_the_quality_check_until_real_text_comes() -> None:
    found = []
    for reply in (OK, reply_with(chat_reply("!!!!!"))):
        async with LlmServer(routes(reply)) as server:
            result = await _run(_settings(server))
        assert _main(result).verdict is Verdict.PASS
        found += [o for o in result.observations if o.key == "quality/deepseek"]
    assert [(o.verdict.value, o.reason, o.severity.value) for o in found] == [
        ("pass", "ok", "info"),
        ("fail", "garbage", "warn"),
    ]
    async with LlmServer(routes(silence)) as server:
        unanswered = await _run(_settings(server))
    assert [o.key for o in unanswered.observations] == ["generation/deepseek"]


async def test_a_gateway_that_gave_up_is_decided_by_the_counters() -> None:
    timed_out = recorded("nginx-504")
    async with LlmServer(routes(timed_out, metrics=in_turn(_scrape(1, 0, 10), _scrape(1, 0, 25)))) as server:
        observation = _main(await _run(_settings(server)))
    assert (observation.reason, observation.severity) == ("busy", Severity.WARN)


async def test_metrics_are_found_where_each_engine_keeps_them_and_remembered() -> None:
    body = (METRICS / "trtllm-prometheus.prom").read_bytes()

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        found = {"/metrics": reply_with("[]"), "/prometheus/metrics": reply_with(body, 200, "text/plain")}
        await found.get(request.path, OK if "chat" in request.path else reply_with("", 404))(request, writer)

    async with LlmServer(play) as server:
        result = await _run(_settings(server))
        await _run(_settings(server), result.memory)
        looked = [request.path for request in server.requests if "metrics" in request.path]
    assert looked[:3] == ["/metrics", "/v1/metrics", "/prometheus/metrics"]
    assert set(looked[3:]) == {"/prometheus/metrics"}


async def test_metrics_that_moved_are_looked_for_again() -> None:
    """Another engine at the same address keeps its metrics elsewhere; without them busy and hung look the same."""
    place = {"metrics": "/metrics"}

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        metrics = _scrape(0, 0, 7) if request.path == place["metrics"] else reply_with("", 404)
        await (OK if "chat" in request.path else metrics)(request, writer)

    memory: Any = None
    found: list[bool] = []
    async with LlmServer(play) as server:
        for now in (1000.0, 1120.0, 1120.0 + 3600.0):
            result = await _run(_settings(server), memory, now)
            memory = result.memory if result.memory is not None else memory
            found.append(any(o.key == "progress/deepseek" for o in result.observations))
            place["metrics"] = "/v1/metrics"
    assert found == [True, False, True]


@pytest.mark.parametrize("running", [1, 2])
async def test_long_requests_that_stand_still_while_the_probe_passes_fail_the_progress_check(running: int) -> None:
    """The counter moves by our own tokens during a probe, so only the time between two probes is evidence."""
    tokens = iter(range(0, 10_000, 5))
    state = {"tokens": 0}

    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        await _scrape(running, 0, state["tokens"])(request, writer)

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        state["tokens"] = next(tokens)
        await OK(request, writer)

    memory: Any = None
    found: list[Observation] = []
    async with LlmServer(routes(chat, metrics=metrics)) as server:
        for round_number in range(5):
            result = await _run(_settings(server), memory)
            memory = result.memory if result.memory is not None else memory
            found.append(next(o for o in result.observations if o.key == "progress/deepseek"))
            if round_number == 3:
                state["tokens"] = next(tokens)
    assert [o.verdict.value for o in found] == ["pass", "fail", "fail", "fail", "pass"]
    assert found[3].summary == (
        f"short requests pass, but {running} running ones stand still: "
        "generation_tokens_total has not moved between 3 probes"
    )
    assert json.loads(json.dumps(memory)) == memory


async def test_an_idle_engine_makes_progress_nothing_to_worry_about() -> None:
    async with LlmServer(routes(OK, metrics=_scrape(0, 0, 7))) as server:
        result = await _run(_settings(server))
        looked = len(server.asked("/metrics"))
    assert [o.verdict.value for o in result.observations if o.key.startswith("progress/")] == ["pass"]
    assert looked == 1


async def test_a_key_is_sent_and_never_shown() -> None:
    echo = reply_with({"error": {"message": "Incorrect API key provided: sk-very-secret", "code": 401}}, 401)
    async with LlmServer(routes(echo)) as server:
        observation = _main(await _run(_settings(server, api_key=Secret("sk-very-secret"))))
        assert server.asked()[0].headers["authorization"] == "Bearer sk-very-secret"
    assert observation.reason == "auth"
    assert "sk-very-secret" not in repr(observation)


async def test_a_key_at_the_cut_of_a_long_message_is_not_shown_in_part() -> None:
    echo = reply_with({"error": {"message": "x" * 285 + " sk-very-secret and more" * 3, "code": 401}}, 401)
    async with LlmServer(routes(echo)) as server:
        observation = _main(await _run(_settings(server, api_key=Secret("sk-very-secret"))))
    assert "sk-v" not in repr(observation)


async def test_two_runs_of_one_check_never_overlap() -> None:
    running = {"now": 0, "most": 0}

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        running["now"] += 1
        running["most"] = max(running["most"], running["now"])
        await asyncio.sleep(0.05)
        running["now"] -= 1
        await OK(request, writer)

    async with LlmServer(routes(chat)) as server, ChatClient() as client:
        check = GenerationCheck(_settings(server), client)
        await asyncio.gather(*(check.run(None, 1000.0) for _ in range(3)))
    assert running["most"] == 1


async def test_memory_of_any_shape_is_survived() -> None:
    async with LlmServer(routes(OK, metrics=_scrape(1, 0, 7))) as server:
        shapes: list[Any] = [17, "x", [], {"after": {"engine": 3}}, {"stuck_rounds": "many", "model": 5, "after": [1]}]
        for memory in shapes:
            assert _main(await _run(_settings(server), memory)).verdict is Verdict.PASS


@pytest.mark.parametrize("broken", [{"base_url": "ftp://x"}, {"base_url": "http://"}, {"ca_file": "/does/not/exist"}])
async def test_settings_that_cannot_be_used_are_refused_at_once(broken: dict[str, Any]) -> None:
    async with LlmServer(OK) as server, ChatClient() as client:
        with pytest.raises(WatchdogError, match="deepseek"):
            GenerationCheck(replace(_settings(server), **broken), client)


@pytest.mark.alone
async def test_quick_metrics_do_not_hold_the_probe_up() -> None:
    async with LlmServer(routes(OK, metrics=_scrape(0, 0, 7))) as server, ChatClient() as client:
        settings = _settings(server, probe=ProbeSettings(timeout_s=20))
        outcome = await GenerationCheck(settings, client).probe(None, 1000.0)
    assert outcome.sample is not None
    assert outcome.duration_s < 0.2


async def test_a_slow_server_whose_every_page_is_slow_still_has_nearly_its_whole_time() -> None:
    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2.4)
        await OK(request, writer)

    async with LlmServer(slow) as server:
        observation = _main(await _run(_settings(server, model=None, probe=ProbeSettings(timeout_s=3))))
    assert observation.verdict is Verdict.PASS


async def test_a_request_that_passed_before_and_is_called_bad_now_is_the_servers_fault() -> None:
    healthy = recorded("vllm-stream-ok")
    for body, reason in (
        ({"error": {"message": "Bad Request", "type": "BadRequestError", "code": 400}}, "server_error"),
        ({"error": {"message": "Unsupported parameter: temperature", "type": "x", "code": 400}}, "bad_request"),
    ):
        async with LlmServer(routes(in_turn(healthy, reply_with(body, 400)))) as server:
            first = await _run(_settings(server))
            second = await _run(_settings(server), first.memory)
            changed = await _run(_settings(server, extra_body={"top_k": 1}), first.memory)
        assert _main(first).reason == "ok"
        assert _main(second).reason == reason
        assert ("that it took before" in _main(second).summary) == (reason == "server_error")
        assert _main(changed).reason == "bad_request", "this one it never took"
