"""The loop that feels the clocks, follows our own road, and says which checks are late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from watchdog.clock import Clock
from watchdog.config import Config
from watchdog.errors import StoreError
from watchdog.ingest import Ingest
from watchdog.ingest.self_report import own_observation
from watchdog.kinds import LATE, LOOP, ROAD, kind_of
from watchdog.model import CheckResult, Nature, Observation, Verdict
from watchdog.reasons import OwnReason
from watchdog.selfwatch.attribution import Gap, GapKind
from watchdog.selfwatch.clock_gaps import GRACE_S, Clocks
from watchdog.selfwatch.local_network import Neighbourhood, doors_of, late_after_s
from watchdog.selfwatch.own_network import OwnRoad
from watchdog.store import Store

log = structlog.get_logger("selfwatch")

ROAD_KEY = ROAD.key()
LOOP_KEY = LOOP.key()
FEEL_S = 5.0
"""A pause is noticed that lasts `sight.STALL_S` longer than this; every look wakes an idle process."""
SURVEY_S = 900.0
"""How often it is seen whether the router still answers, and what the targets' names mean."""
LOOK_AGAIN_S = 10.0
"""How often a blind watchdog looks whether its network is back."""


class SelfWatch:
    """Judges results before they are taken in, and tells of its own troubles through the ingest like any check."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        clock: Clock,
        neighbourhood: Neighbourhood,
        *,
        feel_s: float = FEEL_S,
    ) -> None:
        """`feel_s` is how often the clocks are felt."""
        self._store = store
        self._ingest = ingest
        self._clock = clock
        self._feel_s = feel_s
        self._clocks = Clocks(clock)
        self._road = OwnRoad(clock, neighbourhood, store.memory(ROAD_KEY))
        self._limits: Mapping[str, float] = {}
        self._since: dict[str, float] = {}
        self._late: set[str] = set()
        self._gaps: list[Gap] = []
        self._news = asyncio.Event()
        self._woke = 0.0
        self._rounds_owed: list[float] = []
        self._survey_at = clock.monotonic()
        self.round_now: Callable[[], None] = lambda: None
        """Runs all checks at once: the scheduler's."""
        self.completed_at: Callable[[str], float | None] = lambda _key: None
        """Monotonic seconds of a check's last completed run: the scheduler's."""

    def watch(self, config: Config, intervals: Mapping[str, float]) -> None:
        """Judge about the targets of `config` from now on; `intervals` are those of its checks, by key, in seconds."""
        self._road.watch(doors_of(config))
        self._limits = late_after_s(config, intervals)
        now = self._clock.monotonic()
        self._since = {key: self._since.get(key, now) for key in self._limits}
        self._survey_at = now
        self._news.set()

    @property
    def settling(self) -> bool:
        """Whether we have just woken up: the next round tells more than what we remember."""
        self._feel()
        return self._clocks.settling

    @property
    def trouble(self) -> str | None:
        """Why nobody can rely on us now, or None."""
        return f"blind: {self._road.why}" if self._road.blind_since is not None else None

    def complete(self) -> bool:
        """Whether every check has completed a run within its time: what a heartbeat vouches for."""
        now = self._clock.monotonic()
        done = {key: self.completed_at(key) for key in self._limits}
        return all(at is not None and now - at <= self._limits[key] for key, at in done.items())

    async def judged(self, result: CheckResult) -> CheckResult:
        """`result`, with what our own trouble explains made unknown."""
        self._feel()
        seen = tuple([await self._judged(observation) for observation in result.observations])
        same = all(new is old for new, old in zip(seen, result.observations, strict=True))
        return result if same else replace(result, observations=seen)

    async def _judged(self, observation: Observation) -> Observation:
        seen = await self._road.judged(observation)
        if seen is observation:
            seen = self._clocks.judged(observation)
        elif self._road.blind_since == observation.at:
            log.warning("blind", why=self._road.why, check=observation.key)
            self._news.set()
        return seen

    def _feel(self) -> None:
        gap = self._clocks.feel(self._feel_s)
        if gap is None:
            return
        log.warning("gap", kind=gap.kind.value, what=gap.words)
        self._gaps.append(gap)
        self._news.set()
        if gap.kind is not GapKind.SET_BACK:
            self._woke = self._clock.monotonic()
            self._rounds_owed = [GRACE_S / 2, GRACE_S]
            self.round_now()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat(), name="clocks")
                group.create_task(self._follow_up(), name="own road")
        finally:
            if self._road.blind_since is not None:
                await self._record(self._road.blind_since, self._clock.wall(), f"blind: {self._road.why}")

    async def _beat(self) -> None:
        """Does nothing but feel the clocks, so that only a real gap makes it late."""
        while True:
            await self._clock.sleep(self._feel_s)
            self._feel()
            self._look_once_more()
            if self._lateness() != self._late:
                self._news.set()

    def _look_once_more(self) -> None:
        """After a gap a second round, so that two passes resolve what ended meanwhile; a third if one was excused."""
        for at_s in [at_s for at_s in self._rounds_owed if self._clock.monotonic() >= self._woke + at_s]:
            self._rounds_owed.remove(at_s)
            if at_s < GRACE_S or self._clocks.excused_anyone:
                self.round_now()

    async def _follow_up(self) -> None:
        """Write down and tell what was noticed."""
        while True:
            await self._rest()
            self._news.clear()
            while self._gaps:
                await self._tell_gap(self._gaps.pop(0))
            await self._tell_lateness()
            if self._road.blind_since is not None:
                await self._look_again()
            elif self._clock.monotonic() >= self._survey_at:
                self._survey_at = self._clock.monotonic() + SURVEY_S
                if await self._road.survey():
                    await self._ingest.take(ROAD_KEY, CheckResult((), memory=self._road.memory))

    async def _rest(self) -> None:
        """Wait for news, or for the next look."""
        blind = self._road.blind_since is not None
        left_s = LOOK_AGAIN_S if blind else max(0.0, self._survey_at - self._clock.monotonic())
        nap = asyncio.ensure_future(self._clock.sleep(left_s))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((nap, news), return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            news.cancel()

    async def _tell_gap(self, gap: Gap) -> None:
        await self._record(gap.began_at, gap.ended_at, f"{OwnReason.CLOCK_JUMP}: {gap.words}")
        if gap.kind is GapKind.STALLED:
            seen = own_observation(
                LOOP_KEY,
                Verdict.FAIL,
                "stalled",
                gap.words,
                self._clock.wall(),
                advice="Look at this machine's load and memory; a paused virtual machine looks the same.",
            )
            await self._ingest.take(LOOP_KEY, CheckResult((replace(seen, nature=Nature.OCCURRENCE),)))

    async def _look_again(self) -> None:
        since, why = self._road.blind_since, self._road.why
        if since is None or not await self._road.is_back():
            return
        self._road.blind_since = None
        log.warning("sees_again", since=since, why=why)
        self.round_now()
        await self._record(since, self._clock.wall(), f"blind: {why}")

    async def _record(self, began_at: float, ended_at: float, reason: str) -> None:
        try:
            await self._store.record_blind(began_at, max(began_at, ended_at), reason)
        except StoreError as error:
            log.error("blind_window_lost", reason=reason, error=str(error))

    def _lateness(self) -> set[str]:
        now = self._clock.monotonic()
        return {
            key
            for key, limit_s in self._limits.items()
            if now - max(self.completed_at(key) or 0.0, self._since[key], self._clocks.settled_at) > limit_s
        }

    async def _tell_lateness(self) -> None:
        """Say which checks have not come round in time, and which do again."""
        late = self._lateness()
        for key in sorted(late ^ self._late):
            is_late = key in late
            kind = kind_of(key)
            seen = own_observation(
                LATE.key(key),
                Verdict.FAIL if is_late else Verdict.PASS,
                "late" if is_late else "ok",
                f"no result of {key} for too long: it is not being watched" if is_late else f"{key} is watched again",
                self._clock.wall(),
                advice="Look at the log of inference-watchdog, and at this machine's load.",
                labels={} if kind is None else {kind.label: kind.target_of(key)},
            )
            await self._ingest.take(seen.key, CheckResult((seen,)))
        self._late = late
