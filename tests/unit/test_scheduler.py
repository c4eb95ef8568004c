"""The scheduler keeps its rhythm, never overlaps a check, and survives a check's bug."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from tests.support.clock import ManualClock, settle
from watchdog.model import CheckResult, Json, Nature, Observation, Severity, Verdict
from watchdog.scheduler import Scheduler


@dataclass
class Probe:
    """A check whose runs the test controls."""

    key: str
    interval_s: float
    behave: Callable[[int], Awaitable[None]]
    starts: list[float] = field(default_factory=list)
    running: int = 0
    most_at_once: int = 0

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        self.starts.append(now)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await self.behave(len(self.starts))
        finally:
            self.running -= 1
        passed = Observation(
            key=self.key, verdict=Verdict.PASS, reason="ok", severity=Severity.PAGE, summary="fine", at=now
        )
        return CheckResult((passed,), memory={"runs": len(self.starts), "before": memory})


@dataclass
class Rig:
    clock: ManualClock
    scheduler: Scheduler
    results: list[tuple[str, CheckResult]]
    memories: dict[str, Json]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    clock = ManualClock()
    results: list[tuple[str, CheckResult]] = []
    memories: dict[str, Json] = {}

    async def take(key: str, result: CheckResult) -> None:
        results.append((key, result))
        memories[key] = result.memory

    scheduler = Scheduler(clock, take, memories.get)
    yield Rig(clock, scheduler, results, memories)
    await scheduler.stop()


async def at_once(_run: int) -> None:
    """A run that takes no time."""


async def test_starts_are_an_interval_apart_whatever_a_run_takes(rig: Rig) -> None:
    async def forty_seconds(_run: int) -> None:
        await rig.clock.sleep(40)

    probe = Probe("generation/a", 120, forty_seconds)
    rig.scheduler.replace([probe])
    await rig.clock.advance(600)
    assert [round(start - probe.starts[0]) for start in probe.starts] == [0, 120, 240, 360, 480, 600]


async def test_a_run_that_overruns_skips_its_missed_starts_and_never_overlaps(rig: Rig) -> None:
    async def first_is_long(run: int) -> None:
        await rig.clock.sleep(290 if run == 1 else 1)

    probe = Probe("generation/a", 120, first_is_long)
    rig.scheduler.replace([probe])
    await rig.clock.advance(500)
    assert [round(start - probe.starts[0]) for start in probe.starts] == [0, 360, 480]
    assert probe.most_at_once == 1


async def test_a_hanging_check_does_not_delay_the_others(rig: Rig) -> None:
    async def never(_run: int) -> None:
        await asyncio.Event().wait()

    hanging, healthy = Probe("generation/hung", 10, never), Probe("generation/fine", 10, at_once)
    rig.scheduler.replace([hanging, healthy])
    await rig.clock.advance(100)
    assert len(healthy.starts) == 10


async def test_the_first_check_starts_at_once_and_the_others_are_spread(rig: Rig) -> None:
    probes = [Probe(f"generation/{number}", 15, at_once) for number in range(100)]
    begin = rig.clock.wall()
    rig.scheduler.replace(probes)
    await rig.clock.advance(14.9)
    offsets = [probe.starts[0] - begin for probe in probes]
    assert offsets[0] == 0
    assert len({round(offset, 3) for offset in offsets}) == 100
    assert max(offsets) < 15


async def test_a_few_checks_start_in_turn_with_a_head_start_for_the_first(rig: Rig) -> None:
    probes = [Probe(f"generation/{number}", 60, at_once) for number in range(4)]
    rig.scheduler.replace(probes)
    await rig.clock.advance(59)
    begin = probes[0].starts[0]
    assert [probe.starts[0] - begin for probe in probes] == pytest.approx([0, 0.3, 0.35, 0.4])


async def test_a_check_is_unfinished_until_its_first_run_is_complete_also_after_a_reload(rig: Rig) -> None:
    async def four_seconds(_run: int) -> None:
        await rig.clock.sleep(4)

    rig.scheduler.replace([Probe("generation/a", 60, four_seconds), Probe("generation/b", 60, at_once)])
    await rig.clock.advance(2)
    assert rig.scheduler.unfinished() == ("generation/a",)
    await rig.clock.advance(3)
    assert rig.scheduler.unfinished() == ()
    rig.scheduler.replace([Probe("generation/a", 60, four_seconds)])
    assert rig.scheduler.unfinished() == ("generation/a",)
    await rig.clock.advance(5)
    assert rig.scheduler.unfinished() == ()


async def test_a_check_is_overdue_when_its_interval_its_limit_and_a_minute_are_over(rig: Rig) -> None:
    """A run of a check every 10 s may take 180 s; where it never ends, even the limit did not help."""
    rig.scheduler.replace([Probe("generation/a", 10, at_once)])
    await rig.clock.advance(5)
    done_at = rig.scheduler.last_completed_at["generation/a"]
    assert rig.scheduler.overdue(done_at + 249) == ()
    assert rig.scheduler.overdue(done_at + 251) == ("generation/a",)


async def test_only_a_run_that_missed_starts_is_logged_and_with_how_many(rig: Rig) -> None:
    async def second_is_long(run: int) -> None:
        await rig.clock.sleep(250 if run == 2 else 1)

    rig.scheduler.replace([Probe("generation/a", 120, second_is_long)])
    with capture_logs() as logs:
        await rig.clock.advance(600)
    assert [(line["event"], line["skipped_starts"]) for line in logs] == [("check_overran", 2)]


async def test_very_many_checks_start_in_small_groups_over_the_whole_interval(rig: Rig) -> None:
    probes = [Probe(f"generation/{number}", 15, at_once) for number in range(1000)]
    begin = rig.clock.wall()
    rig.scheduler.replace(probes)
    await rig.clock.advance(29.9)
    groups = Counter(round(probe.starts[0] - begin, 3) for probe in probes)
    assert max(groups.values()) <= 17
    assert min(groups) == 0
    assert 14 < max(groups) < 15
    assert all(probe.starts[1] - probe.starts[0] == pytest.approx(15) for probe in probes)


async def test_a_bug_in_a_check_becomes_a_failed_observation_about_ourselves_and_clears(rig: Rig) -> None:
    async def broken_once(run: int) -> None:
        if run == 1:
            message = "boom"
            raise ZeroDivisionError(message)

    rig.scheduler.replace([Probe("generation/a", 10, broken_once)])
    await rig.clock.advance(25)
    first, second = rig.results[0][1].observations, rig.results[1][1].observations
    assert [(seen.key, seen.verdict, seen.reason) for seen in first] == [
        ("self/check/generation/a", Verdict.FAIL, "bug")
    ]
    assert "ZeroDivisionError" in first[0].summary
    assert [(seen.key, seen.verdict) for seen in second] == [
        ("generation/a", Verdict.PASS),
        ("self/check/generation/a", Verdict.PASS),
    ]


async def test_a_bug_in_the_loop_of_a_check_ends_the_run_with_it(rig: Rig) -> None:
    """The daemon then ends too and is started again; otherwise one check would be missing without a word."""

    async def loses_its_interval(_run: int) -> None:
        probe.interval_s = 0.0

    probe = Probe("generation/a", 120, loses_its_interval)
    rig.scheduler.replace([probe])
    running = asyncio.create_task(rig.scheduler.run())
    await rig.clock.advance(1)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(running, 5)


async def test_a_check_gets_back_what_it_remembered(rig: Rig) -> None:
    rig.scheduler.replace([Probe("generation/a", 10, at_once)])
    await rig.clock.advance(15)
    assert rig.memories["generation/a"]["before"]["runs"] == 1


async def test_a_reload_keeps_unchanged_checks_running_and_stops_removed_ones(rig: Rig) -> None:
    kept, removed, added = (Probe(f"generation/{name}", 10, at_once) for name in ("kept", "removed", "added"))
    rig.scheduler.replace([kept, removed])
    await rig.clock.advance(35)
    rig.scheduler.replace([kept, added])
    await rig.clock.advance(30)
    assert len(kept.starts) == 7
    assert len(removed.starts) == 4
    assert len(added.starts) == 4


async def test_stopping_cancels_a_run_and_counts_nothing_for_it(rig: Rig) -> None:
    async def never(_run: int) -> None:
        await asyncio.Event().wait()

    probe = Probe("generation/a", 10, never)
    rig.scheduler.replace([probe])
    await settle()
    await rig.scheduler.stop()
    assert probe.starts
    assert rig.results == []
    assert probe.running == 0


async def test_a_result_that_cannot_be_taken_fails_alone_and_is_reported() -> None:
    clock = ManualClock()
    taken: list[Observation] = []

    async def refuse(key: str, result: CheckResult) -> None:
        if any(seen.key == "generation/poisoned" for seen in result.observations):
            message = "a value that nothing can store"
            raise OSError(message)
        taken.extend(result.observations)

    scheduler = Scheduler(clock, refuse, lambda _key: None)
    poisoned, healthy = Probe("generation/poisoned", 10, at_once), Probe("generation/fine", 10, at_once)
    scheduler.replace([poisoned, healthy])
    running = asyncio.create_task(scheduler.run())
    await clock.advance(95)
    assert not running.done()
    assert len(poisoned.starts) == len(healthy.starts) == 10
    assert sum(seen.key == "generation/fine" for seen in taken) == 10
    ours = {(seen.key, seen.verdict, seen.reason) for seen in taken if seen.key != "generation/fine"}
    assert ours == {("self/check/generation/poisoned", Verdict.FAIL, "bug")}
    running.cancel()
    await scheduler.stop()


async def test_a_finding_that_could_not_be_taken_is_handed_over_again_and_only_then_all_is_well() -> None:
    clock = ManualClock()
    taken: list[Observation] = []
    broken = True

    async def take(key: str, result: CheckResult) -> None:
        if broken and any(seen.nature is Nature.OCCURRENCE for seen in result.observations):
            message = "broken"
            raise OSError(message)
        taken.extend(result.observations)

    class Scan(Probe):
        async def run(self, memory: Json | None, now: float) -> CheckResult:
            result = await super().run(memory, now)
            line = replace(result.observations[0], key="kernel_log/a/x", nature=Nature.OCCURRENCE)
            return CheckResult((*result.observations, line)) if len(self.starts) == 1 else result

    scheduler = Scheduler(clock, take, lambda _key: None)
    scheduler.replace([Scan("kernel_log/a", 10, at_once)])
    await clock.advance(35)
    own = [seen.verdict for seen in taken if seen.key == "self/check/kernel_log/a"]
    assert set(own) == {Verdict.FAIL}
    broken = False
    await clock.advance(20)
    assert sum(seen.key == "kernel_log/a/x" for seen in taken) == 1
    assert [seen.verdict for seen in taken if seen.key == "self/check/kernel_log/a"][-1] is Verdict.PASS
    await scheduler.stop()


async def test_a_round_now_starts_every_check_once_and_sets_the_rhythm_anew(rig: Rig) -> None:
    probes = [Probe(f"generation/{number}", 600, at_once) for number in range(3)]
    rig.scheduler.replace(probes)
    await rig.clock.advance(100)
    rig.scheduler.round_now()
    await rig.clock.advance(1)
    assert [len(probe.starts) for probe in probes] == [2, 2, 2]
    await rig.clock.advance(598)
    assert [len(probe.starts) for probe in probes] == [2, 2, 2]
    await rig.clock.advance(2)
    assert [len(probe.starts) for probe in probes] == [3, 3, 3]


async def test_a_check_that_runs_during_a_round_now_runs_once_more_and_never_twice_at_once(rig: Rig) -> None:
    async def forty_seconds(_run: int) -> None:
        await rig.clock.sleep(40)

    probe = Probe("generation/a", 600, forty_seconds)
    rig.scheduler.replace([probe])
    await rig.clock.advance(20)
    rig.scheduler.round_now()
    rig.scheduler.round_now()
    await rig.clock.advance(300)
    assert [round(start - probe.starts[0]) for start in probe.starts] == [0, 40]
    assert probe.most_at_once == 1


async def test_one_check_may_be_asked_to_run_before_its_turn_and_the_others_keep_theirs(rig: Rig) -> None:
    """A failed probe asks for the vitals of its hosts; asking while they run gives one run more, not several."""

    async def four_seconds(_run: int) -> None:
        await rig.clock.sleep(4)

    vitals, probe = Probe("vitals/head", 300, four_seconds), Probe("generation/a", 120, at_once)
    rig.scheduler.replace([vitals, probe])
    await rig.clock.advance(100)
    rig.scheduler.run_soon(["vitals/head", "vitals/unknown"])
    await rig.clock.advance(2)
    rig.scheduler.run_soon(["vitals/head"])
    rig.scheduler.run_soon(["vitals/head"])
    await rig.clock.advance(200)
    assert [round(start - vitals.starts[0]) for start in vitals.starts] == [0, 100, 104]
    assert [round(start - probe.starts[0]) for start in probe.starts] == [0, 120, 240]
    assert vitals.most_at_once == 1
