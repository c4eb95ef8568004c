"""Is the trouble ours? Judges one look around: who answers a knock, and does the router (docs/decisions/0005).

The rule of thumb: everything that is not proven to be our own trouble is the target's. The proof has three parts: no
target answers at this moment, the router that our packets leave by does not answer either, and that router is known to
answer when all is well.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
