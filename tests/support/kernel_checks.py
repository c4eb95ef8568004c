"""Kernel log checks on pretended machines, and lines whose findings can be told apart."""

from __future__ import annotations

import json
from functools import cache

from watchdog.checks.kernel_log import KernelLogCheck
from watchdog.clock import SystemClock
from watchdog.config import HostSettings
from watchdog.kernlog.matcher import Matcher
from watchdog.model import CheckResult, Json, Nature, Observation
from watchdog.rulebook import load_rules


@cache
def matcher() -> Matcher:
    """The packaged rules, compiled once."""
    return Matcher(load_rules())


def check(host: HostSettings, *, jump: HostSettings | None = None) -> KernelLogCheck:
    """A check as the daemon makes it."""
    return KernelLogCheck(host, matcher(), SystemClock(), jump=jump)


def fatal(device: int) -> str:
    """A fatal PCIe error of device number `device`: a finding of its own for each device."""
    bdf = f"0000:{device:02x}:00.0"
    return f"pcieport {bdf}: AER: Uncorrectable (Fatal) error message received from {bdf}"


async def scan(host_check: KernelLogCheck, memory: Json = None) -> CheckResult:
    """One scan now."""
    result = await host_check.run(memory, SystemClock().wall())
    return CheckResult(result.observations, stored(result))


def stored(result: CheckResult) -> Json:
    """The memory as it comes back from the database."""
    return json.loads(json.dumps(result.memory))


def condition(result: CheckResult) -> Observation:
    """The first observation: could it read everything?"""
    first = result.observations[0]
    assert first.nature is Nature.CONDITION
    return first


def found(*results: CheckResult) -> dict[str, int]:
    """Occurrences by key without the host's part, with their counts."""
    counts: dict[str, int] = {}
    for result in results:
        for observation in result.observations:
            if observation.nature is Nature.OCCURRENCE:
                name = observation.key.split("/", 2)[2]
                counts[name] = counts.get(name, 0) + observation.count
    return counts


def fatals(*devices: int) -> dict[str, int]:
    """What `found` gives for one fatal error of each device."""
    return {f"pcie.aer.fatal/0000:{device:02x}:00.0": 1 for device in devices}
