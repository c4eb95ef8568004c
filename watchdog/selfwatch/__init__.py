"""The watchdog watches itself: did we sleep, is our own network down, do all checks come round (design §5.4)?

Results pass through `SelfWatch.attribute` on their way from the scheduler to the ingest. What only our own trouble
explains becomes unknown there; everything else goes on as it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from watchdog.clock import Clock, sleep_or_event
from watchdog.config import Config
from watchdog.errors import StoreError
from watchdog.ingest import Ingest
from watchdog.ingest.self_report import own_observation
from watchdog.kinds import BLIND, GENERATION, KERNEL_LOG, LATE, LOOP, ROAD, kind_of
from watchdog.model import CheckProgress, CheckResult, Nature, Observation, Verdict
from watchdog.reasons import OwnReason
from watchdog.selfwatch.attribution import ClockReading, Gap, GapKind, attribute_to_gap, gap_between
from watchdog.selfwatch.local_network import LocalNetwork
from watchdog.selfwatch.own_network import OwnNetwork, target_endpoints
from watchdog.store import Store

LATE_GRACE_S = 30.0
"""What a run's result may take on its way, on a busy machine, before its check counts as late."""
SCAN_SHARE = 0.8
"""A scan with much to read may take this share of its interval (`checks.kernel_log.OVERALL_SHARE`)."""
OTHER_RUN_S = 60.0
"""How long a run of any other kind of check may take, unless its interval is longer."""
GRACE_S = 60.0
"""After a gap the network may take this long to come back: Wi-Fi, DHCP, a VPN."""
MOST_IN_A_ROW = 2
"""So many failures in a row of one key are put down to the clocks; a machine whose clock keeps jumping still alerts."""


class Clocks:
    """The last reading of the clocks, the last gap in them, and the failures it explained."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = self._read()
        self._gap: Gap | None = None
        self._until = 0.0
        self._explained: dict[str, int] = {}
        self.explained_any = False
        """Whether a failure was put down to the last gap."""

    def _read(self) -> ClockReading:
        return ClockReading(self._clock.wall(), self._clock.monotonic(), self._clock.elapsed())

    @property
    def settling(self) -> bool:
        """Whether the last gap was so recent that the network may not be up yet."""
        return self._clock.monotonic() < self._until

    @property
    def settled_at(self) -> float:
        """Monotonic seconds of the end of the last grace; 0 before the first gap."""
        return self._until

    def check(self, expected_s: float) -> Gap | None:
        """Compare the clocks, `expected_s` or less after the last time; returns a gap once, when it is found."""
        now = self._read()
        gap = gap_between(self._last, now, expected_s)
        self._last = now
        if gap is not None:
            self._gap = gap
            self._until = now.monotonic + GRACE_S
            self.explained_any = False
        return gap

    def attribute(self, observation: Observation) -> Observation:
        """`observation`, or an unknown one when the last gap explains its failure."""
        gap = self._gap
        if gap is None:
            return observation
        observation = _dated_anew(observation, gap, self._clock.wall())
        seen = attribute_to_gap(observation, gap, self._clock.wall(), settling=self._settling_for(gap))
        if seen is observation:
            self._explained.pop(observation.key, None)
            return observation
        count = self._explained.get(observation.key, 0) + 1
        if count > MOST_IN_A_ROW:
            return observation
        self._explained[observation.key] = count
        self.explained_any = True
        return seen

    def _settling_for(self, gap: Gap) -> bool:
        # A clock that was set back says nothing about the network: we were awake all the time.
        return self.settling and gap.kind is not GapKind.SET_BACK


def _dated_anew(observation: Observation, gap: Gap, now: float) -> Observation:
    """`observation` as begun by the clock of now, if its run began before the clock was set."""
    before = observation.at > now + 1.0 if gap.step_s < 0 else gap.step_s > 0 and observation.at <= gap.set_at
    return replace(observation, at=observation.at + gap.step_s) if before else observation


log = structlog.get_logger("selfwatch")

NETWORK_KEY = ROAD.key()
LOOP_KEY = LOOP.key()
CLOCK_CHECK_S = 5.0
"""A pause is noticed once it lasts `STALL_S` longer than this. Not more often: every look wakes an idle process."""
SURVEY_S = 900.0
"""How often it is checked whether the router still answers, and what the targets' names resolve to."""
BLIND_RUNS = 3
"""So many runs in a row of one check without our network are an incident, as with any other failure."""
LOOK_AGAIN_S = 10.0
"""How often a blind watchdog checks whether its network is back."""


class SelfWatch:
    """Attributes failures to our own machine where it is to blame, and reports our own troubles like any check."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        clock: Clock,
        local_network: LocalNetwork,
        *,
        progress: CheckProgress,
        round_now: Callable[[], None],
        clock_check_s: float = CLOCK_CHECK_S,
    ) -> None:
        """`round_now` runs all checks at once; `clock_check_s` is how often the clocks are compared."""
        self._store = store
        self._ingest = ingest
        self._clock = clock
        self._progress = progress
        self._round_now = round_now
        self._clock_check_s = clock_check_s
        self._clocks = Clocks(clock)
        self._network = OwnNetwork(clock, local_network, store.memory(NETWORK_KEY))
        self._told_blind = any(incident.key == NETWORK_KEY for incident in ingest.open_incidents)
        self._blind_runs: dict[str, tuple[int, float]] = {}
        self._limits: Mapping[str, float] = {}
        self._since: dict[str, float] = {}
        self._late: set[str] = set()
        self._asked_for = False
        self._gaps: list[Gap] = []
        self._steps: list[Gap] = []
        self._news = asyncio.Event()
        self._woke = 0.0
        self._rounds_owed: list[float] = []
        self._survey_at = clock.monotonic()
        ingest.check_clock = self.check_clock

    def watch(self, config: Config, intervals: Mapping[str, float]) -> None:
        """Follow the targets of `config` from now on; `intervals` are those of its checks, by key, in seconds."""
        self._network.watch(target_endpoints(config))
        before, self._limits = self._limits, late_after_s(config, intervals)
        self._asked_for = config.web is not None and config.web.probe_on_scrape
        now = self._clock.monotonic()
        # A check that must come round sooner from now on has its time from now on.
        same = {key for key, limit_s in self._limits.items() if before.get(key) == limit_s}
        self._since = {key: self._since[key] if key in same else now for key in self._limits}
        self._survey_at = now
        self._news.set()

    async def check_clock(self) -> None:
        """Find out whether the clock was set since the last look, and let what is open and queued follow it."""
        self._check_clocks()
        await self._follow_steps()

    @property
    def settling(self) -> bool:
        """Whether we have just woken up: what we remember may be out of date until the next round."""
        self._check_clocks()
        return self._clocks.settling

    @property
    def trouble(self) -> str | None:
        """Why we cannot be relied on now, or None."""
        return f"blind: {self._network.why}" if self._network.blind_since is not None else None

    def complete(self) -> bool:
        """Whether every check has completed a run within its time: what a heartbeat vouches for."""
        now, done = self._clock.monotonic(), self._progress.last_completed_at
        return all(
            key in done and now - max(done[key], self._since[key]) <= limit_s for key, limit_s in self._limits.items()
        )

    async def attribute(self, result: CheckResult) -> CheckResult:
        """`result`, with failures that our own trouble explains made unknown."""
        await self.check_clock()
        seen = tuple([await self._attribute(observation) for observation in result.observations])
        same = all(new is old for new, old in zip(seen, result.observations, strict=True))
        return result if same else replace(result, observations=seen)

    async def _attribute(self, observation: Observation) -> Observation:
        seen = await self._network.attribute(observation)
        if seen is observation:
            seen = self._clocks.attribute(observation)
        elif self._network.blind_since == observation.at:
            log.warning("blind", why=self._network.why, check=observation.key)
            self._news.set()
        # Before this observation is taken in: what we cannot see for this reason folds into the one incident.
        if not self._told_blind and self._is_blind_for_long(seen):
            await self._tell_blind(blind=True)
        elif self._told_blind and self._network.blind_since is None and seen.verdict is Verdict.PASS:
            await self._tell_blind(blind=False)
        return seen

    def _is_blind_for_long(self, seen: Observation) -> bool:
        if seen.reason != OwnReason.BLIND or self._network.blind_since is None:
            self._blind_runs.pop(seen.key, None)
            return False
        runs, counted_at = self._blind_runs.get(seen.key, (0, 0.0))
        gap_s = self._ingest.plan.thresholds_for(BLIND.key(seen.key)).strike_gap_s
        if not 0 <= seen.at - counted_at < gap_s:
            runs += 1
            self._blind_runs[seen.key] = (runs, seen.at)
        return runs >= BLIND_RUNS

    async def _tell_blind(self, *, blind: bool) -> None:
        self._told_blind = blind
        seen = own_observation(
            NETWORK_KEY,
            Verdict.FAIL if blind else Verdict.PASS,
            OwnReason.BLIND if blind else OwnReason.OK,
            self._network.why if blind else "our own network is back",
            self._clock.wall(),
            advice=self._network.advice if blind else "",
            subject="watchdog",
        )
        await self._ingest.take(NETWORK_KEY, CheckResult((seen,)))

    def _check_clocks(self) -> None:
        gap = self._clocks.check(self._clock_check_s)
        if gap is None:
            return
        log.warning("gap", kind=gap.kind.value, what=gap.words)
        self._gaps.append(gap)
        if gap.step_s:
            self._steps.append(gap)
        self._news.set()
        if gap.kind is not GapKind.SET_BACK:
            self._woke = self._clock.monotonic()
            self._rounds_owed = [GRACE_S / 2, GRACE_S]
            self._round_now()

    async def _follow_steps(self) -> None:
        """What is open began by a clock that has been set since: all of it moves along, before anything new is seen."""
        while self._steps:
            gap = self._steps.pop(0)
            await self._ingest.follow_clock(gap.step_s, gap.set_at)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_clocks(), name="clocks")
                group.create_task(self._follow_up(), name="own network")
        finally:
            if self._network.blind_since is not None:
                await self._record(self._network.blind_since, self._clock.wall(), f"blind: {self._network.why}")

    async def _watch_clocks(self) -> None:
        """Only compares the clocks, so that nothing but a real gap makes it late."""
        while True:
            await self._clock.sleep(self._clock_check_s)
            self._check_clocks()
            self._look_once_more()
            if self._lateness() != self._late:
                self._news.set()

    def _look_once_more(self) -> None:
        """After a gap a second round, so that two passes resolve what has ended; a third if it explained a failure."""
        for at_s in [at_s for at_s in self._rounds_owed if self._clock.monotonic() >= self._woke + at_s]:
            self._rounds_owed.remove(at_s)
            if at_s < GRACE_S or self._clocks.explained_any:
                self._round_now()

    async def _follow_up(self) -> None:
        while True:
            blind = self._network.blind_since is not None
            until_survey_s = self._survey_at - self._clock.monotonic()
            await sleep_or_event(self._clock, LOOK_AGAIN_S if blind else until_survey_s, self._news)
            self._news.clear()
            await self._follow_steps()
            while self._gaps:
                await self._report_gap(self._gaps.pop(0))
            await self._report_lateness()
            if self._network.blind_since is not None:
                await self._look_again()
            elif self._clock.monotonic() >= self._survey_at:
                self._survey_at = self._clock.monotonic() + SURVEY_S
                if await self._network.survey():
                    log.info("router", known=self._network.memory)
                    await self._ingest.take(NETWORK_KEY, CheckResult((), memory=self._network.memory))

    async def _report_gap(self, gap: Gap) -> None:
        await self._record(gap.began_at, gap.ended_at, f"{OwnReason.CLOCK_JUMP}: {gap.words}")
        if gap.kind is GapKind.STALLED:
            seen = own_observation(
                LOOP_KEY,
                Verdict.FAIL,
                "stalled",
                gap.words,
                self._clock.wall(),
                advice="Check this machine's load and memory; a paused virtual machine looks the same.",
            )
            await self._ingest.take(LOOP_KEY, CheckResult((replace(seen, nature=Nature.OCCURRENCE),)))

    async def _look_again(self) -> None:
        since, why = self._network.blind_since, self._network.why
        if since is None or not await self._network.is_back():
            return
        self._network.blind_since = None
        self._blind_runs.clear()
        log.warning("sees_again", since=since, why=why)
        if self._told_blind:
            await self._tell_blind(blind=False)
        self._round_now()
        await self._record(since, self._clock.wall(), f"blind: {why}")

    async def _record(self, began_at: float, ended_at: float, reason: str) -> None:
        try:
            await self._store.record_blind(began_at, max(began_at, ended_at), reason)
        except StoreError as error:
            log.error("blind_window_lost", reason=reason, error=str(error))

    def _lateness(self) -> set[str]:
        now, done = self._clock.monotonic(), self._progress.last_completed_at
        return {
            key
            for key, limit_s in self._limits.items()
            if now - max(done.get(key, 0.0), self._since[key], self._clocks.settled_at) > limit_s
        }

    async def _report_lateness(self) -> None:
        """Report which checks have not completed a run on time, and which do again."""
        late = self._lateness()
        for key in sorted(late ^ self._late):
            is_late = key in late
            kind = kind_of(key)
            seen = own_observation(
                LATE.key(key),
                Verdict.FAIL if is_late else Verdict.PASS,
                "late" if is_late else OwnReason.OK,
                f"no result of {key} for too long: it is not being watched"
                if is_late
                else f"{key} is being watched again",
                self._clock.wall(),
                advice="Prometheus makes this probe (`web.probe_on_scrape`) and does not ask for it: look at its job."
                if self._asked_for and GENERATION.has(key)
                else "Check the log of inference-watchdog and this machine's load.",
                labels={} if kind is None else {kind.label: kind.target_of(key)},
            )
            await self._ingest.take(seen.key, CheckResult((seen,)))
        self._late = late


def late_after_s(config: Config, intervals: Mapping[str, float]) -> Mapping[str, float]:
    """Check key → seconds from one completed run to the next after which it is late: interval, longest run, grace.

    `intervals` are those of the checks that run, in seconds.
    """
    longest = {GENERATION.key(server.name): server.probe.timeout_s for server in config.servers}
    for host in config.hosts:
        log = host.kernel_log
        longest[KERNEL_LOG.key(host.name)] = max(log.timeout_s, SCAN_SHARE * log.interval_s)
    return {
        key: interval_s + longest.get(key, max(OTHER_RUN_S, interval_s)) + LATE_GRACE_S
        for key, interval_s in intervals.items()
    }
