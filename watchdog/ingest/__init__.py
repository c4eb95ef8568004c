"""The one road from an observation to an alert: tracker, policy, message, and one transaction of the store.

Nobody else calls those three. Time takes the same road (`tick`), and so do the watchdog's own troubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import tzinfo

import structlog

from watchdog.clock import Clock
from watchdog.errors import StoreError
from watchdog.ingest.incidents import Board, Draft
from watchdog.ingest.self_report import Rehearsal, log_decisions, own_observation, rehearsal_messages
from watchdog.kinds import DELIVERY, STORAGE
from watchdog.message import Redactor
from watchdog.model import CheckResult, Delivery, Incident, Json, Nature, Observation, TransitionKind, Verdict
from watchdog.policy import OUTBOX_LIMIT, AlertPlan, Standby
from watchdog.store import Store

__all__ = ["Ingest", "Rehearsal"]

_log = structlog.get_logger(__name__)
STORAGE_KEY = STORAGE.key()
"""Our own trouble with the disk."""
KEEP_OBSERVATIONS_S = 30 * 86400.0
KEEP_INCIDENTS_S = 400 * 86400.0
_TIDY_EVERY_S = 600.0
_MEND_EVERY_S = 30.0


class Ingest:
    """Takes in what checks saw. After every commit `wake(receivers)` is called for those who have something new."""

    def __init__(
        self,
        store: Store,
        plan: AlertPlan,
        clock: Clock,
        *,
        redactor: Redactor | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        """Take over what `store` holds. `zone` is for the times in messages (None: the machine's)."""
        self._store = store
        self._clock = clock
        self._board = Board(plan, redactor=redactor or Redactor(()), zone=zone, depth=store.depth)
        self._board.load(*store.loaded(), store.last_incident_id())
        storage = self._board.tracks.get(STORAGE_KEY)
        self._storage_told = storage is not None and storage.is_open
        self._full: set[str] = set()
        self._tidied_at = self._mended_at = clock.monotonic()
        self.wake: Callable[[Iterable[str]], None] = lambda _receivers: None
        self.noticed: Callable[[Incident, TransitionKind], None] = lambda _incident, _change: None
        """Hears of every change of an incident, once it is written."""

    @property
    def plan(self) -> AlertPlan:
        """The plan in force."""
        return self._board.plan

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """The incidents open now, oldest first."""
        return tuple(sorted(self._board.open.values(), key=lambda incident: incident.id))

    async def start(self) -> None:
        """Once before the first observation: read silences, close what left the plan, tell of a repaired database."""
        await self._follow_operator_requests(self._clock.wall())
        await self.replan(self._board.plan)
        aside = self._store.set_aside
        if aside is not None:
            now = self._clock.wall()
            found = own_observation(
                f"{STORAGE_KEY}/corrupt",
                Verdict.FAIL,
                "corrupt",
                f"the state database was damaged; it was set aside as {aside.name} and a new one begun",
                now,
                advice="History before this moment is only in that file. A damaged file often means a failing disk.",
            )
            await self._observe(replace(found, nature=Nature.OCCURRENCE), now)
        await self._tell_storage()

    async def take(self, check_key: str, result: CheckResult) -> None:
        """Take in what one run of the check `check_key` saw, in one transaction together with what it remembers.

        Returns once that is committed (an observation that changes nothing is written within a second). A disk that
        fails does not matter here: the alert goes out from memory.
        """
        now = self._clock.wall()
        draft = Draft()
        self._board.observe(result.observations, now, draft)
        memory = None if result.memory is None else (check_key, result.memory)
        await self._write(draft, memory=memory, forgettable=result.forgettable)
        await self._tell_storage()

    async def tick(self, now: float | None = None, *, aging: bool = True) -> None:
        """Let time pass: call it every few seconds. `now` is Unix seconds (None: the clock's).

        Without `aging` nothing is said because of time: right after a sleep the next look tells more than the clock.
        """
        at = self._clock.wall() if now is None else now
        await self._follow_operator_requests(at)
        draft = Draft()
        if aging:
            self._board.age(at, draft)
        await self._write(draft)
        await self._keep_house(at)
        await self._tell_storage()

    async def replan(self, plan: AlertPlan, redactor: Redactor | None = None) -> None:
        """Follow a new configuration: what it does not watch any more is closed, and said so."""
        now = self._clock.wall()
        self._board.plan = plan
        if redactor is not None:
            self._board.redactor = redactor
        draft = Draft()
        self._board.retire(now, draft)
        await self._write(draft)
        dropped = await self._store.forget_receivers((receiver.name for receiver in plan.receivers), now)
        if dropped:
            _log.warning("messages dropped: their receiver is not in the configuration any more", count=dropped)

    def stand_by(self, standby: Standby | None) -> None:
        """How a first watchdog is that we stand by for (None: we stand by for nobody). Counts from the next look on."""
        self._board.standby = standby

    async def fell_back(self, delivery: Delivery, fallback: str) -> None:
        """`delivery` keeps failing: tell `fallback` about its incident instead. Says nothing twice."""
        if delivery.incident is None or not delivery.kind.is_trigger:
            return
        now = self._clock.wall()
        draft = Draft()
        self._board.fall_back(delivery.incident, fallback, delivery.receiver, now, draft)
        await self._write(draft)

    async def delivery_failing(self, receiver: str, detail: str, *, failing: bool) -> None:
        """A receiver has been failing for long, or works again: an incident of our own, told to the others."""
        summary = f"{receiver} cannot be reached: {detail}" if failing else f"{receiver} works again"
        verdict = Verdict.FAIL if failing else Verdict.PASS
        key = DELIVERY.key(receiver)
        if not failing and key not in self._board.tracks:
            return
        advice = "Messages for it are kept and tried again for days; the others get theirs at once."
        await self._own(key, verdict, "undeliverable", summary, advice=advice, labels={"receiver": receiver})

    async def gave_up(self, delivery: Delivery) -> None:
        """A message could not be delivered in all the time we try: tell the others."""
        found = own_observation(
            DELIVERY.key(f"{delivery.receiver}/gave_up"),
            Verdict.FAIL,
            "gave_up",
            f"{delivery.receiver}: gave up on “{delivery.title}” after {delivery.attempt} attempts",
            self._clock.wall(),
            labels={"receiver": delivery.receiver},
        )
        await self._observe(replace(found, nature=Nature.OCCURRENCE), self._clock.wall())

    async def test_alert(self, receivers: Iterable[str] | None = None, *, sent_from: str = "") -> Rehearsal:
        """Put a trigger and its end through the real outbox, for `receivers` (None: every one).

        `Outbox.settled` says what becomes of it.
        """
        names = [receiver.name for receiver in self.plan.receivers] if receivers is None else list(receivers)
        now = self._clock.wall()
        draft = Draft()
        test = Rehearsal(self._board.new_id(now), tuple(names))
        draft.messages += rehearsal_messages(test, now, sent_from)
        await self._write(draft)
        return test

    async def _observe(self, observation: Observation, now: float) -> None:
        draft = Draft()
        self._board.observe((observation,), now, draft)
        await self._write(draft)

    async def _own(
        self,
        key: str,
        verdict: Verdict,
        reason: str,
        summary: str,
        *,
        advice: str = "",
        labels: dict[str, str] | None = None,
    ) -> None:
        now = self._clock.wall()
        observation = own_observation(key, verdict, reason, summary, now, advice=advice, labels=labels)
        await self._observe(observation, now)

    async def _write(self, draft: Draft, memory: tuple[str, Json] | None = None, *, forgettable: bool = False) -> None:
        """Commit a draft, wake who has something new, log what was said, tell of a full outbox."""
        commit = draft.commit(memory, forgettable=forgettable)
        if commit.can_wait:
            if commit.observations or commit.tracks or commit.memory is not None:
                self._store.note(commit)
        else:
            try:
                await self._store.commit(commit)
            except StoreError:
                # Something in it cannot be stored at all. The alert must go out even so; then let it be known.
                await self._store.commit(replace(commit, observations=(), memory=None))
                raise
            finally:
                self.wake(draft.receivers)
        log_decisions(draft)
        for incident, said, _decision in draft.decisions:
            if said is not None:
                self.noticed(incident, said.kind)
        overflowing = draft.full - self._full
        self._full |= draft.full
        for receiver in overflowing:
            await self._tell_full(receiver, full=True)

    async def _tell_full(self, receiver: str, *, full: bool) -> None:
        waiting = self._store.depth(receiver)
        summary = (
            f"{receiver}: {waiting} messages wait, no more are taken" if full else f"{receiver}: there is room again"
        )
        await self._own(
            DELIVERY.key(f"{receiver}/full"),
            Verdict.FAIL if full else Verdict.PASS,
            "outbox_full",
            summary,
            advice="New incidents are told to it once there is room, if they are still open then.",
            labels={"receiver": receiver},
        )

    async def _tell_storage(self) -> None:
        """Say once that the disk fails, and once that it works again."""
        trouble = self._store.trouble
        if (trouble is not None) == self._storage_told:
            return
        self._storage_told = trouble is not None
        if trouble is None:
            await self._own(STORAGE_KEY, Verdict.PASS, "ok", "the state is on the disk again")
        else:
            await self._own(
                STORAGE_KEY,
                Verdict.FAIL,
                "storage",
                f"the state cannot be written to the disk ({trouble.text}); it is kept in memory",
                advice="Watching and alerting go on. What is only in memory is lost if inference-watchdog stops: "
                "free some space or repair the disk first.",
            )

    async def _follow_operator_requests(self, now: float) -> None:
        """Follow what commands asked for beside us: silences, acknowledgements, test alerts."""
        asked = await self._store.operator_requests(now)
        if asked is not None:
            self._board.silences = asked.silences
            self._board.acknowledge(asked.acknowledged)
            self.wake(asked.receivers)

    async def _keep_house(self, now: float) -> None:
        """Bring the state back to the disk if it can be, delete what is too old, notice room in full outboxes."""
        elapsed = self._clock.monotonic()
        if self._store.trouble is not None and elapsed - self._mended_at >= _MEND_EVERY_S:
            self._mended_at = elapsed
            await self._store.mend(now)
        if elapsed - self._tidied_at >= _TIDY_EVERY_S:
            more = await self._store.tidy(now, KEEP_OBSERVATIONS_S, KEEP_INCIDENTS_S)
            self._tidied_at = elapsed - _TIDY_EVERY_S if more else elapsed
        for receiver in [name for name in self._full if self._store.depth(name) < OUTBOX_LIMIT // 2]:
            self._full.discard(receiver)
            await self._tell_full(receiver, full=False)
