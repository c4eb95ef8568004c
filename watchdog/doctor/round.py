"""One round of all examinations of a good configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path

from watchdog.chat import ChatClient
from watchdog.clock import SystemClock
from watchdog.config import Config
from watchdog.doctor.asking import Ask
from watchdog.doctor.finding import Finding, Grade
from watchdog.doctor.hosts import judge_hosts, look_at
from watchdog.doctor.keys import examine_key
from watchdog.doctor.machine import examine_own_clock, examine_python, examine_sleep
from watchdog.doctor.servers import examine_server
from watchdog.doctor.service import examine_service
from watchdog.doctor.state import examine_daemon, examine_receivers, examine_state, read_state
from watchdog.standby import look


async def examine_targets(config: Config) -> list[Finding]:
    """Servers, hosts and the first watchdog, all at once: as slow as the slowest."""
    clock = SystemClock()
    by_name = {host.name: host for host in config.hosts}
    keys = [examine_key(host) for host in config.hosts]
    usable = [host for host, key in zip(config.hosts, keys, strict=True) if key.grade is not Grade.FAIL]
    async with ChatClient() as chat:
        servers = asyncio.gather(*(examine_server(server, chat, clock.wall()) for server in config.servers))
        looks = asyncio.gather(*(look_at(host, clock, by_name.get(host.jump or "")) for host in usable))
        first = [] if config.standby_of is None else [_first_watchdog(await look(config.standby_of))]
        return [*await servers, *keys, *judge_hosts(await looks), *first]


def _first_watchdog(problem: str | None) -> Finding:
    """Whether the watchdog that we stand by for says that it is well."""
    if problem is None:
        words = "is well, so this one holds its alerts back"
        return Finding(area="standby", name="the first watchdog", grade=Grade.PASS, words=words)
    return Finding(
        area="standby",
        name="the first watchdog",
        grade=Grade.WARN,
        words=f"does not say that it is well ({problem}): after three such looks this one speaks",
        fix="On its machine run `inference-watchdog status`; its `web.listen` must be reachable from here.",
        reason="first_silent",
    )


def examine_surroundings(ask: Ask, unit: str, label: str) -> list[Finding]:
    """What does not depend on the configuration: this machine, its Python, its service manager."""
    return [examine_python(), examine_sleep(ask), examine_own_clock(ask), examine_service(ask, unit, label)]


def examine_own(config: Config, state_dir: Path) -> list[Finding]:
    """State, daemon, receivers and heartbeat."""
    now = SystemClock().wall()
    snapshot, unreadable = read_state(state_dir, now)
    found = [*examine_state(state_dir), *unreadable]
    if not unreadable:  # without what is kept, "nothing was ever delivered" would be a guess
        found = [*examine_receivers(config.receivers, snapshot, now), *found, examine_daemon(snapshot, now)]
    if config.heartbeat is not None:
        words = "cannot see: a ping from here would count as a sign of life, so none was sent"
        found.append(
            Finding(area="heartbeat", name="heartbeat", grade=Grade.PASS, words=words, seen=False, reason="unseen")
        )
    return found
