"""What a failed observation becomes when the fault was ours: unknown, with the proof in its evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from watchdog.kinds import is_own, row_of
from watchdog.model import Evidence, Nature, Observation, Verdict
from watchdog.reasons import OwnReason
from watchdog.text import duration

# Is the trouble ours? Judges one look around: who answers a knock, and does the router (docs/decisions/0005).

INSTANT_S = 0.1
"""A refusal by our own system comes within this; one from the network may too, which alone proves nothing."""


class Answer(StrEnum):
    """What came back when we knocked at an address with a TCP connection."""

    HERE = "here"
    NO_HOST = "no_host"
    HOST_DOWN = "host_down"
    NO_NETWORK = "no_network"
    NO_NAME = "no_name"
    SILENT = "silent"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Knock:
    """One knock: at what address, what came back, and after how long. `on_link`: no router lies in between, as far as
    the system says; None if it was not asked.
    """

    address: str
    answer: Answer
    took_s: float = 0.0
    on_link: bool | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """Everything seen at one moment. `targets` are those that are other machines; `gateway` is None if there is no
    default route with a router. `target_addresses` are all of theirs: a router among them is no independent witness.
    """

    gateway: Knock | None
    targets: tuple[Knock, ...]
    target_addresses: frozenset[str] = frozenset()
    is_darwin: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """The router that answered when all was well, and when (Unix seconds)."""

    address: str
    at: float


class RoadState(StrEnum):
    """Whether our own road to the targets stands."""

    OPEN = "open"
    LOST = "lost"
    DENIED = "denied"
    UNDECIDED = "undecided"

    @property
    def excuses(self) -> bool:
        """Whether a target that cannot be reached is not to blame."""
        return self in (RoadState.LOST, RoadState.DENIED)


@dataclass(frozen=True, slots=True)
class Road:
    """The judgement: the state, why in plain words, and what to do about it."""

    state: RoadState
    why: str
    advice: str = ""


def judge_road(look: Look, proof: Proof | None) -> Road:
    """Whose trouble it is that targets cannot be reached. `proof` is what is known of the router, if anything."""
    here = next((knock for knock in look.targets if knock.answer is Answer.HERE), None)
    if here is not None:
        return Road(RoadState.OPEN, f"{here.address} answers")
    if _is_denied(look):
        return Road(
            RoadState.DENIED,
            "macOS does not let this program talk to the local network",
            "Allow it under Privacy & Security, Local Network, or run it as a LaunchDaemon "
            "(`inference-watchdog service install --launchd`), which is exempt.",
        )
    gateway = look.gateway
    if gateway is not None and gateway.answer is Answer.HERE:
        return Road(RoadState.OPEN, f"the router {gateway.address} answers")
    return _by_the_router(look, proof)


def _by_the_router(look: Look, proof: Proof | None) -> Road:
    """Nothing answers at all: what the router's silence is worth."""
    gateway = look.gateway
    if proof is None:
        return Road(RoadState.UNDECIDED, "no router is known that answers when all is well")
    if proof.address in look.target_addresses:
        return Road(RoadState.UNDECIDED, f"the router {proof.address} is itself one of the targets")
    if gateway is not None and gateway.address != proof.address:
        return Road(RoadState.UNDECIDED, f"the router {gateway.address} was never seen to answer")
    what = (
        f"the route by the router {proof.address} is gone"
        if gateway is None
        else f"neither the router {gateway.address} nor any target answers"
    )
    return Road(
        RoadState.LOST, f"our own network is down: {what}", "Check this machine's cable, Wi-Fi, VPN and router."
    )


def _is_denied(look: Look) -> bool:
    """macOS 15 and newer refuse neighbours to a program without the permission: at once, with "no route to host".

    A dead neighbour reads otherwise there: "host is down", or silence (TN3179; arpresolve in BSD kernels).
    """
    neighbours = [knock for knock in look.targets if knock.on_link]
    return (
        look.is_darwin
        and bool(neighbours)
        and all(knock.answer is Answer.NO_HOST and knock.took_s <= INSTANT_S for knock in neighbours)
    )


# Wall against monotonic clock: did we sleep, was the clock set, did we stand still (design §5.4)?

JUMP_S = 10.0
"""The clocks may part by this much between two looks: time servers correct a second or two after a start."""
STALL_S = 10.0
"""We may come this much too late before it counts as standing still."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Both clocks at one moment: Unix seconds, and monotonic seconds."""

    wall: float
    monotonic: float


class GapKind(StrEnum):
    """What kind of time is missing."""

    ASLEEP = "asleep"
    STALLED = "stalled"
    SET_BACK = "set_back"


@dataclass(frozen=True, slots=True)
class Gap:
    """A time that we did not see, in Unix seconds. After `SET_BACK` nothing is missing: it begins and ends now."""

    kind: GapKind
    began_at: float
    ended_at: float
    lasted_s: float

    def covers(self, began_at: float, now: float) -> bool:
        """Whether a run that began at `began_at` was under way in this gap. `now` is after the gap.

        A beginning that lies ahead of us was read from the clock before it was set back.
        """
        return began_at < self.ended_at or began_at > now + 1.0

    @property
    def words(self) -> str:
        """What happened, for a person."""
        lasted = duration(self.lasted_s)
        if self.kind is GapKind.ASLEEP:
            return f"this machine slept for {lasted}, or its clock was set ahead by as much"
        if self.kind is GapKind.STALLED:
            return f"inference-watchdog stood still for {lasted}: paused, or its machine overloaded"
        return f"this machine's clock was set back by {lasted}"


def gap_between(before: Reading, after: Reading, expected_s: float) -> Gap | None:
    """The gap between two looks at the clocks that were meant to be `expected_s` apart, or None."""
    elapsed = after.monotonic - before.monotonic
    drift = (after.wall - before.wall) - elapsed
    if drift >= JUMP_S:
        return Gap(GapKind.ASLEEP, before.wall, after.wall, drift)
    if drift <= -JUMP_S:
        return Gap(GapKind.SET_BACK, after.wall, after.wall, -drift)
    if elapsed - expected_s >= STALL_S:
        return Gap(GapKind.STALLED, before.wall, after.wall, elapsed - expected_s)
    return None


def concerns_road(observation: Observation) -> bool:
    """Whether a lost road of our own could explain `observation`."""
    row = row_of(observation.key, observation.reason)
    return _is_excusable(observation) and row is not None and row.own_network


def excused_by_road(observation: Observation, road: Road, now: float) -> Observation:
    """`observation` if our road stands or nobody knows; else what we can say without it: we are blind."""
    if not road.state.excuses or not concerns_road(observation):
        return observation
    return _unknown(observation, OwnReason.BLIND, road.why, road.advice, now)


def excused_by_gap(observation: Observation, gap: Gap, now: float, *, settling: bool) -> Observation:
    """`observation`, unless `gap` may be the cause: it cut the run in two, or (`settling`) the network is not up."""
    if not _is_excusable(observation):
        return observation
    if gap.covers(observation.at, now) or (settling and concerns_road(observation)):
        return _unknown(observation, OwnReason.CLOCK_JUMP, gap.words, "", now)
    return observation


def _is_excusable(observation: Observation) -> bool:
    """Only a target's condition that is not well: what happened has happened, and our own troubles are ours."""
    return (
        observation.nature is Nature.CONDITION
        and observation.verdict is not Verdict.PASS
        and not is_own(observation.key)
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
