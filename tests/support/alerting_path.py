"""The whole alerting path on a clock that moves when told: real store, real ingest, real outbox."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, Self

from tests.support.clock import ManualClock, settle
from tests.support.receivers import RecordingReceiver
from watchdog.config import (
    AlertingSettings,
    Config,
    HostSettings,
    KernelLogSettings,
    ProbeSettings,
    ReceiverSettings,
    Secret,
    ServerSettings,
    VitalsSettings,
)
from watchdog.ingest import Ingest
from watchdog.model import (
    CheckResult,
    Evidence,
    Json,
    Nature,
    Observation,
    Severity,
    TransitionKind,
    Verdict,
    split_statement,
)
from watchdog.outbox import Outbox
from watchdog.policy import AlertPlan
from watchdog.store import Store

KEY = "generation/deepseek"


def observed(verdict: Verdict = Verdict.FAIL, key: str = KEY, **changes: Any) -> Observation:
    """An observation as a check makes it."""
    kind, _, target = key.partition("/")
    values: dict[str, Any] = {
        "key": key,
        "verdict": verdict,
        "reason": {"pass": "ok", "fail": "no_token", "unknown": "blind"}[verdict.value],
        "severity": Severity.PAGE,
        "summary": f"{target.partition('/')[0]}: no text within 60 s" if verdict is Verdict.FAIL else "text in 0.8 s",
        "at": 1_795_000_000.0,
        "labels": {"server" if kind in ("generation", "progress") else "host": target.partition("/")[0]},
    }
    values |= changes
    if "subject" not in changes:
        values["subject"], values["summary"] = split_statement(values["summary"], target.partition("/")[0])
    return Observation(**values)


def line_seen(
    host: str = "worker", kind: str = "pcie.aer.fatal", device: str = "0000:01:00.0", **changes: Any
) -> Observation:
    """A kernel finding as the scan makes it."""
    values: dict[str, Any] = {
        "nature": Nature.OCCURRENCE,
        "reason": kind,
        "summary": f"{host}: {kind} on {device}",
        "labels": {"host": host, "kind": kind, "device": device},
        "evidence": (Evidence(1_795_000_000.0, "kernel", f"pcieport {device}: AER: Uncorrectable (Fatal) error"),),
    }
    return observed(Verdict.FAIL, f"kernel_log/{host}/{kind}/{device}", **{**values, **changes})


def configuration(*receivers: ReceiverSettings, **alerting: float) -> Config:
    """One server on two hosts, and `receivers` (or one called phone). Looks may follow each other at once."""
    return Config(
        servers=(
            ServerSettings(
                name="deepseek",
                base_url="http://192.0.2.10:8888/v1",
                hosts=("head", "worker"),
                probe=ProbeSettings(interval_s=0.0),
            ),
        ),
        hosts=tuple(
            HostSettings(
                name=name,
                address="192.0.2.10",
                user="monitor",
                known_hosts="/dev/null",
                kernel_log=KernelLogSettings(interval_s=0.0),
                vitals=VitalsSettings(interval_s=0.0),
            )
            for name in ("head", "worker")
        ),
        receivers=receivers or (receiver("phone"),),
        alerting=AlertingSettings(**alerting),  # type: ignore[arg-type]  # only numbers of seconds are passed
    )


def paced(config: Config) -> Config:
    """`config` with the shipped intervals."""
    return replace(
        config,
        servers=tuple(replace(server, probe=ProbeSettings()) for server in config.servers),
        hosts=tuple(replace(one, kernel_log=KernelLogSettings(), vitals=VitalsSettings()) for one in config.hosts),
    )


def receiver(name: str, **changes: Any) -> ReceiverSettings:
    """Settings of a receiver that is not really called under its URL."""
    return ReceiverSettings(**{"name": name, "url": Secret("json://192.0.2.1/hook"), **changes})


class Station:
    """Drive it with `look`, `pass_time` and `restart`; what arrived is in `sinks`, what changed in `changes`."""

    def __init__(self, state_dir: Path, config: Config | None = None) -> None:
        """Nothing runs before `start`."""
        self.state_dir = state_dir
        self.config = config or configuration()
        self.clock = ManualClock()
        self.sinks = {row.name: RecordingReceiver(row.name) for row in self.config.receivers}
        self.changes: list[tuple[str, TransitionKind]] = []
        self.store: Store
        self.ingest: Ingest
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the state and begin to deliver."""
        self.store = Store.open(self.state_dir, self.clock.wall(), linger_s=0.0)
        self.ingest = Ingest(
            self.store,
            AlertPlan.from_config(self.config),
            self.clock,
            zone=UTC,
            on_change=lambda incident, change: self.changes.append((incident.key, change)),
        )
        await self.ingest.start()
        sinks = {row.name: self.sinks[row.name] for row in self.config.receivers}
        self.outbox = Outbox(self.store, self.ingest, sinks, self.clock, zone=UTC, chance=lambda: 0.5)
        self._task = asyncio.create_task(self.outbox.run())
        await self.quiet()

    async def stop(self) -> None:
        """Stop in good order."""
        if self._task is not None:
            self._task.cancel()
            try:
                with suppress(asyncio.CancelledError):
                    await self._task
            finally:
                self._task = None
                await self.store.close()

    async def restart(self) -> None:
        """Stop, and start on the same state."""
        await self.stop()
        await self.start()

    async def look(self, *observations: Observation, memory: Json | None = None) -> None:
        """One run of a check, seen now."""
        now = self.clock.wall()
        dated = tuple(replace_at(observation, now) for observation in observations)
        await self.ingest.take(dated[0].key if dated else "none", CheckResult(dated, memory))
        await self.quiet()

    async def fail(self, key: str = KEY, **changes: Any) -> None:
        """One failing observation."""
        await self.look(observed(Verdict.FAIL, key, **changes))

    async def ok(self, key: str = KEY, **changes: Any) -> None:
        """One passing observation."""
        await self.look(observed(Verdict.PASS, key, **changes))

    async def pass_time(self, seconds: float, *, step_s: float = 60.0) -> None:
        """Let time pass, with a tick every `step_s`."""
        left = seconds
        while left > 0:
            await self.clock.advance(min(step_s, left))
            left -= step_s
            await self.ingest.tick()
            await self.quiet()

    async def quiet(self) -> None:
        """Until the outbox has nothing more to do at this moment."""
        before: object = None
        same = 0
        while same < 4:
            await settle(5)
            rows = await self.store.read_in_turn(lambda reader: reader.deliveries())
            now = [(row.row, row.state, row.attempt) for row in rows]
            if self._task is not None and self._task.done():
                self._task.result()
            same = same + 1 if now == before else 0
            before = now


def replace_at(observation: Observation, at: float) -> Observation:
    """`observation`, made at `at`."""
    return replace(observation, at=at)
