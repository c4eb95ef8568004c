"""All examinations of a valid configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path

from watchdog.chat import ChatClient
from watchdog.checks import examination
from watchdog.checks.matcher_trial import matcher_problem
from watchdog.clock import SystemClock
from watchdog.config import Config, ServerSettings
from watchdog.doctor.finding import Ask, Finding, Grade
from watchdog.doctor.hosts import examine_key, host_findings, look_at
from watchdog.doctor.machine import examine_own_clock, examine_python, examine_service, examine_sleep
from watchdog.doctor.state import examine_daemon, examine_receivers, examine_state, read_state
from watchdog.errors import WatchdogError
from watchdog.model import Severity, Verdict
from watchdog.reasons import ServerReason
from watchdog.standby import look
from watchdog.text import one_line


async def examine_server(server: ServerSettings, chat: ChatClient, now: float) -> Finding:
    """Probe `server` once, as the daemon does: does it generate text, do key and model fit."""
    try:
        offer = await examination.offer_of(server, chat)
        outcome = await examination.probe(server, chat, now)
    except WatchdogError as error:  # an address or a CA file that cannot be used
        return Finding.fail("server", server.name, str(error), fix="Correct that setting.", reason="config")
    summary = outcome.summary()
    if outcome.reason is ServerReason.ASLEEP and not offer.lacks(server.model):
        why = f"{summary}; a probe would load the model, so none was sent"
        return Finding.unseen("server", server.name, why, reason=outcome.reason.value)
    if outcome.verdict is Verdict.PASS and outcome.reason is ServerReason.OK:
        engine = f" ({offer.engine})" if offer.engine else ""
        thinking = "; all of it thinking, which counts as alive" if examination.thought_only(outcome) else ""
        model = one_line(outcome.model or "the server's own", 80)
        return Finding.ok("server", server.name, f"{summary}; model {model}{engine}{thinking}")
    return Finding(
        "server",
        server.name,
        Grade.WARN if outcome.severity is Severity.WARN else Grade.FAIL,
        summary,
        examination.fix_for(server, outcome, offer.models),
        reason=outcome.reason.value,
    )


async def examine_targets(config: Config, instance: str = "") -> list[Finding]:
    """Servers, hosts and the first watchdog, all at once: as slow as the slowest. `instance` is our own id."""
    clock = SystemClock()
    by_name = {host.name: host for host in config.hosts}
    keys = [examine_key(host) for host in config.hosts]
    usable = [host for host, key in zip(config.hosts, keys, strict=True) if key.grade is not Grade.FAIL]
    async with ChatClient() as chat:
        servers = asyncio.gather(*(examine_server(server, chat, clock.wall()) for server in config.servers))
        looks = asyncio.gather(*(look_at(host, clock, by_name.get(host.jump or "")) for host in usable))
        first = [] if config.standby_of is None else [_first_watchdog(await look(config.standby_of, instance))]
        return [*await servers, *keys, *host_findings(await looks), *first]


def _first_watchdog(problem: str | None) -> Finding:
    """Whether the watchdog that we stand by for reports that it is healthy."""
    if problem is None:
        return Finding.ok("standby", "the first watchdog", "is healthy, so this one holds its alerts back")
    return Finding.warn(
        "standby",
        "the first watchdog",
        f"does not report that it is healthy ({problem}): after three such checks this one takes over",
        fix="On its machine run `inference-watchdog status`; its `web.listen` must be reachable from here.",
        reason="first_silent",
    )


def examine_surroundings(ask: Ask, unit: str, label: str) -> list[Finding]:
    """What does not depend on the configuration: this machine, its Python, its service manager."""
    return [examine_python(), examine_sleep(ask), examine_own_clock(ask), examine_service(ask, unit, label)]


def examine_own(config: Config, state_dir: Path) -> list[Finding]:
    """Findings about the state directory, the daemon, the receivers and the heartbeat."""
    now = SystemClock().wall()
    snapshot, unreadable = read_state(state_dir, now)
    found = [*examine_state(state_dir), *unreadable]
    if not unreadable:  # without the state, "nothing was ever delivered" would be a guess
        found = [*examine_receivers(config.receivers, snapshot, now), *found, examine_daemon(snapshot, now)]
    if config.hosts and (problem := matcher_problem(config.rules)):
        fix = "Install inference-watchdog again, or correct `rules`."
        found.append(Finding.fail("rules", "kernel rules", problem, fix=fix, reason="unclassifiable"))
    if config.heartbeat is not None:
        why = "a ping from here would count as a heartbeat, so none was sent"
        found.append(Finding.unseen("heartbeat", "heartbeat", why))
    return found
