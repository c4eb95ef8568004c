"""Could we see at all: gaps in the clocks, our own network, and what that makes of an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.alerting_path import line_seen, observed
from watchdog.clock import SystemClock
from watchdog.model import Verdict
from watchdog.selfwatch.attribution import (
    Answer,
    ClockReading,
    Gap,
    GapKind,
    NetworkState,
    NetworkVerdict,
    NetworkView,
    RouterProof,
    TcpProbe,
    attribute_to_gap,
    attribute_to_network,
    gap_between,
    judge_network,
    may_be_our_network,
)

NOW = 1_795_000_000.0
ROUTER = "192.0.2.1"
PROOF = RouterProof(address=ROUTER, at=NOW - 600)
DEAD = (TcpProbe("192.0.2.10:8000", Answer.SILENT, 3.0), TcpProbe("192.0.2.11:22", Answer.NO_HOST, 3.0))


def look(router: Answer | None = Answer.SILENT, targets: tuple[TcpProbe, ...] = DEAD, **changes: Any) -> NetworkView:
    gateway = None if router is None else TcpProbe(ROUTER, router, 3.0)
    values: dict[str, Any] = {"target_addresses": frozenset({"192.0.2.10", "192.0.2.11"}), **changes}
    return NetworkView(gateway, targets, **values)


@pytest.mark.parametrize(
    ("wall_s", "monotonic_s", "elapsed_s", "kind", "lasted_s", "step_s"),
    [
        (1.0, 1.0, 1.0, None, 0, 0),
        (3.0, 1.0, 1.0, None, 0, 0),
        (-2.0, 1.0, 1.0, None, 0, 0),
        (9.0, 9.0, 9.0, None, 0, 0),
        (7201.0, 1.0, 7201.0, GapKind.ASLEEP, 7200, 0),
        (3 * 86400 + 1.0, 1.0, 3 * 86400 + 1.0, GapKind.ASLEEP, 3 * 86400, 0),
        (-7199.0, 1.0, 1.0, GapKind.SET_BACK, 7200, -7200),
        (7201.0, 1.0, 1.0, GapKind.SET_FORWARD, 7200, 7200),
        (10801.0, 1.0, 7201.0, GapKind.ASLEEP, 7200, 3600),
        (61.0, 61.0, 61.0, GapKind.STALLED, 60, 0),
        (7201.0, 61.0, 7201.0, GapKind.ASLEEP, 7140, 0),
    ],
)
def test_three_clocks_tell_sleep_stall_and_step(
    wall_s: float, monotonic_s: float, elapsed_s: float, kind: GapKind | None, lasted_s: float, step_s: float
) -> None:
    after = ClockReading(NOW + wall_s, 50.0 + monotonic_s, 70.0 + elapsed_s)
    gap = gap_between(ClockReading(NOW, 50.0, 70.0), after, 1.0)
    assert (gap and gap.kind) == kind
    if gap is not None:
        assert (gap.lasted_s, gap.step_s) == (lasted_s, step_s)
        assert gap.began_at <= gap.ended_at


@given(st.floats(-1e7, 1e7), st.floats(0, 1e7), st.floats(0.1, 60))
def test_a_gap_is_found_exactly_when_the_clocks_part_or_we_are_late(
    wall_s: float, elapsed_s: float, expected_s: float
) -> None:
    gap = gap_between(ClockReading(0.0, 0.0, 0.0), ClockReading(wall_s, elapsed_s, elapsed_s), expected_s)
    apart = abs(wall_s - elapsed_s) >= 10
    assert (gap is not None) == (apart or elapsed_s - expected_s >= 10)


def test_one_target_that_answers_proves_the_road() -> None:
    alive = TcpProbe("192.0.2.11:22", Answer.ANSWERED, 0.01)
    assert judge_network(look(targets=(DEAD[0], alive)), PROOF).state is NetworkState.OPEN


def test_a_router_that_answers_proves_the_road_when_both_hosts_are_down_at_once() -> None:
    assert judge_network(look(Answer.ANSWERED), PROOF).state is NetworkState.OPEN


@pytest.mark.parametrize("router", [Answer.SILENT, Answer.NO_HOST, Answer.HOST_DOWN, Answer.NO_NETWORK, Answer.OTHER])
def test_silence_of_a_router_known_to_answer_and_of_every_target_is_our_own_trouble(router: Answer) -> None:
    verdict = judge_network(look(router), PROOF)
    assert verdict.state is NetworkState.LOST
    assert ROUTER in verdict.why


def test_a_default_route_that_is_gone_is_our_own_trouble() -> None:
    assert judge_network(look(None), PROOF).state is NetworkState.LOST


def test_a_single_silent_server_is_judged_like_many() -> None:
    assert judge_network(look(targets=DEAD[:1]), PROOF).state is NetworkState.LOST
    assert judge_network(look(Answer.ANSWERED, targets=DEAD[:1]), PROOF).state is NetworkState.OPEN


@pytest.mark.parametrize(
    ("seen", "proof"),
    [
        (look(), None),
        (look(None), None),
        (look(), RouterProof(address="192.0.2.254", at=NOW)),
        (look(target_addresses=frozenset({ROUTER})), PROOF),
        (look(None, target_addresses=frozenset({ROUTER})), PROOF),
    ],
    ids=["never answered", "never had a route", "another router", "router is a target", "route by a target is gone"],
)
def test_what_is_not_proven_stays_the_targets_trouble(seen: NetworkView, proof: RouterProof | None) -> None:
    verdict = judge_network(seen, proof)
    assert verdict.state is NetworkState.UNDECIDED
    assert attribute_to_network(observed(reason="unreachable"), verdict, NOW).verdict is Verdict.FAIL


def test_a_router_that_is_not_even_on_the_link_is_our_own_trouble_only_where_nothing_was_ever_reached() -> None:
    absent = NetworkView(TcpProbe(ROUTER, Answer.NO_HOST, 3.0, is_absent=True), DEAD)
    assert judge_network(absent, None, reached=False).state is NetworkState.LOST
    assert judge_network(absent, None, reached=True).state is NetworkState.UNDECIDED
    assert judge_network(look(), None, reached=False).state is NetworkState.UNDECIDED
    itself = replace(absent, target_addresses=frozenset({ROUTER}))
    assert judge_network(itself, None, reached=False).state is NetworkState.UNDECIDED
    useless = replace(PROOF, answers=False)
    assert judge_network(absent, useless, reached=False).state is NetworkState.UNDECIDED


def refused_at_once(answer: Answer = Answer.NO_HOST, took_s: float = 0.001, *, on_link: bool = True) -> TcpProbe:
    return TcpProbe("192.168.1.10:8000", answer, took_s, on_link)


def test_macos_refusing_every_neighbour_at_once_is_named_as_its_privacy_setting() -> None:
    beyond = TcpProbe("198.51.100.1:443", Answer.SILENT, 3.0, on_link=False)
    verdict = judge_network(look(Answer.ANSWERED, (refused_at_once(), refused_at_once(), beyond), is_darwin=True), None)
    assert verdict.state is NetworkState.DENIED
    assert "local network" in verdict.why
    assert "LaunchDaemon" in verdict.advice


@pytest.mark.parametrize(
    "targets",
    [
        (refused_at_once(Answer.HOST_DOWN),),
        (refused_at_once(took_s=2.0),),
        (refused_at_once(on_link=False),),
        (refused_at_once(), refused_at_once(Answer.SILENT, 3.0)),
        (),
    ],
    ids=["host is down", "not at once", "behind a router", "one of two only", "no neighbour at all"],
)
def test_a_dead_neighbour_of_a_mac_is_not_taken_for_a_privacy_setting(targets: tuple[TcpProbe, ...]) -> None:
    assert judge_network(look(Answer.ANSWERED, targets, is_darwin=True), None).state is NetworkState.OPEN


def test_linux_never_denies_the_local_network() -> None:
    assert judge_network(look(Answer.ANSWERED, (refused_at_once(),)), None).state is NetworkState.OPEN


LOST = NetworkVerdict(NetworkState.LOST, "our own network is down", "look at the cable")


@pytest.mark.parametrize(
    ("key", "reason", "excusable"),
    [
        ("generation/deepseek", "unreachable", True),
        ("generation/deepseek", "dns", True),
        ("generation/deepseek", "refused", False),
        ("generation/deepseek", "no_reply", False),
        ("generation/deepseek", "reset", False),
        ("kernel_log/head", "unroutable", True),
        ("kernel_log/head", "timeout", True),
        ("kernel_log/head", "silent", False),
        ("kernel_log/head", "refused", False),
        ("follow/head", "timeout", True),
        ("self/storage", "timeout", False),
    ],
)
def test_only_what_never_reached_the_target_can_be_our_roads_fault(key: str, reason: str, excusable: bool) -> None:
    seen = observed(key=key, reason=reason)
    assert may_be_our_network(seen) is excusable
    judged = attribute_to_network(seen, LOST, NOW)
    assert (judged.verdict, judged.reason) == ((Verdict.UNKNOWN, "blind") if excusable else (Verdict.FAIL, reason))


def test_a_blind_observation_keeps_what_was_seen_as_evidence() -> None:
    judged = attribute_to_network(observed(reason="unreachable", summary="no answer"), LOST, NOW)
    assert [fact.source for fact in judged.evidence] == ["unreachable", "watchdog"]
    assert judged.advice == "look at the cable"


SLEPT = Gap(GapKind.ASLEEP, NOW - 7200, NOW, 7200)


def test_a_run_cut_in_two_by_a_sleep_says_nothing_whatever_its_reason() -> None:
    cut = attribute_to_gap(observed(at=NOW - 7210, reason="no_reply"), SLEPT, NOW + 1, settling=False)
    assert (cut.verdict, cut.reason) == (Verdict.UNKNOWN, "clock_jump")


def test_a_run_after_a_sleep_is_excused_only_while_the_network_comes_up_and_only_by_the_road() -> None:
    def judged(reason: str, *, settling: bool) -> str:
        return attribute_to_gap(observed(at=NOW + 2, reason=reason), SLEPT, NOW + 5, settling=settling).reason

    assert judged("unreachable", settling=True) == "clock_jump"
    assert judged("unreachable", settling=False) == "unreachable"
    assert judged("no_reply", settling=True) == "no_reply"


def test_a_run_from_before_the_clock_was_set_back_lies_in_the_future_and_says_nothing() -> None:
    gap = Gap(GapKind.SET_BACK, NOW - 7200, NOW - 7200, 7200)
    assert gap.covers(NOW - 10, NOW - 7190)
    assert not gap.covers(NOW - 7195, NOW - 7190)


def test_passes_and_kernel_lines_are_never_touched() -> None:
    for seen in (observed(Verdict.PASS, at=NOW - 9000), replace(line_seen(), at=NOW - 9000)):
        assert attribute_to_gap(seen, SLEPT, NOW, settling=True) is seen
        assert attribute_to_network(seen, LOST, NOW) is seen


def test_the_system_clock_that_goes_on_asleep_moves_like_the_monotonic_one_while_awake() -> None:
    clock = SystemClock()
    first = clock.elapsed() - clock.monotonic()
    assert first >= -0.1
    assert abs(clock.elapsed() - clock.monotonic() - first) < 1.0
