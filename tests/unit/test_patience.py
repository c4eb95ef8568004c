"""When the next probe of a failing server comes: evidence sets the patience, three failures stay three."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.time_to_page import times_to_page
from tests.support.alerting_path import observed
from watchdog.config import ProbeSettings
from watchdog.engines.metrics import EngineSample
from watchdog.engines.movement import Look, Suspicion, Watch
from watchdog.model import Observation, Phase, Thresholds, TrackState, Verdict
from watchdog.policy import DOWN_S, PATIENCE, NextProbe, PatienceReason, next_probe, strikes_by_evidence
from watchdog.policy.plan import page_within_s
from watchdog.reasons import ServerReason
from watchdog.tracker import step

SHIPPED = ProbeSettings()
SINCE = 1_795_000_000.0
CONFIRM = NextProbe(15.0, None, PatienceReason.CONFIRMING)


def state(fails: int) -> TrackState:
    return TrackState(phase=Phase.PENDING, fails=fails, since=SINCE)


def seen(reason: ServerReason, now: float = SINCE, down_s: float = 0.0) -> Observation:
    return observed(Verdict.FAIL, reason=reason.value, at=now, measurements={DOWN_S: down_s})


def after(
    reason: ServerReason, fails: int = 1, settings: ProbeSettings = SHIPPED, *, proven: bool = False, now: float = SINCE
) -> NextProbe | None:
    return next_probe(state(fails), seen(reason, now, now - SINCE), settings, proven=proven, now=now)


WORDS = {
    ServerReason.ENGINE_DEAD,
    ServerReason.SERVER_ERROR,
    ServerReason.UPSTREAM_DOWN,
    ServerReason.REFUSED,
    ServerReason.RESET,
    ServerReason.UNREACHABLE,
}


@pytest.mark.parametrize("reason", [reason for reason in ServerReason if reason.row.verdict is Verdict.FAIL])
def test_only_the_servers_own_words_and_a_dead_connection_are_confirmed_soon(reason: ServerReason) -> None:
    coming = after(reason)
    assert coming is not None
    assert (coming == CONFIRM) == (reason in WORDS)
    assert (coming.wait_s is None) == (reason not in WORDS), "everything else comes at its regular time"


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (ServerReason.LOADING, PatienceReason.LOADING),
        (ServerReason.NO_TOKEN, PatienceReason.UNPROVEN),
        (ServerReason.NO_REPLY, PatienceReason.UNPROVEN),
        (ServerReason.GATEWAY_TIMEOUT, PatienceReason.UNPROVEN),
        (ServerReason.BUSY, PatienceReason.UNPROVEN),
        (ServerReason.AUTH, PatienceReason.REGULAR),
        (ServerReason.EMPTY, PatienceReason.REGULAR),
    ],
)
def test_what_keeps_its_regular_time_says_why(reason: ServerReason, why: PatienceReason) -> None:
    assert after(reason) == NextProbe(None, None, why)


def test_every_row_of_the_table_is_used_and_has_words() -> None:
    assert set(PATIENCE) == set(PatienceReason)
    assert all(row.words for row in PATIENCE.values())


def test_a_crash_must_last_before_the_probe_that_opens_the_incident() -> None:
    assert after(ServerReason.REFUSED, 2, now=SINCE + 15) == NextProbe(85.0, None, PatienceReason.MUST_LAST)
    assert after(ServerReason.REFUSED, 2, now=SINCE + 95) == CONFIRM
    assert after(ServerReason.ENGINE_DEAD, 2, now=SINCE + 15) == CONFIRM, "the engine's own words need not last"
    assert after(ServerReason.ENGINE_DEAD, proven=True) == NextProbe(10.0, 15.0, PatienceReason.OWN_WORDS)
    long = replace(SHIPPED, down_for_s=3600)
    assert after(ServerReason.REFUSED, 2, long, now=SINCE) == NextProbe(120.0, None, PatienceReason.MUST_LAST)


def test_a_proven_death_gets_little_patience() -> None:
    assert after(ServerReason.NO_TOKEN, proven=True) == NextProbe(15.0, 15.0, PatienceReason.PROVEN_DEAD)
    quick = replace(SHIPPED, timeout_s=5)
    assert after(ServerReason.NO_TOKEN, 1, quick, proven=True) == NextProbe(15.0, 5, PatienceReason.PROVEN_DEAD)


@pytest.mark.parametrize("settings", [replace(SHIPPED, confirm_s=0), replace(SHIPPED, interval_s=59)])
def test_switched_off_or_at_a_quick_rhythm_nothing_changes(settings: ProbeSettings) -> None:
    regular = NextProbe(None, None, PatienceReason.REGULAR)
    assert after(ServerReason.REFUSED, 1, settings) == regular
    assert after(ServerReason.ENGINE_DEAD, 1, settings, proven=True) == regular


@pytest.mark.parametrize("phase", [Phase.OK, Phase.FIRING, Phase.RECOVERING])
def test_an_open_incident_and_a_healthy_server_keep_the_rhythm(phase: Phase) -> None:
    moved = replace(state(3), phase=phase)
    assert next_probe(moved, seen(ServerReason.REFUSED), SHIPPED, proven=True, now=SINCE) is None


def test_three_failures_of_a_crash_take_a_hundred_seconds_and_of_a_dead_engine_twenty() -> None:
    def third_at(reason: ServerReason) -> float:
        now = SINCE
        for fails in (1, 2):
            coming = after(reason, fails, now=now, proven=reason is ServerReason.ENGINE_DEAD)
            assert coming is not None
            assert coming.wait_s is not None
            now += coming.wait_s
        return now - SINCE

    assert third_at(ServerReason.REFUSED) == 100
    assert third_at(ServerReason.ENGINE_DEAD) == 20


def test_what_counts_soon_is_what_is_confirmed_soon_and_a_restart_must_last() -> None:
    limits = Thresholds(strike_gap_s=90)

    def by(reason: ServerReason, *, proven: bool = False, fails: int = 2, down_s: float = 0.0) -> float:
        failed = seen(reason, down_s=down_s)
        return strikes_by_evidence(limits, state(fails), failed, SHIPPED, proven=proven).strike_gap_s

    assert by(ServerReason.NO_TOKEN) == 90
    assert by(ServerReason.NO_TOKEN, proven=True) == 7.5
    assert by(ServerReason.REFUSED, fails=1) == 7.5
    assert by(ServerReason.REFUSED) == math.inf
    assert by(ServerReason.REFUSED, down_s=75) == 7.5
    assert by(ServerReason.ENGINE_DEAD, proven=True) == 7.5


def test_another_failure_before_a_restart_does_not_make_it_last_longer() -> None:
    now = SINCE + 120
    coming = next_probe(state(2), seen(ServerReason.REFUSED, now), SHIPPED, proven=False, now=now)
    assert coming == NextProbe(100.0, None, PatienceReason.MUST_LAST)


def test_a_daemon_that_is_restarted_again_and_again_does_not_make_an_outage_of_a_restart() -> None:
    limits, now = Thresholds(strike_gap_s=90), TrackState()
    for second in range(0, 72, 8):
        failed = seen(ServerReason.REFUSED, SINCE + second, second)
        now = step(now, failed, strikes_by_evidence(limits, now, failed, SHIPPED, proven=False), SINCE + second).state
        assert now.phase is Phase.PENDING
    failed = seen(ServerReason.REFUSED, SINCE + 100, 100)
    now = step(now, failed, strikes_by_evidence(limits, now, failed, SHIPPED, proven=False), SINCE + 100).state
    assert now.phase is Phase.FIRING


# The passive look.


def sample(progress: float, running: float = 1.0, kv: float = 0.2) -> Look:
    return Look(
        is_open=True,
        status=200,
        sample=EngineSample(
            engine="vllm",
            running=running,
            waiting=0.0,
            live={"": {"generation_tokens_total": progress}},
            running_by={"": running},
            prefill={"": kv},
        ),
    )


def suspicions(*looks: Look) -> list[Suspicion | None]:
    watch = Watch()
    return [watch.look(one) for one in looks]


OPEN, REFUSED, SILENT = Look(is_open=True), Look(is_open=False, refused=True), Look(is_open=False)


def test_a_refused_port_is_suspected_at_once_and_once() -> None:
    assert suspicions(OPEN, REFUSED, REFUSED, OPEN, REFUSED) == [
        None,
        Suspicion.REFUSED,
        None,
        None,
        Suspicion.REFUSED,
    ]


def test_one_lost_packet_is_no_silence() -> None:
    assert suspicions(OPEN, SILENT, OPEN, SILENT, SILENT) == [None, None, None, None, Suspicion.SILENT]


def test_counters_that_stand_still_while_requests_run_are_suspected() -> None:
    assert suspicions(sample(5), sample(9), sample(9)) == [None, None, Suspicion.STANDS_STILL]


def test_a_prompt_that_is_read_an_idle_engine_and_a_first_look_are_not() -> None:
    assert suspicions(sample(9, kv=0.2), sample(9, kv=0.3), sample(9, kv=0.4)) == [None, None, None]
    assert suspicions(sample(9, running=0), sample(9, running=0)) == [None, None]


def test_an_error_of_the_metrics_page_is_suspected() -> None:
    assert suspicions(OPEN, Look(is_open=True, status=503)) == [None, Suspicion.FAILING]
    assert suspicions(OPEN, Look(is_open=True, status=404)) == [None, None]


# What `validate` promises.


@pytest.mark.parametrize(
    ("kind", "promised"), [("engine error", "engine_error"), ("crash", "crash"), ("hang", "hang_proven")]
)
@pytest.mark.parametrize(
    "settings",
    [SHIPPED, replace(SHIPPED, confirm_s=0, watch_s=0), replace(SHIPPED, watch_s=0), replace(SHIPPED, confirm_s=40)],
)
def test_no_simulated_page_comes_later_than_promised_nor_much_sooner(
    kind: str, promised: str, settings: ProbeSettings
) -> None:
    latest = max(times_to_page(kind, settings, 100, seed=1))
    limit_s = page_within_s(settings)[promised]
    assert 0.75 * limit_s <= latest <= limit_s + 1
