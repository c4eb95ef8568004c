"""Our own road to the targets: what is known of the router, and since when we are blind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from watchdog.clock import Clock
from watchdog.model import Json, Observation, Verdict
from watchdog.selfwatch.attribution import Answer, Proof, Road, RoadState, concerns_road, excused_by_road, judge_road
from watchdog.selfwatch.local_network import Door, Neighbourhood

FRESH_S = 5.0
"""Targets that fail together share one look around."""
PROOF_LASTS_S = 7 * 86400.0
"""A router that was not seen to answer for so long proves nothing by its silence."""
WRITE_EVERY_S = 86400.0
MOST_WITNESSES = 16


class OwnRoad:
    """Judges failures that our own network could explain."""

    def __init__(self, clock: Clock, neighbourhood: Neighbourhood, memory: Json | None) -> None:
        """`memory` is what the property of that name was before a restart."""
        self._clock = clock
        self._neighbourhood = neighbourhood
        self._doors: Mapping[str, Door] = {}
        self._proof = self._written = _proof_of(memory)
        self._reached: dict[Door, float] = {}
        self._road: tuple[float, Road] | None = None
        self._looking = asyncio.Lock()
        self.blind_since: float | None = None
        """Unix seconds since when everything we look at is out of our reach, None while it is not."""
        self.why = ""

    @property
    def memory(self) -> Json | None:
        """What must survive a restart: the router that is known to answer."""
        return None if self._proof is None else {"router": self._proof.address, "at": self._proof.at}

    def watch(self, doors: Mapping[str, Door]) -> None:
        """Judge about these targets from now on (by check key)."""
        self._doors = doors
        self._reached = {door: at for door, at in self._reached.items() if door in set(doors.values())}
        self._road = None

    async def judged(self, observation: Observation) -> Observation:
        """`observation`, or unknown with the reason `blind` when our own road is proven to be down."""
        door = self._doors.get(observation.key)
        if door is not None and observation.verdict is Verdict.PASS:
            self._reached[door] = self._clock.monotonic()
        if door is None or not concerns_road(observation) or self._neighbourhood.is_here(door.host):
            return observation
        road = await self._look()
        seen = excused_by_road(observation, road, self._clock.wall())
        if seen is not observation and self.blind_since is None:
            self.blind_since, self.why = observation.at, road.why
        return seen

    async def is_back(self) -> bool:
        """Look again; whether the road does stand."""
        self._road = None
        return not (await self._look()).state.excuses

    async def survey(self) -> bool:
        """While all is well: learn names, and whether the router answers; returns whether to store `memory` anew.

        A router that is silent while a target answers is no witness: nothing is concluded from its silence.
        """
        before = self._proof
        await self._neighbourhood.resolve({door.host for door in self._doors.values()})
        address = await self._neighbourhood.gateway()
        if address is None:
            return False
        if (await self._neighbourhood.knock_at_router(address)).answer is Answer.HERE:
            self._proof = Proof(address, self._clock.wall())
        elif before is not None and before.address == address:
            look = await self._neighbourhood.look(self._witnesses())
            if any(knock.answer is Answer.HERE for knock in look.targets):
                self._proof = None
        if _worth_writing(self._written, self._proof):
            self._written = self._proof
            return True
        return False

    async def _look(self) -> Road:
        async with self._looking:
            now = self._clock.monotonic()
            if self._known() is None and not self._neighbourhood.is_darwin:
                return Road(RoadState.UNDECIDED, "no router is known")  # no look could excuse anybody: do not wait
            if self._road is None or now - self._road[0] > FRESH_S:
                look = await self._neighbourhood.look(self._witnesses())
                hosts = {door.host for door in self._doors.values()}
                known = frozenset().union(*(self._neighbourhood.addresses(host) for host in hosts))
                look = replace(look, target_addresses=look.target_addresses | known)
                self._road = (self._clock.monotonic(), judge_road(look, self._known()))
            return self._road[1]

    def _witnesses(self) -> list[Door]:
        """Where to knock: the targets that were reached last, for they answer most likely. Never a thousand at once."""
        doors = sorted(set(self._doors.values()), key=lambda door: -self._reached.get(door, 0.0))
        return doors[:MOST_WITNESSES]

    def _known(self) -> Proof | None:
        proof = self._proof
        return proof if proof is not None and abs(self._clock.wall() - proof.at) < PROOF_LASTS_S else None


def _worth_writing(old: Proof | None, new: Proof | None) -> bool:
    """Whether another router is known now, or the same one for a day longer."""
    if old is None or new is None:
        return old is not new
    return old.address != new.address or abs(new.at - old.at) > WRITE_EVERY_S


def _proof_of(memory: Json | None) -> Proof | None:
    if not isinstance(memory, dict) or not isinstance(memory.get("router"), str):
        return None
    return Proof(memory["router"], float(memory.get("at", 0.0)))
