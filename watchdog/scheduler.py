"""When checks run: start to start, spread, never twice at once. The one place that catches a check's bug."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Protocol, runtime_checkable

import structlog

from watchdog.clock import Clock
from watchdog.errors import NotRememberedError
from watchdog.kinds import CHECK
from watchdog.model import Check, CheckResult, Evidence, Json, Nature, Observation, Severity, Verdict
from watchdog.reasons import OwnReason
from watchdog.text import bounded_repr

log = structlog.get_logger("scheduler")

SPREAD_PER_CHECK_S = 0.05
"""Starts are spread by this much per check, within one interval: no burst at start, first results at once."""

ALONE_S = 0.25
"""The first check gets so much of a head start: SSH has a lot to load, and the first probe must not wait for that."""

TOGETHER_S = 0.25
"""Where starts are closer than `SPREAD_PER_CHECK_S`, those within this time start together: a process that wakes up
for one probe at a time spends more on waking up than on probing."""

LIVE_RESTART_S = 30.0
"""A live stream that ended by a bug of ours is started again after this long."""

OVERDUE_GRACE_S = 60.0
"""How long a run's results may take to reach the store before a check counts as stuck."""

UNTAKEN_LIMIT = 100
"""Occurrences kept of results that could not be taken; what they say is in the log as well."""

Take = Callable[[str, CheckResult], Awaitable[None]]
Memory = Callable[[str], Json | None]


@runtime_checkable
class Live(Protocol):
    """A check that also follows its target live, beside its runs."""

    @property
    def live(self) -> bool:
        """Whether the live stream is wanted."""
        ...

    async def follow(self, commit: Callable[[CheckResult], Awaitable[object]], memory: Json | None) -> None:
        """Hand each new result to `commit`; never returns."""
        ...


class Scheduler:
    """Runs each check on its own task, so that a hanging target never delays another.

    Plain arithmetic on the monotonic clock keeps the rhythm: starts are `interval_s` apart whatever a run takes, and
    a run that overran its slot skips the slots it missed instead of making up for them.
    """

    def __init__(self, clock: Clock, take: Take, memory: Memory) -> None:
        """`take` receives every result (the ingest), `memory` returns what a check last remembered."""
        self._clock = clock
        self._take = take
        self._memory = memory
        self._tasks: dict[str, tuple[Check, tuple[asyncio.Task[None], ...]]] = {}
        self._failed: asyncio.Future[None] | None = None
        self._report_health_of: set[str] = set()
        self.last_completed_at: dict[str, float] = {}
        """Check key → monotonic seconds of its last completed run; what the heartbeat looks at."""
        self._since: dict[str, float] = {}
        self._sleeps: dict[str, asyncio.Task[None]] = {}
        self._wanted_at: dict[str, float] = {}
        self._untaken: dict[str, tuple[Observation, ...]] = {}

    def unfinished(self) -> tuple[str, ...]:
        """Keys of the checks that have not completed a run since they were started."""
        return tuple(key for key in self._tasks if self.last_completed_at.get(key, -1.0) < self._since[key])

    def overdue(self, now: float) -> tuple[str, ...]:
        """Keys of the checks that should long have completed a run; `now` is monotonic seconds.

        A hanging target cannot cause it, as every run has a limit: our own loop, store or machine is stuck.
        """
        late = []
        for key, (check, _) in self._tasks.items():
            last = max(self.last_completed_at.get(key, 0.0), self._since[key])
            if now - last > check.interval_s + _limit_s(check) + OVERDUE_GRACE_S:
                late.append(key)
        return tuple(late)

    def replace(self, checks: Iterable[Check]) -> None:
        """Run exactly `checks` from now on. A check that is already running as the same object goes on undisturbed."""
        wanted = {check.key: check for check in checks}
        for key, (check, tasks) in list(self._tasks.items()):
            if wanted.get(key) is not check:
                for task in tasks:
                    task.cancel()
                del self._tasks[key]
                self._report_health_of.discard(key)
        new = [check for key, check in wanted.items() if key not in self._tasks]
        now = self._clock.monotonic()
        for position, check in enumerate(new):
            self._since[check.key] = now
            planned = now + _spread_s(position, check.interval_s / len(new))
            running = [asyncio.create_task(self._loop(check, planned), name=check.key)]
            if isinstance(check, Live) and check.live:
                running.append(asyncio.create_task(self._live(check.key, check, planned), name=f"{check.key} live"))
            for started in running:
                started.add_done_callback(self._note_failure)
            self._tasks[check.key] = (check, tuple(running))

    def round_now(self) -> None:
        """Run every check now (spread a little), as after a sleep. A check that is running runs again afterwards."""
        now = self._clock.monotonic()
        for position, (key, (check, _)) in enumerate(self._tasks.items()):
            self._wanted_at[key] = now + _spread_s(position, check.interval_s / len(self._tasks))
            if key in self._sleeps:
                self._sleeps[key].cancel()

    def run_soon(self, keys: Iterable[str]) -> None:
        """Run these checks now, before their turn. A check that is running runs again afterwards."""
        for key in keys:
            self.run_in(key, 0.0)

    def run_in(self, key: str, wait_s: float) -> None:
        """Run this check again in `wait_s` seconds, if it is not due before; its rhythm goes on from there."""
        if key in self._tasks:
            self._wanted_at[key] = self._clock.monotonic() + wait_s
        if key in self._sleeps:
            self._sleeps[key].cancel()

    async def run(self) -> None:
        """Run until cancelled. Raises what a check's loop raises by a bug of ours."""
        self._failed = asyncio.get_running_loop().create_future()
        for task in self._all_tasks():
            task.add_done_callback(self._note_failure)
        await self._failed

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def stop(self) -> None:
        """Cancel all runs and wait for them; a cancelled run counts for nothing."""
        tasks = self._all_tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _all_tasks(self) -> list[asyncio.Task[None]]:
        return [task for _, tasks in self._tasks.values() for task in tasks]

    async def _live(self, key: str, check: Live, planned: float) -> None:
        await self._clock.sleep(planned - self._clock.monotonic())
        while True:
            try:
                await check.follow(lambda result: self._hand_over(key, result), self._memory(key))
            except Exception as error:  # our bug, as in `run_once`: the scan goes on, the stream is tried again
                log.exception("live_bug", check=key)
                await self._hand_over(key, CheckResult((_bug(key, error, self._clock.wall()),)))
            self._report_health_of.add(key)
            await self._clock.sleep(LIVE_RESTART_S)

    async def _loop(self, check: Check, planned: float) -> None:
        while True:
            planned = await self._due(check.key, planned)
            await self.run_once(check)
            now = self._clock.monotonic()
            missed = int(max(0.0, now - planned) // check.interval_s)
            if missed:
                log.warning("check_overran", check=check.key, skipped_starts=missed)
            planned += (missed + 1) * check.interval_s

    async def _due(self, key: str, planned: float) -> float:
        """Wait for the planned start, or the earlier one that `round_now` asks for; returns when it was due."""
        while True:
            planned = min(planned, self._wanted_at.pop(key, planned))
            left_s = planned - self._clock.monotonic()
            sleep = asyncio.create_task(self._clock.sleep(left_s))
            self._sleeps[key] = sleep
            try:
                await sleep
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise
                # only the sleep was cancelled: the check is wanted earlier
            else:
                return planned
            finally:
                self._sleeps.pop(key, None)

    async def run_once(self, check: Check) -> CheckResult:
        """Run `check` now and hand its result on; returns that result, also when the check itself had a bug."""
        now = self._clock.wall()
        try:
            async with asyncio.timeout(_limit_s(check)):
                result = await check.run(self._memory(check.key), now)
        except Exception as error:  # our bug: caught once, logged, and an incident of its own
            log.exception("check_bug", check=check.key)
            result = CheckResult((_bug(check.key, error, self._clock.wall()),))
            self._report_health_of.add(check.key)
        else:
            if check.key in self._report_health_of:
                result = CheckResult((*result.observations, _no_bug(check.key, self._clock.wall())), result.memory)
        if await self._hand_over(check.key, result):
            self.last_completed_at[check.key] = self._clock.monotonic()
        return result

    async def _hand_over(self, key: str, result: CheckResult) -> bool:
        """Have `result` taken in. A result that cannot be taken fails alone: the check and all others go on.

        False if not even that could be reported: then the run does not count as completed, which healthz and heartbeat
        tell. Its occurrences are passed on again before the next result, as nothing sees them a second time.
        """
        again = self._untaken.pop(key, ())
        if again:
            await self._take_guarded(key, CheckResult(again))
        return await self._take_guarded(key, result)

    async def _take_guarded(self, key: str, result: CheckResult) -> bool:
        if key in self._untaken:  # still untold: a good run does not resolve that
            ours = CHECK.key(key)
            told = tuple(one for one in result.observations if one.key != ours or one.verdict is not Verdict.PASS)
            result = replace(result, observations=told, memory=None)  # a restart shall read its lines again
        try:
            await self._take(key, result)
        except Exception as error:
            log.exception("result_not_taken", check=key, result=bounded_repr(result))
            if not isinstance(error, NotRememberedError):
                found = tuple(seen for seen in result.observations if seen.nature is Nature.OCCURRENCE)
                if found:
                    self._untaken[key] = (*self._untaken.get(key, ()), *found)[-UNTAKEN_LIMIT:]
            self._report_health_of.add(key)
            try:
                await self._take(key, CheckResult((_bug(key, error, self._clock.wall(), untaken=True),)))
            except Exception:
                log.exception("own_bug_not_taken", check=key)
                return False
        return True


def _spread_s(position: int, most_s: float) -> float:
    """How long after the first start the one at `position` is, if starts may be at most `most_s` apart."""
    if most_s >= SPREAD_PER_CHECK_S:
        return position * SPREAD_PER_CHECK_S + min(ALONE_S, most_s) * (position > 0)
    return position * most_s // TOGETHER_S * TOGETHER_S


def _limit_s(check: Check) -> float:
    """How long one run may take before it counts as a bug of ours: checks have deadlines of their own."""
    return max(2 * check.interval_s, 180.0)


def _bug(key: str, error: Exception, now: float, *, untaken: bool = False) -> Observation:
    """The failed observation about ourselves that a check's exception becomes, or that of a result `untaken`."""
    what = "took far too long" if isinstance(error, TimeoutError) else f"raised {type(error).__name__}"
    return Observation(
        key=CHECK.key(key),
        verdict=Verdict.FAIL,
        reason=OwnReason.BUG,
        severity=Severity.WARN,
        summary=f"a result of {key} could not be processed ({type(error).__name__}). The log has it."
        if untaken
        else f"the check {key} {what}: its target is not being watched. The log has the traceback.",
        at=now,
        evidence=(Evidence(now, "watchdog", f"{type(error).__name__} in {key}"),),
    )


def _no_bug(key: str, now: float) -> Observation:
    return Observation(
        key=CHECK.key(key),
        verdict=Verdict.PASS,
        reason=OwnReason.OK,
        severity=Severity.WARN,
        summary=f"the check {key} runs again",
        at=now,
    )
