"""Our own network: what is known of the router, and since when we are blind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from watchdog.clock import Clock
from watchdog.config import Config, HostSettings, split_jump
from watchdog.json_values import from_json, to_json
from watchdog.kinds import GENERATION, OF_HOSTS
from watchdog.model import Json, Observation, Verdict
from watchdog.selfwatch.attribution import (
    Answer,
    NetworkState,
    NetworkVerdict,
    RouterProof,
    attribute_to_network,
    cut_off,
    judge_network,
    may_be_our_network,
    no_way,
)
from watchdog.selfwatch.local_network import Endpoint, LocalNetwork

FRESH_S = 5.0
"""Targets that fail together share one look at the network."""
PROOF_LASTS_S = 7 * 86400.0
"""The silence of a router that was not seen to answer for so long proves nothing."""
WRITE_EVERY_S = 86400.0
MOST_WITNESSES = 16


class OwnNetwork:
    """Decides about failures that our own network could explain."""

    def __init__(self, clock: Clock, local_network: LocalNetwork, memory: Json | None) -> None:
        """`memory` is what the property of that name returned before a restart."""
        self._clock = clock
        self._network = local_network
        self._endpoints: Mapping[str, Endpoint] = {}
        self._proof = self._written = _proof_of(memory)
        self._reached: dict[Endpoint, float] = {}
        self._verdict: tuple[float, NetworkVerdict] | None = None
        self._looking = asyncio.Lock()
        self.blind_since: float | None = None
        """Unix seconds since when nothing can be reached from here, None while it can."""
        self.why = self.advice = ""

    @property
    def memory(self) -> Json | None:
        """What must survive a restart: the router that is known to answer."""
        return None if self._proof is None else to_json(self._proof)

    def watch(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Follow these targets from now on (by check key)."""
        self._endpoints = endpoints
        self._reached = {endpoint: at for endpoint, at in self._reached.items() if endpoint in set(endpoints.values())}
        self._verdict = None

    async def attribute(self, observation: Observation) -> Observation:
        """`observation`, or unknown with the reason `blind` when our own network is proven to be down."""
        endpoint = self._endpoints.get(observation.key)
        if endpoint is not None and observation.verdict is Verdict.PASS:
            self._reached[endpoint] = self._clock.monotonic()
        if endpoint is None or not may_be_our_network(observation) or self._network.is_here(endpoint.host):
            return observation
        verdict = self._by_our_kernel(endpoint) or await self._look()
        seen = attribute_to_network(observation, verdict, self._clock.wall())
        if seen is not observation and verdict.state is not NetworkState.NO_WAY and self.blind_since is None:
            self.blind_since, self.why, self.advice = observation.at, verdict.why, verdict.advice
        return seen

    async def is_back(self) -> bool:
        """Look again; whether our network is back."""
        self._verdict = None
        return not (await self._look()).state.explains_failures

    async def survey(self) -> bool:
        """While all is well: resolve names and probe the router; returns whether `memory` must be stored again.

        A router that is silent while a target answers is noted as such: nothing is concluded from its silence.
        """
        await self._network.resolve({endpoint.host for endpoint in self._endpoints.values()})
        address = await self._network.gateway()
        if address is None:
            return False
        if (await self._network.probe_router(address)).answer is Answer.ANSWERED:
            self._proof = RouterProof(address=address, at=self._clock.wall())
        else:
            look = await self._network.look(self._witnesses())
            if any(probe.answer is Answer.ANSWERED for probe in look.targets):
                self._proof = RouterProof(address=address, at=self._clock.wall(), answers=False)
        if _worth_writing(self._written, self._proof):
            self._written = self._proof
            return True
        return False

    async def _look(self) -> NetworkVerdict:
        async with self._looking:
            lost = self._by_our_kernel()
            if lost is not None:
                return lost
            now, proof = self._clock.monotonic(), self._known()
            useless = bool(self._reached) if proof is None else not proof.answers
            if useless and not self._network.is_darwin:
                # No look could explain anything then: do not wait for one.
                return NetworkVerdict(NetworkState.UNDECIDED, "no router is known that answers")
            if self._verdict is None or now - self._verdict[0] > FRESH_S:
                look = await self._network.look(self._witnesses())
                hosts = {endpoint.host for endpoint in self._endpoints.values()}
                known = frozenset().union(*(self._network.addresses(host) for host in hosts))
                look = replace(look, target_addresses=look.target_addresses | known)
                self._verdict = (self._clock.monotonic(), judge_network(look, proof, reached=bool(self._reached)))
            return self._verdict[1]

    def _by_our_kernel(self, endpoint: Endpoint | None = None) -> NetworkVerdict | None:
        """What our own system's routes and links explain: that `endpoint` is not reached, or that none is."""
        first = None if endpoint is None else self._network.no_way_to(endpoint.host)
        if endpoint is not None and first is None:
            return None
        others = {end.host for end in self._endpoints.values() if not self._network.is_here(end.host)}
        for host in others:
            found = self._network.no_way_to(host)
            if found is None:
                return None if endpoint is None or first is None else no_way(endpoint.host, first.link)
            first = first or found
        return None if first is None else cut_off(first.link)

    def _witnesses(self) -> list[Endpoint]:
        """Where to probe: the targets reached last, which are the likeliest to answer. Never a thousand at once."""
        endpoints = sorted(set(self._endpoints.values()), key=lambda endpoint: -self._reached.get(endpoint, 0.0))
        return endpoints[:MOST_WITNESSES]

    def _known(self) -> RouterProof | None:
        proof = self._proof
        return proof if proof is not None and abs(self._clock.wall() - proof.at) < PROOF_LASTS_S else None


def _worth_writing(old: RouterProof | None, new: RouterProof | None) -> bool:
    """Whether another router is known now, or the same one for a day longer."""
    if old is None or new is None:
        return old is not new
    return (old.address, old.answers) != (new.address, new.answers) or abs(new.at - old.at) > WRITE_EVERY_S


def _proof_of(memory: Json | None) -> RouterProof | None:
    try:
        return None if memory is None else from_json(RouterProof, memory)
    except ValueError:
        return None


def target_endpoints(config: Config) -> Mapping[str, Endpoint]:
    """Check key → where its target is probed; for a target behind a jump host, the jump host."""
    endpoints = {}
    for server in config.servers:
        parts = urlsplit(server.base_url)
        if parts.hostname:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            endpoints[GENERATION.key(server.name)] = Endpoint(parts.hostname, port)
    by_name = {host.name: host for host in config.hosts}
    for host in config.hosts:
        for kind in OF_HOSTS:
            endpoints[kind.key(host.name)] = _endpoint_of(host, by_name)
    return endpoints


def _endpoint_of(host: HostSettings, by_name: Mapping[str, HostSettings]) -> Endpoint:
    if host.jump is None:
        return Endpoint(host.address, host.port)
    if host.jump in by_name:
        return Endpoint(by_name[host.jump].address, by_name[host.jump].port)
    _, address, port = split_jump(host.jump)
    return Endpoint(address, port)
