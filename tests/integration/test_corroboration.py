"""Two independent signs within a minute: one page at once, with both. Through the real board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.alerting_path import KEY, Station, configuration, observed, paced, receiver
from tests.support.diagnosis_cases import FROZEN, GIB, unread
from tests.support.diagnosis_cases import vitals as read_vitals
from watchdog.kinds import ROAD
from watchdog.model import Cause, Nature, Observation, Severity, Verdict
from watchdog.policy import AlertPlan
from watchdog.policy.corroboration import SIGNS, Sign, Signs, are_independent

PLAN = AlertPlan.from_config(paced(configuration()))
CONFIG = paced(configuration(receiver("phone", min_severity=Severity.PAGE)))


def line(kind: str = "gpu.xid", severity: Severity = Severity.WARN, host: str = "worker") -> Observation:
    return observed(
        Verdict.FAIL, f"kernel_log/{host}/{kind}/0000:01:00.0", reason=kind, nature=Nature.OCCURRENCE, subject=host,
        severity=severity, summary=kind, unit="line", labels={"host": host, "kind": kind, "device": "0000:01:00.0"},
    )  # fmt: skip


def silent(host: str = "worker") -> Observation:
    return observed(
        Verdict.FAIL, f"kernel_log/{host}", reason="silent", subject=host,
        summary="its SSH server sent nothing for 30 s", labels={"host": host}, duration_s=30.0,
    )  # fmt: skip


def gone(host: str = "worker") -> Observation:
    return replace(silent(host), reason="timeout", summary="no answer to a TCP connection within 30 s")


DEAD = observed(Verdict.FAIL, KEY, reason="engine_dead", summary="the server says that its engine is dead")
HANGS = observed(Verdict.FAIL, KEY, reason="no_token", summary="no token within 60 s", measurements=FROZEN)
EMPTY = read_vitals("worker", available=0.5 * GIB)
HEALTHY = observed(Verdict.PASS, KEY)
BEHIND = replace(
    observed(Verdict.PASS, "vitals/worker", subject="worker", labels={"host": "worker"}),
    measurements={"nccl_mismatch": 1.0, "nccl_rank": 1.0},
)


async def seen(station: Station, *story: Observation, gap_s: float = 20.0) -> list[str]:
    """The titles that the phone got, after each of `story` was seen in turn."""
    for one in story:
        await station.look(one)
        await station.pass_time(gap_s, step_s=gap_s)
    return [text.title for _, text in station.sinks["phone"].accepted]


@pytest.mark.parametrize(
    ("story", "title"),
    [
        ([line(), DEAD], "FIRING deepseek: no text for 0 s: gpu.xid on worker and engine dead"),
        ([DEAD, line()], "FIRING deepseek: no text for 20 s: engine dead and gpu.xid on worker"),
        ([line(), HANGS], "FIRING deepseek: no text for 0 s: gpu.xid on worker and stands still"),
        ([line("pcie.aer.nonfatal"), silent()], "NEW worker: pcie.aer.nonfatal on worker and worker silent (20 s)"),
        ([silent(), line("pcie.aer.nonfatal")], "NEW worker: worker silent and pcie.aer.nonfatal on worker (0 s)"),
        ([line("gpu.nvrm_oom"), EMPTY], "NEW worker: gpu.nvrm_oom on worker and no memory on worker (20 s)"),
        ([line("gpu.nvrm_oom"), silent()], "NEW worker: gpu.nvrm_oom on worker and worker silent (20 s)"),
        ([line("gpu.nvrm_oom"), DEAD], "FIRING deepseek: no text for 0 s: gpu.nvrm_oom on worker and engine dead"),
        ([silent(), HANGS], "FIRING deepseek: no text for 0 s: worker silent and stands still"),
    ],
)
async def test_two_signs_by_different_roads_are_one_page_at_once_with_both(
    tmp_path: Path, story: Sequence[Observation], title: str
) -> None:
    async with Station(tmp_path, CONFIG) as station:
        await seen(station, HEALTHY)
        assert await seen(station, *story) == [title]
        (page,) = [one for one in station.ingest.open_incidents if one.severity is Severity.PAGE]
        assert len(page.signs) == 2
        body = station.sinks["phone"].accepted[0][1].body
        assert all(one.words in body for one in page.signs)


@pytest.mark.parametrize(
    "story",
    [
        [line()],
        [silent()],
        [DEAD],
        [gone(), replace(DEAD, reason="unreachable")],
        [line("gpu.nvrm_oom"), read_vitals("worker", available=3 * GIB)],  # a model that loads
        [EMPTY],
        [silent(), unread("worker")],  # one road: SSH
        [line(), line("pcie.aer.nonfatal")],  # one road: the kernel's log
        [line(host="elsewhere"), DEAD],  # no host of that server
        [line(), gone()],  # a short loss of network takes a host as well
        [line("gpu.xid", Severity.INFO), DEAD],
        [HANGS, BEHIND],  # a rank that compiles for a minute is behind, too
    ],
    ids=lambda story: "+".join(f"{one.reason}" for one in story),
)
async def test_one_sign_or_two_by_one_road_wait_for_three_failures(
    tmp_path: Path, story: Sequence[Observation]
) -> None:
    async with Station(tmp_path, CONFIG) as station:
        await seen(station, HEALTHY)
        assert await seen(station, *story) == []


async def test_more_than_a_minute_apart_they_are_two_events(tmp_path: Path) -> None:
    async with Station(tmp_path, CONFIG) as station:
        await seen(station, HEALTHY)
        assert await seen(station, line(), DEAD, gap_s=90) == []


async def test_a_second_sign_joins_the_page_that_is_open_and_its_own_incident_stays_with_it(tmp_path: Path) -> None:
    async with Station(tmp_path, CONFIG) as station:
        await seen(station, HEALTHY)
        told = await seen(station, line("pcie.aer.fatal", Severity.PAGE), gone())
        assert told == [
            "NEW worker: pcie.aer.fatal",
            "STILL FIRING worker: pcie.aer.fatal on worker and worker gone (20 s)",
        ]
        assert "does not answer" in station.sinks["phone"].accepted[-1][1].body
        ids = {delivery.incident_id for delivery, _ in station.sinks["phone"].accepted}
        assert len(ids) == 1
        told = await seen(station, gone(), gone(), gone(), gap_s=600)
        assert len(told) == 2, "the host's own three strikes are the same event"


async def test_while_our_own_network_is_down_silence_is_no_sign(tmp_path: Path) -> None:
    async with Station(tmp_path, CONFIG) as station:
        await seen(station, HEALTHY)
        road = observed(
            Verdict.FAIL,
            ROAD.key(),
            reason="blind",
            summary="our own network is down",
            severity=Severity.WARN,
            labels={},
        )
        assert await seen(station, road, line(), silent()) == []


async def test_a_corroborated_page_ends_when_text_comes_again(tmp_path: Path) -> None:
    async with Station(tmp_path, CONFIG) as station:
        await seen(station, HEALTHY, line(), DEAD)
        told = await seen(station, HEALTHY, HEALTHY, gap_s=120)
        assert [title.split()[0] for title in told] == ["FIRING", "RESOLVED"]


STORIES = st.lists(
    st.tuples(
        st.sampled_from(
            [line(), line("oops", Severity.PAGE), line(host="head"), silent(), gone(), DEAD, HANGS, HEALTHY]
        ),
        st.sampled_from([5.0, 30.0, 100.0]),
    ),
    max_size=8,
)


@given(story=STORIES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_page_is_corroborated_by_fewer_than_two_independent_signs(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[Observation, float]]
) -> None:
    async with Station(tmp_path_factory.mktemp("story"), CONFIG) as station:
        for one, gap_s in story:
            await seen(station, one, gap_s=gap_s)
        for incident in station.ingest.open_incidents:
            if incident.cause is Cause.SIGNS:
                first, *others = incident.signs
                assert any(are_independent(first, other, PLAN) for other in others)


def test_signs_are_forgotten_after_minutes_and_never_grow() -> None:
    signs = Signs()
    for number in range(500):
        now = 1e9 + number * 10.0
        signs.note(
            replace(line("gpu.xid"), at=now, key=f"kernel_log/worker/gpu.xid/{number}"),
            PLAN,
            now,
            own_network_down=False,
        )
    assert len(signs._recent) <= 40


def test_every_sign_has_a_row() -> None:
    assert set(SIGNS) == set(Sign)
