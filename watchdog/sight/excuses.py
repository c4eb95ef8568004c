"""What a failed observation becomes when the fault was ours: unknown, with the proof in its evidence."""

from __future__ import annotations

from dataclasses import replace

from watchdog.model import Evidence, Nature, Observation, Verdict
from watchdog.sight.clocks import Gap
from watchdog.sight.road import Road

BLIND = "blind"
"""Reason of an observation when our own road is down (design §5.1)."""
CLOCK_JUMP = "clock_jump"
"""Reason of an observation when we slept, or the clock was set."""

ROAD_REASONS = {
    "generation": frozenset({"unreachable", "dns"}),
    "kernel_log": frozenset({"timeout", "unroutable", "dns", "jump"}),
    "follow": frozenset({"timeout", "unroutable", "dns", "jump"}),
    "vitals": frozenset({"timeout", "unroutable", "dns", "jump"}),
}
"""Kind of check → reasons that our own road could explain. A refused or silent port was reached: never among them."""


def concerns_road(observation: Observation) -> bool:
    """Whether a lost road of our own could explain `observation`."""
    reasons = ROAD_REASONS.get(observation.key.partition("/")[0], frozenset())
    return _is_excusable(observation) and observation.reason in reasons


def excused_by_road(observation: Observation, road: Road, now: float) -> Observation:
    """`observation` if our road stands or nobody knows; else what we can say without it: we are blind."""
    if not road.state.excuses or not concerns_road(observation):
        return observation
    return _unknown(observation, BLIND, road.why, road.advice, now)


def excused_by_gap(observation: Observation, gap: Gap, now: float, *, settling: bool) -> Observation:
    """`observation`, unless `gap` may be the cause: it cut the run in two, or (`settling`) the network is not up."""
    if not _is_excusable(observation):
        return observation
    if gap.covers(observation.at, now) or (settling and concerns_road(observation)):
        return _unknown(observation, CLOCK_JUMP, gap.words, "", now)
    return observation


def _is_excusable(observation: Observation) -> bool:
    """Only a target's condition that is not well: what happened has happened, and our own troubles are ours."""
    return (
        observation.nature is Nature.CONDITION
        and observation.verdict is not Verdict.PASS
        and not observation.key.startswith("self/")
    )


def _unknown(observation: Observation, reason: str, why: str, advice: str, now: float) -> Observation:
    was = Evidence(observation.at, observation.reason, observation.summary)
    return replace(
        observation,
        verdict=Verdict.UNKNOWN,
        reason=reason,
        summary=why,
        evidence=(was, Evidence(now, "watchdog", why)),
        advice=advice,
    )
