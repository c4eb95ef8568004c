"""The outbox under any order of trouble, deliveries, refusals, lost answers, crashes and restarts."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import defaultdict
from collections.abc import Hashable
from datetime import UTC
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.alerting_path import KEY, configuration, line_seen, observed, receiver, replace_at
from tests.support.clock import ManualClock
from watchdog.config import EscalateSettings
from watchdog.ingest import Ingest
from watchdog.model import CheckResult, Delivery, Outcome, OutcomeReason, Severity, Verdict
from watchdog.policy import AlertPlan, Grouping
from watchdog.store import Store

RECEIVERS = st.sampled_from(["phone", "mail"])
KEYS = st.sampled_from([KEY, "kernel_log/head", "kernel_log/worker"])
DEVICES = st.sampled_from(["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"])
STORIES = st.sampled_from(["FFF", "PP", "FFFPP", "F", "P", "UUU", "FPFPF"])
LETTERS = {"F": Verdict.FAIL, "P": Verdict.PASS, "U": Verdict.UNKNOWN}
EXPIRE_S = 7 * 86400.0


class Deliveries(RuleBasedStateMachine):
    """The store and ingest are real; here is only the hand that carries messages, and may drop dead at any moment."""

    grouping = Grouping.NONE

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.clock = ManualClock()
        repeats = EscalateSettings(after_s=60, every_s=1900, to=("mail",))
        self.config = configuration(
            receiver("phone", min_severity=Severity.PAGE, fallback="mail", escalate=repeats), receiver("mail")
        )
        self.arrived: dict[str, list[Delivery]] = defaultdict(list)
        self.leased: dict[str, Delivery | None] = {"phone": None, "mail": None}
        self.sent_at: dict[str, dict[Hashable, float]] = {"phone": {}, "mail": {}}
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        self.open()

    def open(self) -> None:
        self.store = Store.open(Path(self.folder.name), self.clock.wall(), linger_s=0.0)
        self.ingest = Ingest(self.store, AlertPlan.from_config(self.config), self.clock, zone=UTC)

        async def start() -> None:
            await self.ingest.start()
            for name in self.leased:
                await self.store.release(name)

        self.runner.run(start())

    @rule(
        key=KEYS,
        verdicts=st.lists(st.sampled_from([*Verdict, Verdict.FAIL]), min_size=1, max_size=4),
        page=st.booleans(),
    )
    def look(self, key: str, verdicts: list[Verdict], page: bool) -> None:
        severity = Severity.PAGE if page else Severity.WARN
        for verdict in verdicts:
            seen = replace_at(observed(verdict, key, severity=severity), self.clock.wall())
            self.runner.run(self.ingest.take(key, CheckResult((seen,))))

    @rule(page=st.booleans(), device=DEVICES)
    def see_line(self, page: bool, device: str) -> None:
        seen = line_seen(severity=Severity.PAGE if page else Severity.WARN, at=self.clock.wall(), device=device)
        self.runner.run(self.ingest.take(seen.key, CheckResult((seen,))))

    @rule(later=st.sampled_from([1.0, 9.0, 60.0, 1900.0, 4000.0]))
    def pass_time(self, later: float) -> None:
        self.runner.run(self.clock.advance(later))
        self.runner.run(self.ingest.tick())

    @rule(step=st.sampled_from([-7200.0, 7200.0]))
    def step_the_wall_clock(self, step: float) -> None:
        self.clock.jump_wall(step)

    @rule(name=RECEIVERS)
    def lease(self, name: str) -> None:
        if self.leased[name] is None:
            now = self.clock.wall()
            lease = self.runner.run(self.store.lease(name, now, EXPIRE_S, self.grouping, self.sent_at[name]))
            self.leased[name] = lease.delivery
            if lease.share_key is not None:
                self.sent_at[name][lease.share_key] = now

    @rule(name=RECEIVERS)
    def deliver(self, name: str) -> None:
        sent = self.leased[name]
        if sent is not None:
            self.arrived[name].append(sent)
            self.acknowledge(sent)
            self.leased[name] = None

    def acknowledge(self, sent: Delivery) -> None:
        outcome = Outcome(OutcomeReason.DELIVERED)
        self.runner.run(self.store.acknowledge(sent, outcome, self.clock.wall(), retry_now=True))

    @rule(name=RECEIVERS, arrived=st.booleans())
    def try_and_fail(self, name: str, arrived: bool) -> None:
        self.lease(name)
        self.fail(name, arrived)

    @rule(name=RECEIVERS)
    def try_and_succeed(self, name: str) -> None:
        self.lease(name)
        self.deliver(name)

    @rule(name=RECEIVERS, arrived=st.booleans())
    def fail(self, name: str, arrived: bool) -> None:
        """The attempt failed, perhaps only its answer."""
        sent = self.leased[name]
        if sent is None:
            return
        if arrived:
            self.arrived[name].append(sent)
        now = self.clock.wall()
        self.runner.run(self.store.postpone(sent, Outcome(OutcomeReason.TIMEOUT), now + 2, now))
        if name == "phone" and sent.attempt >= 3:
            for member in sent.each:
                self.runner.run(self.ingest.use_fallback(member, "mail"))
        self.leased[name] = None

    @rule(arrived=st.booleans())
    def crash(self, arrived: bool) -> None:
        """Dead in the middle of every send; some of them had arrived."""
        for name, sent in self.leased.items():
            if sent is not None and arrived:
                self.arrived[name].append(sent)
            self.leased[name] = None
        self.runner.run(self.store.close())
        self.open()

    def drain(self) -> None:
        """At the end everything works: what is owed arrives."""
        for name, sent in self.leased.items():
            if sent is not None:
                self.arrived[name].append(sent)
                self.acknowledge(sent)
            for _ in range(500):
                lease = self.runner.run(self.store.lease(name, self.clock.wall() + 1800, EXPIRE_S, self.grouping))
                if lease.delivery is None:
                    assert lease.depth == 0
                    break
                self.arrived[name].append(lease.delivery)
                self.acknowledge(lease.delivery)

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            self.drain()
            self.check()
        finally:
            self.runner.run(self.store.close())
            self.runner.close()
            self.folder.cleanup()
            structlog.reset_defaults()

    def check(self) -> None:
        incidents = {
            found.id: found
            for found in self.runner.run(self.store.read_in_turn(lambda reader: reader.incidents(0, 4e9)))
        }
        rows = self.runner.run(self.store.read_in_turn(lambda reader: reader.deliveries()))
        for name, arrived in self.arrived.items():
            attempts: dict[int, int] = {}
            triggered: set[str] = set()
            ended: set[str] = set()
            for sent in (member for message in arrived for member in message.each):
                assert sent.attempt > attempts.get(sent.row, 0), "a copy has a higher attempt"
                attempts[sent.row] = sent.attempt
                if sent.kind.is_trigger:
                    triggered.add(sent.incident_id)
                else:
                    assert sent.incident_id in triggered, "nothing comes before its trigger"
                if sent.kind.is_end:
                    ended.add(sent.incident_id)
            owed = {row.incident_id for row in rows if row.receiver == name and row.kind.is_trigger}
            assert triggered == owed, "every trigger arrives"
            closed = {found.id for found in incidents.values() if found.closed_at is not None}
            self.check_ends(arrived, triggered & closed, ended)
            for found in incidents.values():
                assert (name in found.notified) <= (found.id in triggered)

    def check_ends(self, _arrived: list[Delivery], owed: set[str], ended: set[str]) -> None:
        assert ended == owed, "an end arrives exactly where its trigger did"


class ListedDeliveries(Deliveries):
    """Receivers that take several incidents in one message: the same is owed, incident by incident."""

    grouping = Grouping.LISTED


class KeyedDeliveries(Deliveries):
    """Receivers that keep an incident for each key, as paging services do."""

    grouping = Grouping.KEYED

    def check_ends(self, arrived: list[Delivery], owed: set[str], ended: set[str]) -> None:
        assert ended <= owed
        kept: dict[str, set[str]] = defaultdict(set)
        keys: dict[str, set[str]] = defaultdict(set)
        newest: dict[str, Delivery] = {}
        for message in arrived:
            newest[message.key] = message
            for member in message.each:
                keys[member.incident_id].add(message.key)
                if member.kind.is_trigger:
                    kept[message.key].add(member.incident_id)
        assert all(len(one) == 1 for one in keys.values()), "an incident keeps the key it was opened under"
        for key, incidents in kept.items():
            assert newest[key].kind.is_end == (incidents <= owed), "a key is closed when all under it are over"


TestDeliveries = pytest.mark.timeout(600)(Deliveries.TestCase)
TestListedDeliveries = pytest.mark.timeout(600)(ListedDeliveries.TestCase)
TestKeyedDeliveries = pytest.mark.timeout(600)(KeyedDeliveries.TestCase)
TestDeliveries.settings = TestListedDeliveries.settings = TestKeyedDeliveries.settings = settings(
    max_examples=int(os.environ.get("OUTBOX_EXAMPLES", "80")), stateful_step_count=40, deadline=None
)
