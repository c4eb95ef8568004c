"""A small network to watch: a server, two hosts and a router that can go down one by one, or our own cable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.alerting_path import Station, configuration, observed, paced
from tests.support.clock import ManualClock
from watchdog.config import Config
from watchdog.model import CheckResult, Json, Observation, Severity, Verdict
from watchdog.scheduler import Scheduler
from watchdog.selfwatch import SelfWatch
from watchdog.selfwatch.attribution import Answer, NetworkView, TcpProbe
from watchdog.selfwatch.local_network import Endpoint, LocalNetwork, NoWay

ROUTER = "192.0.2.1"


class PretendedNetwork(LocalNetwork):
    """The network as the test wants it: who is `down`, and whether our own cable is `unplugged`."""

    def __init__(self, router: str | None = ROUTER) -> None:
        """`router` is the address of the default route's router, None: there is no such route."""
        super().__init__(platform="linux", routes=Path("/nonexistent"))
        self.router = router
        self.router_is_silent = False
        self.unplugged = False
        self.down: set[str] = set()
        """Hosts (as in a endpoint) that do not answer at all."""
        self.no_way: dict[str, NoWay] = {}
        """Hosts to which our own system has no way."""
        self.most_knocked = 0

    def reaches(self, host: str) -> bool:
        """Whether packets come to `host` and back."""
        return host not in self.down | set(self.no_way) and (self.is_here(host) or not self.unplugged)

    def no_way_to(self, host: str) -> NoWay | None:
        return self.no_way.get(host)

    async def gateway(self) -> str | None:
        return self.router

    async def probe_router(self, address: str) -> TcpProbe:
        silent = self.unplugged or self.router_is_silent
        return TcpProbe(address, Answer.SILENT if silent else Answer.ANSWERED)

    async def look(self, endpoints: Iterable[Endpoint]) -> NetworkView:
        others = [endpoint for endpoint in endpoints if not self.is_here(endpoint.host)]
        self.most_knocked = max(self.most_knocked, len(others))
        probes = tuple(
            TcpProbe(
                f"{endpoint.host}:{endpoint.port}", Answer.ANSWERED if self.reaches(endpoint.host) else Answer.SILENT
            )
            for endpoint in others
        )
        router = None if self.router is None else await self.probe_router(self.router)
        return NetworkView(router, probes, frozenset(endpoint.host for endpoint in others))


@dataclass
class Target:
    """A check of one target: passes while the network reaches `host` and the target is well."""

    key: str
    interval_s: float
    host: str
    around: PretendedNetwork
    lan: Lan
    well: bool = True
    hangs: bool = False
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to let a run that hangs go on."""
    starts: list[float] = field(default_factory=list)

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        self.starts.append(now)
        if self.hangs:
            await self.released.wait()
        kind, _, name = self.key.partition("/")
        labels = {"server" if kind == "generation" else "host": name}
        reached = self.around.reaches(self.host)
        if not reached:
            await self.lan.station.clock.sleep(3.0)
        verdict = Verdict.PASS if reached and self.well else Verdict.FAIL
        reason = "ok" if reached and self.well else "no_token" if reached else "unreachable"
        if kind == "kernel_log" and not reached:
            reason = "timeout"
        seen = observed(verdict, self.key, reason=reason, labels=labels, at=now, summary=f"{name}: {reason}")
        return CheckResult((seen,))


class Lan:
    """A station with a scheduler and a self-watch around it, on one clock. Let it live with `pass_time`."""

    def __init__(
        self,
        tmp_path: Path,
        config: Config | None = None,
        *,
        router: str | None = ROUTER,
        wall: float = 1_795_000_000.0,
    ) -> None:
        """Nothing runs before `async with`. The clock says `wall` (Unix seconds)."""
        config = paced(config or configuration())
        servers = tuple(
            replace(server, base_url=f"http://192.0.2.{20 + number}:8000/v1")
            if "//192.0.2.10:" in server.base_url
            else server
            for number, server in enumerate(config.servers)
        )
        hosts = tuple(replace(host, address=f"192.0.2.{10 + number}") for number, host in enumerate(config.hosts))
        self.config = replace(config, servers=servers, hosts=hosts)
        self.station = Station(tmp_path, self.config)
        self.station.clock = ManualClock(wall)
        self.around = PretendedNetwork(router)
        self.results: list[Observation] = []

    async def __aenter__(self) -> Self:
        await self.station.start()
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self.station.stop()

    async def start(self) -> None:
        """Begin to check."""
        station = self.station

        async def take(key: str, result: CheckResult) -> None:
            judged = await self.selfwatch.attribute(result)
            self.results += judged.observations
            await station.ingest.take(key, judged)

        self.scheduler = Scheduler(station.clock, take, station.store.memory)
        self.selfwatch = SelfWatch(
            station.store,
            station.ingest,
            station.clock,
            self.around,
            progress=self.scheduler,
            round_now=self.scheduler.round_now,
            clock_check_s=5.0,
        )
        endpoints = {server.name: server.base_url.split("/")[2].split(":")[0] for server in self.config.servers}
        self.targets = {
            f"generation/{name}": Target(f"generation/{name}", 120.0, host, self.around, self)
            for name, host in endpoints.items()
        }
        for host in self.config.hosts:
            key = f"kernel_log/{host.name}"
            self.targets[key] = Target(key, 600.0, host.address, self.around, self)
        self.scheduler.replace(self.targets.values())
        self.selfwatch.watch(self.config, {key: target.interval_s for key, target in self.targets.items()})
        self._task = asyncio.create_task(self.selfwatch.run())

    async def stop(self) -> None:
        """Stop checking."""
        await self.scheduler.stop()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def pass_time(self, seconds: float, *, step_s: float = 20.0) -> None:
        """Let time pass, with a tick every `step_s`."""
        left = seconds
        while left > 0:
            await self.station.clock.advance(min(step_s, left))
            left -= step_s
            await self.station.quiet()
            await self.station.ingest.tick(aging=not self.selfwatch.settling)
            await self.station.quiet()
        if self._task.done():
            self._task.result()

    @property
    def kinds(self) -> list[str]:
        """What the phone was told, as the words titles begin with."""
        return self.station.sinks["phone"].kinds

    @property
    def pages(self) -> list[str]:
        """Titles of the messages that page."""
        accepted = self.station.sinks["phone"].accepted
        return [text.title for delivery, text in accepted if delivery.severity is Severity.PAGE]

    async def blind_windows(self) -> list[tuple[float, float, str]]:
        """Times without sight of everything: begin and end in Unix seconds, and the reason's first word."""
        snapshot = await self.station.store.read_in_turn(lambda reader: reader.snapshot(self.station.clock.wall()))
        return [
            (window.began_at, window.ended_at or 0.0, window.reason.partition(":")[0])
            for window in snapshot.blind
            if window.key == ""
        ]

    def reasons(self, key: str, since: float = 0.0) -> list[str]:
        """Reasons of the observations of `key` made since then."""
        return [seen.reason for seen in self.results if seen.key == key and seen.at >= since]
