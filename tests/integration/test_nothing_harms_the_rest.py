"""What one host's or server's result cannot harm: the other findings, what was told, and what is still to be told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.alerting_path import Station, configuration, line_seen, observed, receiver
from tests.support.in_memory_journal import InMemoryJournal
from tests.support.kernel_log_checks import fatal, matcher
from watchdog.checks import matcher_trial
from watchdog.checks.host_log import HostLog
from watchdog.config import HostSettings, RulesSettings
from watchdog.errors import StoreError
from watchdog.kernlog.matcher import Finding
from watchdog.model import CheckResult, Nature, Observation, Verdict
from watchdog.ssh import HostError
from watchdog.store import Store

OWN = "self/check/kernel_log/worker/pcie.aer.fatal/0000:01:00.0"


def unprocessable() -> Observation:
    """A finding that raises wherever it is looked at."""
    return line_seen(device="0000:02:00.0", advice=None)


async def keys(station: Station) -> dict[str, str]:
    return {incident.key: incident.severity.value for incident in station.ingest.open_incidents}


async def test_a_finding_that_cannot_be_processed_fails_alone_and_is_told_as_a_fault_of_ours(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.look(line_seen(), unprocessable(), memory={"cursor": 1})
        assert sorted(await keys(station)) == sorted([line_seen().key, OWN])
        (own,) = [one for one in station.ingest.open_incidents if one.key == OWN]
        assert own.severity.value == "page"  # as grave as what could not be told
        assert "0000:02:00.0" in own.evidence[0].text
        assert station.store.memory(line_seen().key) == {"cursor": 1}


async def test_a_good_run_does_not_resolve_the_fault_while_its_finding_is_untold(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.look(line_seen(), unprocessable())
        well = observed(Verdict.PASS, OWN, labels={})
        for _ in range(3):
            await station.look(line_seen(), well)
        assert OWN in await keys(station)


async def test_numbers_and_letters_that_nothing_can_store_are_taken_out_of_a_finding(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        poisoned = line_seen(
            at=float("nan"), duration_s=float("inf"), measurements={"a": float("nan"), "b": 10**400, "c": 2.0}
        )
        await station.ingest.take("kernel_log/worker", _result(replace(poisoned, summary="x \ud800 y", count=10**400)))
        await station.look(observed(Verdict.PASS))
        assert list(await keys(station)) == [poisoned.key]


async def test_what_could_not_be_written_does_not_count_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Station(tmp_path) as station:

        async def refuse(_store: Store, _commit: object) -> None:
            raise StoreError("closed")

        with monkeypatch.context() as broken:
            broken.setattr(Store, "commit", refuse)
            with pytest.raises(StoreError):
                await station.ingest.take("kernel_log/worker", _result(line_seen()))
        assert station.ingest.open_incidents == ()
        await station.look(line_seen())
        assert station.sinks["phone"].kinds == ["NEW"]


async def test_the_end_of_an_incident_of_forty_days_reaches_a_receiver_that_was_away_at_its_end(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            await station.fail()
        assert station.sinks["phone"].kinds == ["FIRING"]
        await station.pass_time(40 * 86400, step_s=43200)
        station.sinks["phone"].broken = True
        for _ in range(5):
            await station.ok()
        await station.pass_time(3600, step_s=700)
        station.sinks["phone"].broken = False
        await station.pass_time(3600, step_s=700)
        assert station.sinks["phone"].kinds[-1] == "RESOLVED"


async def test_a_receiver_that_heard_only_a_reminder_hears_the_end(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        station.sinks["phone"].broken = True
        for _ in range(3):
            await station.fail()
        await station.pass_time(8 * 86400, step_s=450)
        station.sinks["phone"].broken = False
        await station.pass_time(2 * 86400, step_s=3600)
        assert set(station.sinks["phone"].kinds) == {"STILL FIRING"}
        for _ in range(5):
            await station.ok()
        await station.quiet()
        assert station.sinks["phone"].kinds[-1] == "RESOLVED"


async def test_a_receiver_that_fails_for_five_minutes_is_reported_then_and_not_at_its_next_attempt(
    tmp_path: Path,
) -> None:
    async with Station(tmp_path, configuration(receiver("phone"), receiver("mail"))) as station:
        station.sinks["phone"].broken = True
        await station.look(line_seen())
        await station.pass_time(295, step_s=5)
        assert not [title for title in station.sinks["mail"].titles if "cannot be reached" in title]
        await station.pass_time(20, step_s=5)
        assert [title for title in station.sinks["mail"].titles if "cannot be reached" in title]


def _result(*observations: Observation) -> Any:
    return CheckResult(observations)


class FailingMatcher:
    """The packaged rules, until `fails` says for which messages they raise."""

    def __init__(self) -> None:
        self.fails: Any = lambda _message: True
        self.ruleset = matcher().ruleset

    def classify(self, message: str) -> Finding | None:
        if self.fails(message):
            raise ImportError("no module named re2")
        return matcher().classify(message)


HOST = HostSettings(name="worker", address="192.0.2.1", user="monitor", known_hosts="/dev/null")


def read(journal: InMemoryJournal, log: HostLog) -> None:
    """One scan of the journal, as far as it needs no connection."""
    now = journal.hello.now
    for boot in log.reading.begin(journal.hello, now):
        asked = log.reading.cursor(boot)
        log.take(log.reading.page(boot, asked, journal.page(boot, asked, 1000), more=False), now)
    log.settle(now)


def occurrences(log: HostLog, now: float) -> list[str]:
    return [seen.key for seen in log.result(now).observations if seen.nature is Nature.OCCURRENCE]


def test_a_line_that_was_not_classified_is_read_again_also_after_a_restart() -> None:
    journal, rules = InMemoryJournal(), FailingMatcher()
    journal.boot()
    log = HostLog(HOST, rules)  # type: ignore[arg-type]  # as much of a matcher as is used
    log.recall(None)
    rules.fails = lambda _message: False
    read(journal, log)
    memory = json.loads(json.dumps(log.result(journal.hello.now).memory))
    rules.fails = lambda _message: True
    journal.print_line(fatal(1))
    with pytest.raises(HostError, match="could not be classified"):
        read(journal, log)
    untouched = log.result(journal.hello.now)
    assert untouched.memory == memory
    assert untouched.observations == ()
    for again in (log, HostLog(HOST, matcher())):
        rules.fails = lambda _message: False
        again.recall(memory)
        read(journal, again)
        assert occurrences(again, journal.hello.now) == ["kernel_log/worker/pcie.aer.fatal/0000:01:00.0"]


def test_a_line_that_always_fails_does_not_hide_those_behind_it() -> None:
    journal, rules = InMemoryJournal(), FailingMatcher()
    journal.boot()
    log = HostLog(HOST, rules)  # type: ignore[arg-type]  # as much of a matcher as is used
    log.recall(None)
    rules.fails = lambda message: "poison" in message
    journal.print_line("poison")
    journal.print_line(fatal(1))
    for _ in range(3):
        with pytest.raises(HostError):
            read(journal, log)
    read(journal, log)
    assert "kernel_log/worker/pcie.aer.fatal/0000:01:00.0" in occurrences(log, journal.hello.now)


def test_a_matcher_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert matcher_trial.matcher_problem(RulesSettings()) is None
    monkeypatch.setattr(matcher_trial, "MODULE", "watchdog.kernlog.no_such_matcher")
    problem = matcher_trial.matcher_problem(RulesSettings())
    assert problem is not None
    assert "no_such_matcher" in problem
