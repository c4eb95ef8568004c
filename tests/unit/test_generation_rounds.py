"""One run of a generation check with every exchange scripted: which model is asked for, and what is remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from yarl import URL

from watchdog.chat import ChatClient, Deadline, Fetched
from watchdog.chat.endpoint import Endpoint
from watchdog.checks import build_checks
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.generation_memory import GenerationMemory
from watchdog.clock import SystemClock
from watchdog.completion.verdict import Judgement
from watchdog.config import Config, HostSettings, KernelLogSettings, ProbeSettings, ServerSettings
from watchdog.model import Check, CheckResult, Json, Observation, Verdict
from watchdog.reasons import ServerReason

OK = Judgement(reason=ServerReason.OK, alive=True, text="ok")
GONE = Judgement(reason=ServerReason.UNKNOWN_MODEL, alive=False)
Page = Json | Callable[[], Json]


class ScriptedClient(ChatClient):
    """Gives the judgements in turn (the last one for ever) and the pages by path; whatever else is asked is a 404."""

    def __init__(self, judgements: Sequence[Judgement] = (OK,), pages: Mapping[str, Page] | None = None) -> None:
        super().__init__()
        self._judgements = list(judgements)
        self._pages = pages or {}
        self.models: list[str | None] = []
        self.fetched: list[str] = []

    async def complete(self, endpoint: Endpoint, body: bytes, deadline: float | Deadline) -> Judgement:
        self.models.append(json.loads(body).get("model"))
        await asyncio.sleep(0)
        return self._judgements.pop(0) if len(self._judgements) > 1 else self._judgements[0]

    async def fetch(self, endpoint: Endpoint, url: URL, timeout_s: float) -> Fetched:
        self.fetched.append(url.path)
        page = self._pages.get(url.path)
        found = page() if callable(page) else page
        if found is None:
            return Fetched(404)
        return Fetched(200, "", found.encode() if isinstance(found, str) else json.dumps(found).encode())


def server(**changes: Any) -> ServerSettings:
    values: dict[str, Any] = {"name": "deepseek", "base_url": "http://192.0.2.10:8000/v1"}
    return ServerSettings(**{**values, "probe": ProbeSettings(timeout_s=2.0), **changes})


async def run(client: ScriptedClient, memory: Json = None, **changes: Any) -> CheckResult:
    return await GenerationCheck(server(**changes), client).run(memory, 1000.0)


def generation(result: CheckResult) -> Observation:
    return result.observations[0]


def remembered(result: CheckResult, name: str) -> Json:
    assert isinstance(result.memory, dict)
    return result.memory[name]


def served(*names: str) -> Json:
    return {"data": [{"id": name} for name in names]}


def scrape(running: int, tokens: int) -> str:
    return f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total {tokens}\n"


# Models


async def test_the_only_model_that_is_served_is_asked_for_and_remembered() -> None:
    client = ScriptedClient(pages={"/v1/models": served("big")})
    assert remembered(await run(client), "model") == "big"
    assert client.models == ["big"]


async def test_a_server_without_a_list_of_models_is_asked_without_a_name() -> None:
    client = ScriptedClient()
    assert generation(await run(client)).verdict is Verdict.PASS
    assert client.models == [None]


@pytest.mark.parametrize(
    ("names", "listed"), [("ab", "2 models are served (a, b)"), ("abcdef", "6 models are served (a, b, c, d, e …)")]
)
async def test_of_several_models_none_is_asked_for_and_a_few_are_named(names: str, listed: str) -> None:
    client = ScriptedClient(pages={"/v1/models": served(*names)})
    seen = generation(await run(client))
    assert (seen.reason, client.models) == ("unknown_model", [])
    assert listed in seen.summary
    judged = (await GenerationCheck(server(), client).probe(None, 1000.0)).judgement
    assert 0 <= judged.duration_s < 2
    assert 0 <= seen.measurements["duration_s"] < 2


async def test_a_model_that_is_gone_is_found_anew_in_the_same_run() -> None:
    client = ScriptedClient([GONE, OK], {"/v1/models": served("new")})
    result = await run(client, {"model": "old"})
    assert (client.models, remembered(result, "model")) == (["old", "new"], "new")
    assert generation(result).verdict is Verdict.PASS


@pytest.mark.parametrize("list_now", [served("old"), served("a", "b"), None])
async def test_a_model_that_is_gone_is_not_asked_for_again_where_no_other_one_is_found(list_now: Json) -> None:
    client = ScriptedClient([GONE], {"/v1/models": list_now})
    result = await run(client, {"model": "old"})
    assert (client.models, remembered(result, "model")) == (["old"], None)
    assert generation(result).reason == "unknown_model"


async def test_a_failure_that_says_nothing_of_the_model_keeps_the_one_that_was_found() -> None:
    result = await run(ScriptedClient([Judgement(reason=ServerReason.NO_REPLY)]), {"model": "big"})
    assert remembered(result, "model") == "big"


async def test_a_configured_model_is_asked_for_and_nothing_of_it_is_remembered() -> None:
    client = ScriptedClient()
    result = await run(client, {"model": "found"}, model="named")
    assert (client.models, remembered(result, "model")) == (["named"], None)


# Servers that load models on demand


@pytest.mark.parametrize(
    ("named", "loaded", "asked"),
    [
        (None, [], []),
        (None, ["a"], ["a"]),
        (None, ["a", "b"], ["found"]),
        ("a", ["b", "a:latest"], ["a"]),
        ("a", ["b"], []),
    ],
)
async def test_a_model_is_asked_for_only_while_it_is_loaded(
    named: str | None, loaded: list[str], asked: list[str]
) -> None:
    client = ScriptedClient(pages={"/api/ps": {"models": [{"name": name} for name in loaded]}})
    seen = generation(await run(client, {"model": "found"}, model=named, on_demand=True))
    assert client.models == asked
    assert seen.reason == ("ok" if asked else "asleep")
    if not asked:
        assert f"loaded now: {', '.join(loaded) or 'none'}" in seen.summary
        assert 0 <= seen.measurements["duration_s"] < 2


# Metrics


async def test_metrics_that_were_found_are_remembered_by_their_path() -> None:
    client = ScriptedClient(pages={"/v1/metrics": scrape(0, 5)})
    result = await run(client, model="m")
    assert remembered(result, "metrics_path") == "/v1/metrics"
    assert remembered(result, "metrics_absent_since") is None
    again = ScriptedClient(pages={"/v1/metrics": scrape(0, 5)})
    await run(again, result.memory, model="m")
    assert again.fetched == ["/v1/metrics"]


async def test_configured_metrics_are_read_there_and_nowhere_else() -> None:
    client = ScriptedClient(pages={"/own": scrape(1, 5)})
    seen = (await run(client, model="m", metrics_url="http://192.0.2.10:9000/own")).observations
    assert set(client.fetched) == {"/own"}
    assert {"generation/deepseek", "progress/deepseek"} <= {observation.key for observation in seen}


@pytest.mark.parametrize(("since", "asks"), [(1000.0 - 3599, False), (1000.0 - 3601, True), (1001.0, True)])
async def test_metrics_that_are_not_there_are_looked_for_again_after_an_hour(since: float, asks: bool) -> None:
    client = ScriptedClient()
    result = await run(client, {"metrics_absent_since": since}, model="m")
    assert bool(client.fetched) == asks
    if asks:
        assert remembered(result, "metrics_absent_since") == 1000.0


async def test_running_requests_that_stand_still_are_counted_from_run_to_run() -> None:
    memory: Json = None
    verdicts = []
    for _ in range(3):
        result = await run(ScriptedClient(pages={"/metrics": scrape(1, 5)}), memory, model="m")
        memory = result.memory if result.memory is not None else memory
        verdicts.append(result.observations[1].verdict)
    assert verdicts == [Verdict.PASS, Verdict.FAIL, Verdict.FAIL]
    assert GenerationMemory.from_json(memory).stuck_rounds == 2


async def test_an_unanswered_probe_reads_the_counters_again_at_once() -> None:
    tokens = iter([5, 9])
    client = ScriptedClient([Judgement(reason=ServerReason.NO_REPLY)], {"/metrics": lambda: scrape(1, next(tokens))})
    seen = generation(await run(client, model="m"))
    assert (seen.reason, seen.measurements["engine_busy"]) == ("busy", 1.0)
    assert "generation_tokens_total rose by 4 in 0 s" in seen.summary


# Memory


@pytest.mark.parametrize("value", [None, 7, [], "x", {}])
def test_a_memory_that_is_none_starts_anew(value: Json) -> None:
    assert GenerationMemory.from_json(value) == GenerationMemory()


def test_a_memory_is_read_as_it_was_written_and_what_is_of_a_wrong_type_is_left_out() -> None:
    full = GenerationMemory("max_completion_tokens", "m", "/metrics", 5.0, {"x": 1}, 2)
    assert GenerationMemory.from_json(full.to_json()) == full
    wrong: Json = {"limit_field": 1, "model": 2, "metrics_path": 3, "metrics_absent_since": "4", "stuck_rounds": "5"}
    assert GenerationMemory.from_json(wrong) == GenerationMemory()


# Which checks there are


def test_every_server_and_every_host_gets_its_checks_with_their_intervals() -> None:
    host = HostSettings(
        name="worker",
        address="192.0.2.11",
        user="monitor",
        known_hosts="/dev/null",
        kernel_log=KernelLogSettings(interval_s=77.0),
    )
    client = ChatClient()

    def built(config: Config) -> list[tuple[str, float]]:
        checks: tuple[Check, ...] = build_checks(config, SystemClock(), client)
        return [(check.key, check.interval_s) for check in checks]

    probed = [server(probe=ProbeSettings(interval_s=33.0)), server(name="qwen")]
    assert built(Config()) == []
    assert built(Config(servers=tuple(probed))) == [("generation/deepseek", 33.0), ("generation/qwen", 120.0)]
    assert built(Config(hosts=(host,))) == [("kernel_log/worker", 77.0), ("vitals/worker", 600.0)]
