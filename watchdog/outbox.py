"""Delivers what is queued: lease, send, acknowledge; one task per receiver, so that none ever waits for another.

A crash at any line loses nothing: what was leased is sent again after the next start, with a higher attempt.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo

import structlog

from watchdog.clock import Clock, sleep_or_event
from watchdog.config import ReceiverSettings
from watchdog.ingest import Ingest
from watchdog.message import finish, finish_group
from watchdog.model import Delivery, Outcome
from watchdog.notify import Receiver
from watchdog.policy import GATHER_S, pause_s, permanent_row_pause_s, refused_row_pause_s, row_pause_s
from watchdog.store import DeliveryView, Store

_log = structlog.get_logger(__name__)
GRACE_S = 3.0
"""How long a send may go on when we are told to stop."""
_LONG_S = 300.0
_LONG_FAILURES = 5
"""A receiver that failed at least so often, for at least so long, becomes an incident of our own."""
_AFTER_REFUSAL_S = 1.0
"""After a refused message the next one is tried this much later."""
_BACK_AFTER = 2
"""A success after so many failures in a row means that the receiver is back: everything queued is due now."""


@dataclass(slots=True)
class _Line:
    """One receiver and how its deliveries go. Times are monotonic seconds."""

    receiver: Receiver
    settings: ReceiverSettings
    queued: asyncio.Event
    failures: int = 0
    failing_since: float = 0.0
    resume_at: float = 0.0
    detail: str = ""
    sent_at: dict[Hashable, float] = field(default_factory=dict)
    """When (Unix seconds) the last message with each share key left."""
    refusals: dict[int, int] = field(default_factory=dict)
    """How often a row was refused since we started: attempts count also what a crash cut off."""

    def note_refused(self, row: int) -> int:
        """Count a refusal of this row; returns the number."""
        self.refusals[row] = self.refusals.get(row, 0) + 1
        return self.refusals[row]

    def note_sent(self, share_key: Hashable | None, now: float) -> None:
        """A message leaves; those of long ago hold nothing back any more."""
        self.sent_at = {key: at for key, at in self.sent_at.items() if 0 <= now - at < GATHER_S}
        if share_key is not None:
            self.sent_at[share_key] = now


class Outbox:
    """Works off the outbox of every receiver until it is cancelled."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        receivers: Mapping[str, Receiver],
        clock: Clock,
        *,
        zone: tzinfo | None = None,
        chance: Callable[[], float] = random.random,
        attempted: Callable[[Delivery, Outcome], None] = lambda _delivery, _outcome: None,
    ) -> None:
        """Deliver to `receivers` (by name, each of them in the plan of `ingest`) what `ingest` queues.

        `chance` gives numbers from 0 to 1 for the jitter of pauses; `zone` is for times in messages; `attempted` is
        called with every attempt and its outcome.
        """
        self._store = store
        self._ingest = ingest
        self._clock = clock
        self._zone = zone
        self._chance = chance
        self._attempted = attempted
        settings = {row.name: row for row in ingest.plan.receivers}
        self._lines = {
            name: _Line(receiver, settings[name], ingest.queued.of(name)) for name, receiver in receivers.items()
        }
        self._expire_s = ingest.plan.alerting.expire_delivery_s
        self._progress = asyncio.Condition()
        self._stopping = False

    async def run(self) -> None:
        """Deliver until cancelled. A send that is on its way then has three seconds to end, never longer.

        Raises what a task of ours raises by mistake; the rows are safe then.
        """
        self._stopping = False
        tasks = [asyncio.create_task(self._serve(line), name=f"outbox-{name}") for name, line in self._lines.items()]
        keepers = [
            asyncio.create_task(self._keep_fresh(line.receiver, line.receiver.refresh_s), name=f"refresh-{name}")
            for name, line in self._lines.items()
            if line.receiver.refresh_s is not None
        ]
        idle = asyncio.create_task(asyncio.Event().wait(), name="outbox-idle")  # without any receiver we still go on
        try:
            done, _running = await asyncio.wait([*tasks, *keepers, idle], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._stopping = True
            for task in (*keepers, idle):
                task.cancel()
            await self._wind_down(tasks)
            await asyncio.gather(*keepers, idle, return_exceptions=True)
            for line in self._lines.values():
                await line.receiver.close()

    async def _wind_down(self, tasks: list[asyncio.Task[None]]) -> None:
        for line in self._lines.values():
            line.queued.set()
        if tasks:
            _done, running = await asyncio.wait(tasks, timeout=GRACE_S)
            for task in running:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def settled(self, incident_id: str, timeout_s: float) -> tuple[DeliveryView, ...]:
        """The messages of one incident (or test alert), once all are delivered or given up, or after `timeout_s`."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            views = await self._store.read_in_turn(lambda reader: reader.deliveries(incident_id))
            left_s = deadline - self._clock.monotonic()
            if all(view.is_done for view in views) or left_s <= 0:
                return views
            await self._wait_for_progress(left_s)

    async def _wait_for_progress(self, left_s: float) -> None:
        async with self._progress:
            waiting = asyncio.ensure_future(self._progress.wait())
            try:
                await asyncio.wait_for(waiting, left_s)
            except TimeoutError:
                return

    async def _serve(self, line: _Line) -> None:
        """Work off one receiver's rows, in order."""
        name = line.receiver.name
        left = await self._store.release(name)
        if left:
            _log.warning("resuming messages whose sending was interrupted", receiver=name, count=left)
        while not self._stopping:
            if not await self._rested(line):
                return
            line.queued.clear()
            if self._ingest.check_clock is not None:
                await self._ingest.check_clock()
            lease = await self._store.lease(
                name, self._clock.wall(), self._expire_s, line.receiver.grouping, line.sent_at
            )
            for delivery in lease.gave_up:
                line.refusals.pop(delivery.row, None)
                _log.error(
                    "gave up on a message", receiver=name, incident=delivery.incident_id, kind=delivery.kind.value
                )
                await self._ingest.report_abandoned(delivery)
            if lease.delivery is not None:
                line.note_sent(lease.share_key, self._clock.wall())
                await self._attempt(line, lease.delivery)
            elif lease.next_due_at is None:
                await line.queued.wait()
            else:
                await self._wait(line, lease.next_due_at - self._clock.wall())

    async def _rested(self, line: _Line) -> bool:
        """Let a receiver that failed rest; new messages do not cut that short, only our stopping does: then False."""
        while not self._stopping and (left_s := line.resume_at - self._clock.monotonic()) > 0:
            line.queued.clear()
            await self._wait(line, left_s)
        return not self._stopping

    async def _wait(self, line: _Line, left_s: float) -> None:
        """Wait for `left_s` or for news, and judge meanwhile: pauses grow long, so no attempt may be near."""
        long_in_s = line.failing_since + _LONG_S - self._clock.monotonic()
        if line.failures < _LONG_FAILURES or not 0 < long_in_s < left_s:
            await sleep_or_event(self._clock, left_s, line.queued)
            return
        await sleep_or_event(self._clock, long_in_s, line.queued)
        if self._clock.monotonic() >= line.failing_since + _LONG_S:
            await self._ingest.delivery_failing(line.receiver.name, line.detail, failing=True)

    async def _attempt(self, line: _Line, delivery: Delivery) -> None:
        """Send one message and write down what became of it."""
        now = self._clock.wall()
        ended_at = delivery.incident.closed_at if delivery.incident is not None else None
        if delivery.members:
            text = finish_group(delivery, now=now, zone=self._zone)
        else:
            text = finish(delivery, now=now, zone=self._zone, ended_at=ended_at)
        began = self._clock.monotonic()
        outcome = await line.receiver.send(delivery, text, now)
        outcome = replace(outcome, duration_s=self._clock.monotonic() - began)
        self._attempted(delivery, outcome)
        if outcome.delivered:
            await self._arrived(line, delivery, outcome)
        else:
            await self._failed(line, delivery, outcome)
        async with self._progress:
            self._progress.notify_all()

    async def _arrived(self, line: _Line, delivery: Delivery, outcome: Outcome) -> None:
        retry_now = line.failures >= _BACK_AFTER
        line.failures, line.resume_at = 0, 0.0
        line.refusals.pop(delivery.row, None)
        await self._store.acknowledge(
            delivery, outcome, self._clock.wall(), retry_now=retry_now, address=line.settings.address_hash
        )
        _log.info(
            "delivered",
            receiver=delivery.receiver,
            incident=delivery.incident_id,
            kind=delivery.kind.value,
            incidents=len(delivery.each),
            attempt=delivery.attempt,
            duration_s=round(outcome.duration_s, 3),
        )
        await self._ingest.delivery_failing(delivery.receiver, "", failing=False)

    async def _failed(self, line: _Line, delivery: Delivery, outcome: Outcome) -> None:
        now, elapsed = self._clock.wall(), self._clock.monotonic()
        line.failures += 1
        line.detail = outcome.detail
        if line.failures == 1:
            line.failing_since = elapsed
        if outcome.permanent and not outcome.retry_after_s:
            await self._refused_for_good(line, delivery, outcome)
            return
        if outcome.retry_after_s:
            pause = rest_s = outcome.retry_after_s
        elif outcome.answered:
            # The receiver is there and takes other messages: only this one waits.
            pause = refused_row_pause_s(line.note_refused(delivery.row), self._chance())
            rest_s = _AFTER_REFUSAL_S
        else:
            rest_s = pause_s(line.failures, self._chance())
            pause = row_pause_s(delivery.attempt, rest_s)
        line.resume_at = elapsed + rest_s
        due_at = now + pause
        await self._store.postpone(delivery, outcome, due_at, now)
        _log_failure("could not deliver", delivery, outcome, pause)
        if line.settings.fallback and delivery.attempt >= line.settings.fallback_after:
            await self._use_fallback(delivery, line.settings.fallback)
        if line.failures >= _LONG_FAILURES and elapsed - line.failing_since >= _LONG_S:
            await self._ingest.delivery_failing(delivery.receiver, outcome.detail, failing=True)

    async def _refused_for_good(self, line: _Line, delivery: Delivery, outcome: Outcome) -> None:
        """The receiver will never take this as it is: others hear of it at once, and it is not tried for long."""
        now = self._clock.wall()
        line.resume_at = self._clock.monotonic() + _AFTER_REFUSAL_S
        pause = permanent_row_pause_s(delivery.attempt, self._chance())
        _log_failure("refused for good", delivery, outcome, pause)
        if pause is None:
            await self._store.abandon(delivery, outcome, now)
            await self._ingest.report_abandoned(delivery)
            return
        await self._store.postpone(delivery, outcome, now + pause, now)
        if delivery.attempt == 1:
            await self._ingest.report_refused(delivery, outcome.detail)
            if line.settings.fallback:
                await self._use_fallback(delivery, line.settings.fallback)

    async def _use_fallback(self, delivery: Delivery, fallback: str) -> None:
        for member in delivery.each:
            await self._ingest.use_fallback(member, fallback)

    async def _keep_fresh(self, receiver: Receiver, every_s: float | None) -> None:
        """Refresh what is still firing at a receiver that needs it."""
        was_delivered = True
        while every_s is not None:
            firing = await self._store.firing_at(receiver.name)
            if firing:
                outcome = await receiver.refresh(firing, self._clock.wall())
                if outcome.delivered is not was_delivered:
                    was_delivered = outcome.delivered
                    _log.warning(
                        "refresh changed", receiver=receiver.name, delivered=was_delivered, detail=outcome.detail
                    )
            await self._clock.sleep(every_s)


def _log_failure(event: str, delivery: Delivery, outcome: Outcome, next_try_s: float | None) -> None:
    """One line about a failed attempt; `next_try_s` is None where there is no next one."""
    _log.warning(
        event,
        receiver=delivery.receiver,
        incident=delivery.incident_id,
        kind=delivery.kind.value,
        attempt=delivery.attempt,
        reason=outcome.reason.value,
        detail=outcome.detail,
        next_try_s=None if next_try_s is None else round(next_try_s, 1),
    )
