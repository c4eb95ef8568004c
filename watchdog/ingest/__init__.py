"""The one way from an observation to an alert: tracker, policy, message, and one transaction of the store.

Nobody else calls those three. Time goes the same way (`tick`), and so do the watchdog's own troubles.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import tzinfo

import structlog

from watchdog.clock import Clock
from watchdog.config import ProbeSettings
from watchdog.errors import NotRememberedError, StoreError
from watchdog.ingest.incidents import Incidents
from watchdog.ingest.self_report import (
    SentTestAlert,
    log_decisions,
    own_observation,
    test_alert_messages,
    untaken_observation,
)
from watchdog.ingest.unit_of_work import UnitOfWork
from watchdog.kinds import CHECK, DELIVERY, GENERATION, STORAGE
from watchdog.message.redaction import Redactor
from watchdog.model import CheckResult, Delivery, Incident, Json, Nature, Observation, TransitionKind, Verdict
from watchdog.policy import OUTBOX_LIMIT, AlertPlan, NextProbe, Standby
from watchdog.store import NEXT_PROBES, Store
from watchdog.text import bounded_repr

__all__ = ["Ingest", "SentTestAlert"]

_log = structlog.get_logger(__name__)
STORAGE_KEY = STORAGE.key()
"""Key of our own trouble with the disk."""
KEEP_OBSERVATIONS_S = 30 * 86400.0
KEEP_INCIDENTS_S = 400 * 86400.0
_TIDY_EVERY_S = 600.0
_MEND_EVERY_S = 30.0
_UNTAKEN_LIMIT = 100
PROVEN_AFTER_S = 86400.0
NO_CLOCK_BEFORE = 1_600_000_000.0
"""Machines without a clock of their own begin in 1970; what says it is from then began by a clock that was not set."""


class QueueEvents:
    """One event per receiver, set when messages were queued for it: the ingest sets it, the outbox waits for it."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def of(self, receiver: str) -> asyncio.Event:
        """The event of `receiver`; who waits for it clears it."""
        return self._events[receiver]

    def set(self, receivers: Iterable[str]) -> None:
        """These receivers have something new."""
        for receiver in receivers:
            self._events[receiver].set()


class Ingest:
    """Takes in what checks saw. After every commit `queued` says which receivers have something new."""

    def __init__(
        self,
        store: Store,
        plan: AlertPlan,
        clock: Clock,
        *,
        redactor: Redactor | None = None,
        zone: tzinfo | None = None,
        on_change: Callable[[Incident, TransitionKind], None] = lambda _incident, _change: None,
    ) -> None:
        """Take over what `store` holds. `zone` is for the times in messages (None: the machine's).

        `on_change` is called with every change of an incident, once it is written.
        """
        self._store = store
        self._clock = clock
        self._incidents = Incidents(plan, redactor=redactor or Redactor(()), zone=zone, depth=store.depth)
        self._incidents.load(*store.loaded(), store.last_incident_id())
        storage = self._incidents.tracks.get(STORAGE_KEY)
        self._storage_reported = storage is not None and storage.is_open
        self._full: set[str] = set()
        self._untaken: dict[str, tuple[Observation, ...]] = {}
        self._tidied_at = self._mended_at = clock.monotonic()
        self._unproven: list[tuple[float, float]] = []
        self._on_change = on_change
        self.queued = QueueEvents()
        self.check_clock: Callable[[], Awaitable[None]] | None = None
        """Follows a clock that was set meanwhile; awaited before anything is sent or given up for its age."""

    @property
    def plan(self) -> AlertPlan:
        return self._incidents.plan

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """The incidents open now, oldest first."""
        return tuple(sorted(self._incidents.open.values(), key=lambda incident: incident.id))

    async def start(self) -> None:
        """Once before the first observation: read silences, close what left the plan, report a repaired database."""
        await self._follow_operator_requests(self._clock.wall())
        unset_at = self._incidents.latest_before(NO_CLOCK_BEFORE)
        if unset_at is not None and self._clock.wall() >= NO_CLOCK_BEFORE:
            await self.follow_clock(self._clock.wall() - unset_at, NO_CLOCK_BEFORE)
        await self.replan(self._incidents.plan)
        aside = self._store.set_aside
        if aside is not None:
            now = self._clock.wall()
            found = own_observation(
                f"{STORAGE_KEY}/corrupt",
                Verdict.FAIL,
                "corrupt",
                f"the state database was damaged; it was renamed to {aside.name} and a new one was created",
                now,
                advice="The history up to now is only in that file. A damaged file often means a failing disk.",
            )
            await self._observe(replace(found, nature=Nature.OCCURRENCE), now)
        await self._report_storage()

    async def take(self, check_key: str, result: CheckResult) -> None:
        """Take in what one run of the check `check_key` saw, in one transaction together with what it remembers.

        Returns once that is committed (an observation that changes nothing is written within a second). A disk that
        fails does not matter here: the alert goes out from memory. An observation that cannot be taken fails alone: it
        is logged, told as `self/check/…` in the same transaction, and tried again with every later result.
        """
        now = self._clock.wall()
        work = UnitOfWork()
        observations = (*self._untaken.get(check_key, ()), *result.observations)
        if check_key in self._untaken:  # a good run does not resolve what is still untold
            observations = tuple(seen for seen in observations if seen.key != CHECK.key(check_key))
        self._incidents.observe(observations, now, work)
        self._tell_untaken(check_key, now, work)
        memory = None if result.memory is None else (check_key, result.memory)
        await self._write(work, memory=memory, forgettable=result.forgettable)
        await self._report_storage()

    def _tell_untaken(self, check_key: str, now: float, work: UnitOfWork) -> None:
        """Report what of a result could not be taken in, and that all of it is told now."""
        untaken, before = work.untaken, self._untaken.pop(check_key, ())
        kept = tuple(seen for seen, _ in untaken if seen.nature is Nature.OCCURRENCE)[-_UNTAKEN_LIMIT:]
        if kept:  # a condition is seen anew by the next run
            self._untaken[check_key] = kept
        for seen, error in untaken:
            _log.error("an observation could not be taken", check=check_key, seen=bounded_repr(seen), exc_info=error)
        if untaken or before:
            self._incidents.observe((untaken_observation(check_key, untaken, now),), now, work)

    async def tick(self, now: float | None = None, *, aging: bool = True) -> None:
        """Let time pass: call it every few seconds. `now` is Unix seconds (None: the clock's).

        Without `aging` nothing is sent because of time: right after a sleep the next look tells more than the clock.
        """
        at = self._clock.wall() if now is None else now
        await self._follow_operator_requests(at)
        work = UnitOfWork()
        if aging:
            self._incidents.age(at, work)
        await self._write(work)
        await self._maintain_store(at)
        await self._report_storage()

    async def follow_clock(self, step_s: float, set_at: float) -> None:
        """Our clock was set by `step_s` seconds when it said `set_at`: what is open or queued moves along.

        What a clock says that was set forward is not believed for a day: a wrong one must not delete the history.
        """
        if step_s > 0:
            self._unproven.append((self._clock.elapsed() + PROVEN_AFTER_S, step_s))
        work = UnitOfWork()
        self._incidents.follow_clock(step_s, set_at, work)  # before anything that may be decided meanwhile
        await self._store.follow_clock(step_s, set_at)
        await self._write(work)

    async def replan(self, plan: AlertPlan, redactor: Redactor | None = None) -> None:
        """Follow a new configuration: what it does not watch any more is closed, and transition so."""
        now = self._clock.wall()
        self._incidents.plan = plan
        if redactor is not None:
            self._incidents.redactor = redactor
        work = UnitOfWork()
        self._incidents.retire(now, work)
        await self._write(work)
        dropped = await self._store.forget_receivers((receiver.name for receiver in plan.receivers), now)
        if dropped:
            _log.warning("messages dropped: their receiver is no longer configured", count=dropped)

    def stand_by(self, standby: Standby | None) -> None:
        """Whether the first watchdog is alive (None: standby is not configured), for what is decided from now on."""
        self._incidents.standby = standby

    async def use_fallback(self, delivery: Delivery, fallback: str) -> None:
        """`delivery` keeps failing: notify `fallback` of its incident instead, once."""
        if delivery.incident is None or not delivery.kind.is_trigger:
            return
        now = self._clock.wall()
        work = UnitOfWork()
        self._incidents.notify_fallback(delivery.incident, fallback, delivery.receiver, now, work)
        await self._write(work)

    async def delivery_failing(self, receiver: str, detail: str, *, failing: bool) -> None:
        """A receiver has been failing for long, or works again: an incident of our own, sent to the others."""
        summary = f"cannot be reached: {detail}" if failing else "works again"
        verdict = Verdict.FAIL if failing else Verdict.PASS
        key = DELIVERY.key(receiver)
        if not failing and key not in self._incidents.tracks:
            return
        advice = "Messages for it are kept and retried for days; other receivers are not affected."
        await self._observe_self(key, verdict, "undeliverable", summary, advice=advice, receiver=receiver)

    async def report_refused(self, delivery: Delivery, detail: str) -> None:
        """A receiver will never take a message as it is: tell the others at once, with what the service said."""
        await self._tell_of_delivery(delivery, "refused", f"refuses a message: {detail} (“{delivery.title}”)")

    async def report_abandoned(self, delivery: Delivery) -> None:
        """A message could not be delivered in all the time we try: tell the other receivers."""
        await self._tell_of_delivery(
            delivery, "gave_up", f"gave up on “{delivery.title}” after {delivery.attempt} attempts"
        )

    async def _tell_of_delivery(self, delivery: Delivery, reason: str, summary: str) -> None:
        found = own_observation(
            DELIVERY.key(f"{delivery.receiver}/{reason}"),
            Verdict.FAIL,
            reason,
            summary,
            self._clock.wall(),
            advice="Correct the receiver's address, token or topic; then `inference-watchdog test-alert`.",
            subject=delivery.receiver,
            labels={"receiver": delivery.receiver},
        )
        await self._observe(replace(found, nature=Nature.OCCURRENCE), self._clock.wall())

    def next_probe(self, server: str, settings: ProbeSettings) -> NextProbe | None:
        """When to probe a failing server again, by what is known of it now; None: at its regular time."""
        return self._incidents.next_probe(server, settings, self._clock.wall())

    async def keep_next_probe(self, server: str, coming: NextProbe) -> None:
        """Keep for `status` when a failing server is probed again, and why; log it where that changed."""
        key, now = GENERATION.key(server), self._clock.wall()
        seen, state = self._incidents.newest(key), self._incidents.tracks.get(key)
        if seen is None or state is None:
            return
        due_at = None if coming.wait_s is None else now + coming.wait_s
        kept: dict[str, Json] = self._store.memory(NEXT_PROBES) or {}
        before = kept.get(key)
        if before is not None and before["after"] == seen.at:
            due_at = min((at for at in (before["at"], due_at) if at is not None), default=None)
        row = {"after": seen.at, "at": due_at, "why": coming.why.value, "timeout_s": coming.timeout_s}
        if row == before:
            return
        since = seen.at if state.since is None else state.since
        _log.info(
            "next_probe", check=key, in_s=None if due_at is None else round(max(0.0, due_at - now), 1),
            why=coming.why.value, reason=seen.reason, failing_for_s=round(max(0.0, now - since), 1),
            timeout_s=coming.timeout_s,
        )  # fmt: skip
        kept = {one: told for one, told in kept.items() if self._incidents.is_pending(one)} | {key: row}
        await self._write(UnitOfWork(), (NEXT_PROBES, kept), forgettable=True)

    def hangs(self, server: str, since: float) -> bool:
        """Whether its hosts have shown since `since` (Unix seconds) that a server hangs."""
        return self._incidents.hangs(server, since)

    async def acknowledge(self, incident_id: str, now: float, reason: str, author: str) -> None:
        """Do as the `ack` command does. Raises `StoreError` if the incident is not open."""
        await self._store.request(lambda ask: ask.acknowledge(incident_id, now, reason, author))
        await self._follow_operator_requests(now)

    async def test_alert(self, receivers: Iterable[str] | None = None, *, sent_from: str = "") -> SentTestAlert:
        """Queue a trigger and its end in the real outbox, for `receivers` (None: all of them).

        `Outbox.settled` says what becomes of it.
        """
        names = [receiver.name for receiver in self.plan.receivers] if receivers is None else list(receivers)
        now = self._clock.wall()
        work = UnitOfWork()
        test = SentTestAlert(self._incidents.new_id(now), tuple(names))
        work.messages += test_alert_messages(test, now, sent_from)
        await self._write(work)
        return test

    async def _observe(self, observation: Observation, now: float) -> None:
        work = UnitOfWork()
        self._incidents.observe((observation,), now, work)
        await self._write(work)

    async def _observe_self(
        self,
        key: str,
        verdict: Verdict,
        reason: str,
        summary: str,
        *,
        advice: str = "",
        receiver: str = "",
    ) -> None:
        now = self._clock.wall()
        labels = {"receiver": receiver} if receiver else {}
        observation = own_observation(
            key, verdict, reason, summary, now, advice=advice, subject=receiver, labels=labels
        )
        await self._observe(observation, now)

    async def _write(
        self, work: UnitOfWork, memory: tuple[str, Json] | None = None, *, forgettable: bool = False
    ) -> None:
        """Commit `work`, wake the receivers that have something new, log the decisions, report a full outbox."""
        commit = work.commit(memory, forgettable=forgettable)
        work.seal()
        if commit.can_wait:
            if commit.observations or commit.tracks or commit.memory is not None:
                self._store.note(commit)
        else:
            try:
                await self._store.commit(commit)
            except StoreError as error:
                # Something in it cannot be stored at all. The alert must go out even so; then the caller hears of it.
                try:
                    await self._store.commit(replace(commit, observations=(), memory=None))
                except StoreError:
                    work.roll_back()
                    raise
                raise NotRememberedError(str(error)) from error
            finally:
                self.queued.set(work.receivers)
        log_decisions(work)
        for incident, transition, _decision in work.decisions:
            if transition is not None:
                self._on_change(incident, transition.kind)
        overflowing = work.full - self._full
        self._full |= work.full
        for receiver in overflowing:
            await self._report_full(receiver, full=True)

    async def _report_full(self, receiver: str, *, full: bool) -> None:
        waiting = self._store.depth(receiver)
        summary = f"{waiting} messages queued; queue full" if full else "the queue has room again"
        await self._observe_self(
            DELIVERY.key(f"{receiver}/full"),
            Verdict.FAIL if full else Verdict.PASS,
            "outbox_full",
            summary,
            advice="It is notified of new incidents once there is room, if they are still open then.",
            receiver=receiver,
        )

    async def _report_storage(self) -> None:
        """Report once that the disk fails, and once that it works again."""
        trouble = self._store.trouble
        if (trouble is not None) == self._storage_reported:
            return
        self._storage_reported = trouble is not None
        if trouble is None:
            await self._observe_self(STORAGE_KEY, Verdict.PASS, "ok", "the state is on the disk again")
        else:
            await self._observe_self(
                STORAGE_KEY,
                Verdict.FAIL,
                "storage",
                f"the state cannot be written to disk ({trouble.text}); it is kept in memory",
                advice="Watching and alerting continue. What is only in memory is lost if inference-watchdog stops: "
                "free some space or repair the disk first.",
            )

    async def _follow_operator_requests(self, now: float) -> None:
        """Follow what commands have asked for: silences, acknowledgements, test alerts."""
        asked = await self._store.operator_requests(now)
        if asked is not None:
            self._incidents.silences = asked.silences
            self._incidents.acknowledge(asked.acknowledged)
            self.queued.set(asked.receivers)

    async def _maintain_store(self, now: float) -> None:
        """Bring the state back to the disk if it can be, delete what is too old, notice room in full outboxes."""
        elapsed = self._clock.monotonic()
        if await self._store.leave_lost_files():
            _log.error("state_lost", advice="Its files were deleted or moved; they will be written again from memory.")
            self._mended_at = elapsed  # it is told before it is mended
        if self._store.trouble is not None and elapsed - self._mended_at >= _MEND_EVERY_S:
            self._mended_at = elapsed
            await self._store.mend(now)
        if elapsed - self._tidied_at >= _TIDY_EVERY_S:
            self._unproven = [(until, step_s) for until, step_s in self._unproven if until > self._clock.elapsed()]
            proven = now - sum(step_s for _, step_s in self._unproven)
            more = await self._store.tidy(proven, KEEP_OBSERVATIONS_S, KEEP_INCIDENTS_S)
            self._tidied_at = elapsed - _TIDY_EVERY_S if more else elapsed
        for receiver in [name for name in self._full if self._store.depth(name) < OUTBOX_LIMIT // 2]:
            self._full.discard(receiver)
            await self._report_full(receiver, full=False)
