"""What a failed observation becomes when the fault was ours: unknown, with the proof in its evidence. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from watchdog.kinds import is_own, row_of
from watchdog.model import Evidence, Nature, Observation, Verdict
from watchdog.reasons import OwnReason
from watchdog.text import duration

# Is our own network down? Decided from one look at it: does the router answer, does any target (docs/decisions/0005).

INSTANT_S = 0.1
"""A refusal by our own system comes within this; one from the network may too, which alone proves nothing."""


class Answer(StrEnum):
    """What came of opening a TCP connection."""

    ANSWERED = "answered"
    NO_HOST = "no_host"
    HOST_DOWN = "host_down"
    NO_NETWORK = "no_network"
    NO_NAME = "no_name"
    SILENT = "silent"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """One probe: its address, what came back, and after how long. `on_link`: no router lies in between, as far as
    the system says; None if it was not asked. `is_absent`: it is not even there on the link, as the system's table
    of neighbours says.
    """

    address: str
    answer: Answer
    took_s: float = 0.0
    on_link: bool | None = None
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class NetworkView:
    """Everything seen at one moment. `targets` are those that are other machines; `gateway` is None if there is no
    default route with a router. `target_addresses` are all of theirs: a router among them is no independent witness.
    """

    gateway: TcpProbe | None
    targets: tuple[TcpProbe, ...]
    target_addresses: frozenset[str] = frozenset()
    is_darwin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterProof:
    """The router that answered when all was well, and when (Unix seconds).

    Without `answers` it is the other way round: it was silent while a target answered, so its silence proves nothing.
    """

    address: str = field(metadata={"json": "router"})
    at: float = 0.0
    answers: bool = True


class NetworkState(StrEnum):
    OPEN = "open"
    LOST = "lost"
    NO_WAY = "no_way"
    DENIED = "denied"
    UNDECIDED = "undecided"

    @property
    def explains_failures(self) -> bool:
        """Whether targets that cannot be reached are not to blame."""
        return self is not NetworkState.OPEN and self is not NetworkState.UNDECIDED


@dataclass(frozen=True, slots=True)
class NetworkVerdict:
    """The state, why in plain words, and what to do about it."""

    state: NetworkState
    why: str
    advice: str = ""


_CHECK_HERE = "Check this machine's cable, Wi-Fi, VPN and router."


def cut_off(link: str) -> NetworkVerdict:
    """Our own system can send nothing to any target: over `link`, which is down, or (empty) because it has no route."""
    what = f"the link of {link} is down" if link else "this machine has no route to any target"
    return NetworkVerdict(NetworkState.LOST, f"our own network is down: {what}", _CHECK_HERE)


def no_way(host: str, link: str) -> NetworkVerdict:
    """The same for `host` alone, while there is a way to other targets."""
    why = f"the link of {link}, which leads to {host}, is down" if link else f"this machine has no route to {host}"
    return NetworkVerdict(NetworkState.NO_WAY, why, "Check this machine's routes and VPN.")


def judge_network(look: NetworkView, proof: RouterProof | None, *, reached: bool = True) -> NetworkVerdict:
    """Why targets cannot be reached: our network or they. `proof` is what is known of the router, if anything.

    `reached`: some target was reached since the start.
    """
    answered = next((probe for probe in look.targets if probe.answer is Answer.ANSWERED), None)
    if answered is not None:
        return NetworkVerdict(NetworkState.OPEN, f"{answered.address} answers")
    if _is_denied(look):
        return NetworkVerdict(
            NetworkState.DENIED,
            "macOS does not let this program talk to the local network",
            "Allow it under Privacy & Security, Local Network, or run it as a LaunchDaemon "
            "(`inference-watchdog service install --launchd`), which is exempt.",
        )
    gateway = look.gateway
    if gateway is not None and gateway.answer is Answer.ANSWERED:
        return NetworkVerdict(NetworkState.OPEN, f"the router {gateway.address} answers")
    never = proof is None and not reached
    if never and gateway is not None and gateway.is_absent and gateway.address not in look.target_addresses:
        why = f"our own network is down: the router {gateway.address} is not there, and nothing was ever reached"
        return NetworkVerdict(NetworkState.LOST, why, _CHECK_HERE)
    return _by_the_router(look, proof)


def _by_the_router(look: NetworkView, proof: RouterProof | None) -> NetworkVerdict:
    """Nothing answers at all: what the router's silence proves."""
    gateway = look.gateway
    if proof is not None and not proof.answers:
        return NetworkVerdict(NetworkState.UNDECIDED, f"the router {proof.address} is silent when all is well, too")
    if proof is None:
        return NetworkVerdict(NetworkState.UNDECIDED, "no router is known to answer when all is well")
    if proof.address in look.target_addresses:
        return NetworkVerdict(NetworkState.UNDECIDED, f"the router {proof.address} is itself one of the targets")
    if gateway is not None and gateway.address != proof.address:
        return NetworkVerdict(NetworkState.UNDECIDED, f"the router {gateway.address} has never been seen to answer")
    what = (
        f"the route through the router {proof.address} is gone"
        if gateway is None
        else f"neither the router {gateway.address} nor any target answers"
    )
    return NetworkVerdict(NetworkState.LOST, f"our own network is down: {what}", _CHECK_HERE)


def _is_denied(look: NetworkView) -> bool:
    """macOS 15 and newer refuse neighbours to a program without the permission: at once, with "no route to host".

    A dead neighbour reads otherwise there: "host is down", or silence (TN3179; arpresolve in BSD kernels).
    """
    neighbours = [probe for probe in look.targets if probe.on_link]
    return (
        look.is_darwin
        and bool(neighbours)
        and all(probe.answer is Answer.NO_HOST and probe.took_s <= INSTANT_S for probe in neighbours)
    )


# Wall against monotonic clock: did we sleep, was the clock set, did we stall (design §5.4)?

JUMP_S = 10.0
"""The clocks may drift apart by this much between two looks: time servers correct a second or two after a start."""
STALL_S = 10.0
"""We may be this late before it counts as a stall."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The clocks at one moment: Unix seconds, monotonic seconds, and those that go on while the machine sleeps."""

    wall: float
    monotonic: float
    elapsed: float


class GapKind(StrEnum):
    ASLEEP = "asleep"
    STALLED = "stalled"
    SET_FORWARD = "set_forward"
    SET_BACK = "set_back"


@dataclass(frozen=True, slots=True)
class Gap:
    """A time that we did not see, in Unix seconds. Where the clock was set nothing is missing: it begins and ends now.

    `step_s` is how far the wall clock was set, forward or (negative) back, and `set_at` what it said before.
    """

    kind: GapKind
    began_at: float
    ended_at: float
    lasted_s: float
    step_s: float = 0.0
    set_at: float = 0.0

    def covers(self, began_at: float, now: float) -> bool:
        """Whether a run that began at `began_at` was under way in this gap. `now` is after the gap.

        A beginning that lies ahead of us was read from the clock before it was set back.
        """
        return began_at < self.ended_at or began_at > now + 1.0

    @property
    def words(self) -> str:
        lasted = duration(self.lasted_s)
        if self.kind is GapKind.ASLEEP:
            return f"this machine slept for {lasted}"
        if self.kind is GapKind.SET_FORWARD:
            return f"this machine's clock was set forward by {lasted}, or it is a virtual one that was paused as long"
        if self.kind is GapKind.STALLED:
            return f"inference-watchdog was stalled for {lasted}: paused, or its machine was overloaded"
        return f"this machine's clock was set back by {lasted}"


def gap_between(before: ClockReading, after: ClockReading, expected_s: float) -> Gap | None:
    """The gap between two looks at the clocks that were meant to be `expected_s` apart, or None."""
    awake_s = after.monotonic - before.monotonic
    asleep_s = (after.elapsed - before.elapsed) - awake_s
    set_by_s = (after.wall - before.wall) - awake_s - asleep_s
    step_s, now = (set_by_s if abs(set_by_s) >= JUMP_S else 0.0), after.wall
    if asleep_s >= JUMP_S:
        return Gap(GapKind.ASLEEP, now - asleep_s - awake_s, now, asleep_s, step_s, before.wall)
    if step_s > 0:
        return Gap(GapKind.SET_FORWARD, now, now, step_s, step_s, before.wall)
    if step_s < 0:
        return Gap(GapKind.SET_BACK, now, now, -step_s, step_s, before.wall)
    if awake_s - expected_s >= STALL_S:
        return Gap(GapKind.STALLED, before.wall, now, awake_s - expected_s)
    return None


def may_be_our_network(observation: Observation) -> bool:
    """Whether our own network being down could explain `observation`."""
    row = row_of(observation.key, observation.reason)
    return _may_be_ours(observation) and row is not None and row.own_network


def attribute_to_network(observation: Observation, verdict: NetworkVerdict, now: float) -> Observation:
    """`observation` if our network works or nobody knows; else an unknown one: we are blind."""
    if not verdict.state.explains_failures or not may_be_our_network(observation):
        return observation
    return _unknown(observation, OwnReason.BLIND, verdict.why, verdict.advice, now)


def attribute_to_gap(observation: Observation, gap: Gap, now: float, *, settling: bool) -> Observation:
    """`observation`, unless `gap` may be the cause: it cut the run in two, or (`settling`) the network is not up."""
    if not _may_be_ours(observation):
        return observation
    if gap.covers(observation.at, now) or (settling and may_be_our_network(observation)):
        return _unknown(observation, OwnReason.CLOCK_JUMP, gap.words, "", now)
    return observation


def _may_be_ours(observation: Observation) -> bool:
    """Only a target's condition that is not well: an occurrence has happened, and our own troubles are ours."""
    return (
        observation.nature is Nature.CONDITION
        and observation.verdict is not Verdict.PASS
        and not is_own(observation.key)
    )


def _unknown(observation: Observation, reason: str, why: str, advice: str, now: float) -> Observation:
    was = Evidence(observation.at, observation.reason, observation.statement)
    return replace(
        observation,
        verdict=Verdict.UNKNOWN,
        reason=reason,
        summary=why,
        subject="",
        evidence=(was, Evidence(now, "watchdog", why)),
        advice=advice,
        look_only=False,
    )
