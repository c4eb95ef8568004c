"""From what one probe saw to observations, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from watchdog.checks.generation_report import (
    ProbeOutcome,
    generation_observation,
    movement_words,
    progress_observation,
    slow_observation,
)
from watchdog.completion.verdict import Judgement
from watchdog.config import ServerSettings
from watchdog.engines.metrics import EngineSample, to_json
from watchdog.engines.movement import Change, Movement, compare
from watchdog.engines.slowness import Slowness
from watchdog.model import Severity, Verdict
from watchdog.reasons import ServerReason

SERVER = ServerSettings(name="deepseek", base_url="http://192.0.2.10:8000/v1")
UNKNOWN = Change(movement=Movement.UNKNOWN)


def outcome(reason: ServerReason = ServerReason.OK, change: Change = UNKNOWN, **more: Any) -> ProbeOutcome:
    judged = Judgement(reason=reason, alive=True if reason is ServerReason.OK else None)
    values: dict[str, Any] = {"judgement": judged, "attempts": (judged,), "resent": 0, "model": "m", "change": change}
    values |= {"before": None, "after": None, "trouble": "", "window_s": 0.0, "timeout_s": 60.0, "duration_s": 0.5}
    values["at"] = 1000.0
    return ProbeOutcome(**{**values, **more})


def test_what_a_passing_probe_did_not_measure_is_left_out() -> None:
    """A reply that is no stream has no speeds, and often no token count."""
    measured = generation_observation(SERVER, outcome()).measurements
    assert set(measured) == {"duration_s", "resent"}
    assert all(type(value) is float for value in measured.values())


@pytest.mark.parametrize(("made_since", "alive"), [(7.0, True), (0.0, None)])
def test_an_engine_that_restarted_during_the_probe_lives_once_it_has_made_a_token(
    made_since: float, alive: bool | None
) -> None:
    change = Change(movement=Movement.RESET, counter="generation_tokens_total", before=900.0, after=made_since)
    assert outcome(ServerReason.NO_REPLY, change).alive is alive


@pytest.mark.parametrize(
    ("reason", "resent", "summary"),
    [
        (ServerReason.OK, 0, "text in 0.00 s"),
        (ServerReason.OK, 1, "text in 0.00 s, after one resend"),
        (ServerReason.RESET, 0, "the connection was closed before any reply"),
        (ServerReason.RESET, 1, "the connection was closed before any reply"),
    ],
)
def test_a_summary_says_no_more_than_is_known_and_a_resend_only_where_it_helped(
    reason: ServerReason, resent: int, summary: str
) -> None:
    assert generation_observation(SERVER, outcome(reason, resent=resent)).summary == summary


def test_long_requests_that_stand_still_only_warn_where_the_engine_hides_that_it_reads_a_prompt() -> None:
    for engine, severity in (("vllm", Severity.PAGE), ("lmdeploy", Severity.WARN)):
        sample = EngineSample(engine=engine, running=1.0, live={"": {"tokens": 7.0}}, running_by={"": 1.0})
        seen = progress_observation(SERVER, outcome(before=sample, earlier=to_json(sample), stuck_rounds=2))
        assert seen is not None
        assert (seen.verdict, seen.severity) == (Verdict.FAIL, severity)


def test_an_engine_that_shows_only_its_latest_step_is_told_so() -> None:
    """TensorRT-LLM without its counters of blocks and chunks."""

    def sample(latency: float) -> EngineSample:
        return EngineSample(
            engine="tensorrt-llm", running=1.0, waiting=0.0, stepping={"": latency}, running_by={"": 1.0}
        )

    still, moved = (compare(sample(0.021), sample(then)) for then in (0.021, 0.019))
    assert (still.movement, moved.movement) == (Movement.FROZEN, Movement.BUSY)
    words = [movement_words(one, sample(0.021), 55.0) for one in (still, moved)]
    assert words == [
        "hung: 1 running, 0 waiting, and it made no step for 55 s",
        "busy, alive: it made steps in 55 s; 1 running, 0 waiting",
    ]


def test_a_replica_that_stands_still_alone_is_named() -> None:
    def sample(first: float, second: float) -> EngineSample:
        live = {"0": {"tokens": first}, "1": {"tokens": second}}
        return EngineSample(engine="vllm", running=2.0, live=live, running_by={"0": 1.0, "1": 1.0})

    seen = progress_observation(SERVER, outcome(before=sample(30, 50), earlier=to_json(sample(10, 50))))
    assert seen is not None
    assert seen.verdict is Verdict.FAIL
    assert "replica 1 has not moved between 1 probe" in seen.summary


SLOWED = Slowness(measure="ttft_s", factor=6.0, now_value=3.0, usual_value=0.5, is_quiet=True)


def test_a_quiet_server_that_is_slower_than_its_week_is_a_warning_in_plain_words() -> None:
    seen = slow_observation(SERVER, outcome(slowness=SLOWED))
    assert seen is not None
    assert (seen.key, seen.verdict, seen.reason, seen.severity) == (
        "slow/deepseek", Verdict.FAIL, "slow", Severity.WARN,
    )  # fmt: skip
    assert seen.summary == "alive, but 6.0× slower than its own median of 7 days (first token after 3 s, usually 0.5 s)"
    assert seen.measurements == {"slow_factor": 6.0, "ttft_s": 3.0, "usual_ttft_s": 0.5}


def test_a_busy_server_is_not_judged_by_a_slow_reply_and_cleared_by_a_fast_one() -> None:
    assert slow_observation(SERVER, outcome(slowness=replace(SLOWED, is_quiet=False))) is None
    cleared = slow_observation(SERVER, outcome(slowness=replace(SLOWED, factor=1.1, is_quiet=False)))
    assert cleared is not None
    assert cleared.verdict is Verdict.PASS


def test_a_slow_server_of_which_nobody_knows_how_busy_it_is_passes_and_says_so() -> None:
    seen = slow_observation(SERVER, outcome(slowness=replace(SLOWED, is_quiet=None)))
    assert seen is not None
    assert (seen.verdict, seen.summary.endswith("; its queue is unknown")) == (Verdict.PASS, True)


def test_fewer_accepted_drafts_are_a_note() -> None:
    seen = slow_observation(SERVER, outcome(slowness=Slowness(acceptance=0.21, usual_acceptance=0.68, is_quiet=True)))
    assert seen is not None
    assert (seen.verdict, seen.reason, seen.severity) == (Verdict.FAIL, "fewer_drafts", Severity.INFO)
    assert seen.summary == "21 % of the drafted tokens are accepted, usually 68 %"


def test_a_failed_probe_says_nothing_of_speed() -> None:
    assert slow_observation(SERVER, outcome(ServerReason.NO_TOKEN)) is None
