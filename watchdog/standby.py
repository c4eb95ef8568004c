"""Asks the first watchdog's /healthz, and alerts in its place once three answers in a row were missed (design §10)."""

from __future__ import annotations

import asyncio
import json

import structlog

from watchdog.clock import Clock, sleep_or_event
from watchdog.http_call import PROGRAM, Role, http_call
from watchdog.ingest import Ingest
from watchdog.ingest.self_report import own_observation
from watchdog.kinds import STANDBY
from watchdog.model import CheckResult, Verdict
from watchdog.policy import Standby
from watchdog.reasons import OwnReason

log = structlog.get_logger("standby")

KEY = STANDBY.key()
LOOK_EVERY_S = 20.0
LOOK_TIMEOUT_S = 5.0
READ_BYTES = 4096
MISSED_LOOKS = 3
"""After so many looks in a row without a good answer we alert."""


class StandbyWatch:
    """Follows one first watchdog until cancelled, or none."""

    def __init__(self, clock: Clock, ingest: Ingest, *, instance: str = "") -> None:
        """`ingest` is given each change of the first one; `instance` is our own id, which is never the first one's."""
        self._instance = instance
        self._clock = clock
        self._ingest = ingest
        self._url: str | None = None
        self._changed = asyncio.Event()
        self._missed = 0
        self._now = Standby()

    def follow(self, url: str | None) -> None:
        """Stand by for the watchdog whose /healthz is at `url` from now on; None: for none.

        Until three looks were missed the first one is taken to be alive.
        """
        if url == self._url:
            return
        self._url, self._missed, self._now = url, 0, Standby()
        self._ingest.stand_by(None if url is None else self._now)
        self._changed.set()

    async def run(self) -> None:
        """Look every 20 s until cancelled."""
        while True:
            self._changed.clear()
            url = self._url
            if url is None:
                await self._end_incident("standby is not configured")
                await self._changed.wait()
                continue
            await self._take(await look(url, self._instance), self._clock.wall())
            await sleep_or_event(self._clock, LOOK_EVERY_S, self._changed)

    async def _take(self, problem: str | None, now: float) -> None:
        """Take in one look; `problem` is what was wrong with it, None a good answer."""
        if problem is None:
            self._missed = 0
            self._now = Standby(is_alive=True, heard_at=now)
            self._ingest.stand_by(self._now)
            await self._end_incident("the first watchdog is back and alerts again")
            return
        self._missed += 1
        if self._missed < MISSED_LOOKS or not self._now.is_alive:
            return
        self._now = Standby(is_alive=False, heard_at=self._now.heard_at)
        self._ingest.stand_by(self._now)
        log.warning("took_over", problem=problem)
        seen = own_observation(
            KEY,
            Verdict.FAIL,
            "took_over",
            f"the first watchdog does not answer ({problem}): this one alerts in its place",
            now,
            advice="Look at the machine of the first watchdog: is it on, awake and on the network?",
        )
        await self._ingest.take(KEY, CheckResult((seen,)))

    async def _end_incident(self, why: str) -> None:
        if any(incident.key == KEY for incident in self._ingest.open_incidents):
            log.info("handed_back", why=why)
            seen = own_observation(KEY, Verdict.PASS, OwnReason.OK, why, self._clock.wall())
            await self._ingest.take(KEY, CheckResult((seen,)))


async def look(url: str, instance: str = "") -> str | None:
    """Ask /healthz once; None for the good answer of a first watchdog, else what was wrong with it.

    `instance` is our own id. Whoever is no first watchdog will alert nobody, however well it is.
    """
    reply = await http_call("GET", url, timeout_s=LOOK_TIMEOUT_S, read_bytes=READ_BYTES)
    if reply.status is None:
        return reply.problem
    if reply.status != 200:
        return f"it answers HTTP {reply.status}"
    try:
        answer = json.loads(reply.body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("program") != PROGRAM or not isinstance(answer.get("instance"), str):
        return "what answers is not an inference-watchdog of this version"
    if instance and answer["instance"] == instance:
        return "it is this watchdog itself"
    if answer.get("role") != Role.FIRST:
        return "it is itself a standby"
    return None
