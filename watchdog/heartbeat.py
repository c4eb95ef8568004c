"""Proof of life for an outside service that alerts when it stops (healthchecks.io and its kind).

A beat is sent only when every check has completed a run on time, so a watchdog that is running but checks nothing falls
silent. While it is running but cannot be relied on, `/fail` is appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from yarl import URL

from watchdog.clock import Clock, sleep_or_event
from watchdog.config import HeartbeatSettings, HttpMethod
from watchdog.http_call import http_call
from watchdog.ingest import Ingest
from watchdog.ingest.self_report import own_observation
from watchdog.kinds import HEARTBEAT
from watchdog.model import CheckResult, Verdict
from watchdog.reasons import OwnReason

log = structlog.get_logger("heartbeat")

KEY = HEARTBEAT.key()
LOOK_S = 1.0
"""How often it is seen whether the round is complete, once a beat is due."""
LONG_S = 900.0
LONG_FAILURES = 3
"""A beat that fails at least so often, for at least so long, becomes an incident of our own."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """How we are: whether all checks completed a run on time, and why we cannot be relied on now (None: we can)."""

    complete: bool
    trouble: str | None = None


class Heartbeat:
    """Beats until cancelled, as the configuration in force asks for."""

    def __init__(self, clock: Clock, ingest: Ingest, pulse: Callable[[], Pulse]) -> None:
        """`pulse` is called before every beat; `ingest` gets an observation when beats have been lost for long."""
        self._clock = clock
        self._ingest = ingest
        self._pulse = pulse
        self._settings: HeartbeatSettings | None = None
        self._changed = asyncio.Event()
        self._failures = 0
        self._failing_since = 0.0
        self._last_problem: str | None = None

    def follow(self, settings: HeartbeatSettings | None) -> None:
        """Beat as `settings` say from now on; None: do not."""
        if settings != self._settings:
            self._settings = settings
            self._changed.set()

    async def run(self) -> None:
        """Beat every interval, or as soon after it as every check has completed a run."""
        while True:
            self._changed.clear()
            settings = self._settings
            if settings is None:
                await end_incident(self._ingest, self._clock.wall())
                await self._changed.wait()
                continue
            due = self._clock.monotonic() + settings.interval_s
            pulse = self._pulse()
            if pulse.trouble is None and not pulse.complete:
                due = self._clock.monotonic() + LOOK_S
            else:
                await self._take(pulse, await beat(settings, pulse.trouble))
            await sleep_or_event(self._clock, due - self._clock.monotonic(), self._changed)

    async def _take(self, pulse: Pulse, problem: str | None) -> None:
        """Log a change once; after long, make it an incident. While we are in trouble, a lost beat says nothing new."""
        if problem != self._last_problem:
            (log.info if problem is None else log.warning)("heartbeat", problem=problem)
        self._last_problem = problem
        if problem is None:
            self._failures = 0
            await end_incident(self._ingest, self._clock.wall())
            return
        if pulse.trouble is not None:
            return
        now = self._clock.monotonic()
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        if self._failures >= LONG_FAILURES and now - self._failing_since >= LONG_S:
            seen = own_observation(
                KEY,
                Verdict.FAIL,
                "unheard",
                f"the heartbeat does not arrive: {problem}",
                self._clock.wall(),
                advice="The outside service will report this watchdog as dead. Check heartbeat.url and the network.",
            )
            await self._ingest.take(KEY, CheckResult((seen,)))


async def beat(settings: HeartbeatSettings, trouble: str | None) -> str | None:
    """Send one beat, or with `trouble` a failing one; returns what went wrong with sending it, without its URL."""
    url = URL(settings.url.reveal())
    if trouble is not None:
        url = failing(url)
    text = trouble or "all checks complete their runs on time"
    data = f"{text}\n".encode() if settings.method is HttpMethod.POST else None
    reply = await http_call(settings.method.value, url, timeout_s=settings.timeout_s, data=data)
    if reply.status is None:
        return reply.problem
    if 200 <= reply.status < 300:
        return None
    moved = " (redirects are not followed: configure the new address)" if 300 <= reply.status < 400 else ""
    return f"the service answers HTTP {reply.status}{moved}"


def failing(url: URL) -> URL:
    """The address that says "I am in trouble": the same with `/fail` after its path, its query kept."""
    return URL.build(
        scheme=url.scheme,
        authority=url.raw_authority,
        path=f"{url.raw_path.rstrip('/')}/fail",
        query_string=url.raw_query_string,
        encoded=True,
    )


async def end_incident(ingest: Ingest, now: float) -> None:
    """The heartbeat arrives again, or is no longer configured: close its incident if there is one."""
    if any(incident.key == KEY for incident in ingest.open_incidents):
        seen = own_observation(KEY, Verdict.PASS, OwnReason.OK, "the heartbeat arrives again", now)
        await ingest.take(KEY, CheckResult((seen,)))
