"""The effective plan: which checks run, how often, and who hears of them from which severity. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from watchdog.config import Config, KernelLogSettings, ProbeSettings, ReceiverSettings, VitalsSettings
from watchdog.model import Severity


@dataclass(frozen=True, slots=True)
class Listener:
    """One receiver of a check's incidents: it hears those of `min_severity` and above."""

    receiver: str
    min_severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCheck:
    """One check as it will run: its key, its times in seconds, its thresholds, and who listens."""

    key: str
    interval_s: float
    timeout_s: float
    failures: int
    successes: int
    listeners: tuple[Listener, ...]

    def hear(self, severity: Severity) -> tuple[str, ...]:
        """The receivers that hear an incident of this severity."""
        return tuple(one.receiver for one in self.listeners if severity.rank >= one.min_severity.rank)


def listeners(names: Iterable[str], receivers: Iterable[Listener]) -> tuple[Listener, ...]:
    """Who listens when a target names these receivers; no names mean every receiver."""
    wanted = set(names)
    return tuple(one for one in receivers if not wanted or one.receiver in wanted)


def plan(config: Config) -> tuple[PlannedCheck, ...]:
    """Every check of `config`: `generation/<server>`, then `kernel_log/<host>` and `vitals/<host>`, in file order."""
    everyone = tuple(_listener(receiver) for receiver in config.receivers)
    generation = [
        _planned(f"generation/{server.name}", server.probe, listeners(server.receivers, everyone))
        for server in config.servers
    ]
    kernel_log = [
        _planned(f"kernel_log/{host.name}", host.kernel_log, listeners(host.receivers, everyone))
        for host in config.hosts
    ]
    vitals = [
        _planned(f"vitals/{host.name}", host.vitals, listeners(host.receivers, everyone)) for host in config.hosts
    ]
    return (*generation, *kernel_log, *vitals)


def _listener(receiver: ReceiverSettings) -> Listener:
    return Listener(receiver.name, receiver.min_severity)


def _planned(
    key: str, settings: ProbeSettings | KernelLogSettings | VitalsSettings, heard_by: tuple[Listener, ...]
) -> PlannedCheck:
    return PlannedCheck(
        key=key,
        interval_s=settings.interval_s,
        timeout_s=settings.timeout_s,
        failures=settings.failures,
        successes=settings.successes,
        listeners=heard_by,
    )
