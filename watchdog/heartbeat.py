"""Proof of life for an outside service that alerts when it stops (healthchecks.io and its kind).

A beat is sent only when every check has completed a run within its time, so a watchdog whose loop turns but which
watches nothing falls silent. When it lives but cannot be relied on, `/fail` is appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import structlog
from yarl import URL

from watchdog.chat.connection import trouble_of
from watchdog.clock import Clock
from watchdog.config import HeartbeatSettings, HttpMethod
from watchdog.ingest import Ingest
from watchdog.ingest.self_report import own_observation
from watchdog.kinds import HEARTBEAT
from watchdog.model import CheckResult, Verdict

log = structlog.get_logger("heartbeat")

KEY = HEARTBEAT.key()
LOOK_S = 1.0
"""How often an incomplete round is looked at again, once a beat is due."""
LONG_S = 900.0
LONG_FAILURES = 3
"""A beat that fails at least so often, for at least so long, becomes an incident of our own."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """How we are: whether all checks came round in time, and why nobody can rely on us now (None: they can)."""

    complete: bool
    trouble: str | None = None


class Heartbeat:
    """Beats until cancelled, as the configuration in force asks for."""

    def __init__(self, clock: Clock, ingest: Ingest, pulse: Callable[[], Pulse]) -> None:
        """`pulse` is asked before every beat; `ingest` hears when our beats are not heard for long."""
        self._clock = clock
        self._ingest = ingest
        self._pulse = pulse
        self._settings: HeartbeatSettings | None = None
        self._changed = asyncio.Event()
        self._failures = 0
        self._failing_since = 0.0
        self._was: str | None = None

    def follow(self, settings: HeartbeatSettings | None) -> None:
        """Beat as `settings` say from now on; None: do not."""
        if settings != self._settings:
            self._settings = settings
            self._changed.set()

    async def run(self) -> None:
        """Beat every interval, or as soon after it as every check has come round."""
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
                await self._note(pulse, await beat(settings, pulse.trouble))
            await self._rest(due)

    async def _rest(self, due: float) -> None:
        """Wait until `due` (monotonic), or until the settings change."""
        nap = asyncio.ensure_future(self._clock.sleep(due - self._clock.monotonic()))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((nap, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            changed.cancel()

    async def _note(self, pulse: Pulse, problem: str | None) -> None:
        """Log a change once; after long, make it an incident. While we are in trouble, a lost beat is no news."""
        if problem != self._was:
            (log.info if problem is None else log.warning)("heartbeat", unheard=problem)
        self._was = problem
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
                f"nobody hears our heartbeat: {problem}",
                self._clock.wall(),
                advice="The outside service will say that this watchdog is dead. Check heartbeat.url and the network.",
            )
            await self._ingest.take(KEY, CheckResult((seen,)))


async def beat(settings: HeartbeatSettings, trouble: str | None) -> str | None:
    """Send one beat, or with `trouble` a failing one; returns what was wrong with sending it, without its URL."""
    url = URL(settings.url.reveal())
    if trouble is not None:
        url = failing(url)
    said = trouble or "every check completes its runs in time"
    body = f"{said}\n".encode() if settings.method is HttpMethod.POST else None
    timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session,
            session.request(settings.method.value, url, data=body, allow_redirects=False) as reply,
        ):
            if 200 <= reply.status < 300:
                return None
            moved = " (redirects are not followed: give the new address)" if 300 <= reply.status < 400 else ""
            return f"it answers with HTTP {reply.status}{moved}"
    except TimeoutError:
        return f"no answer within {settings.timeout_s:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return trouble_of(error)[1]


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
    """The heartbeat is heard again, or is not wanted any more: close its incident if there is one."""
    if any(incident.key == KEY for incident in ingest.open_incidents):
        seen = own_observation(KEY, Verdict.PASS, "ok", "the heartbeat is heard", now)
        await ingest.take(KEY, CheckResult((seen,)))
