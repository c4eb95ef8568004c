"""Kernel log checks on pretended machines, and lines whose findings can be told apart."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache

from watchdog.checks.kernel_log import KernelLogCheck
from watchdog.clock import SystemClock
from watchdog.config import HostSettings
from watchdog.errors import StoreError
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
    first = result.observations[0]
    print(f"scan: {first.reason}: {first.summary}")  # shown when a test fails, which may be two scans later
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


@dataclass(slots=True)
class Ledger:
    """What was committed, when, and the memory that came with it."""

    results: list[CheckResult] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    memory: Json = None
    refuse: int = 0

    async def commit(self, result: CheckResult) -> None:
        """What the daemon does with a result; raises StoreError as often as `refuse` says."""
        if self.refuse:
            self.refuse -= 1
            raise StoreError("the disk is full")
        await asyncio.sleep(0.01)  # a database takes a moment
        self.results.append(result)
        self.at.append(time.monotonic())
        self.memory = stored(result)

    @property
    def found(self) -> dict[str, int]:
        """`found` of everything committed."""
        return found(*self.results)


@asynccontextmanager
async def following(watch: KernelLogCheck, ledger: Ledger, memory: Json = None) -> AsyncIterator[asyncio.Task[None]]:
    """Follow a host until the end of the `async with`."""
    task = asyncio.create_task(watch.follow(ledger.commit, memory))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, StoreError):
            await task


async def until(reached: Callable[[], object], limit_s: float = 30.0) -> None:
    """Wait until `reached` gives something; TimeoutError after `limit_s` seconds."""
    async with asyncio.timeout(limit_s):
        while not reached():
            await asyncio.sleep(0.02)
