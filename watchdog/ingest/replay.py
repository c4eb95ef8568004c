"""Observations of the past through the real board: the same tracker, policy and message, no store and no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from watchdog.config import ReceiverSettings, Secret
from watchdog.ingest.board import Board, Draft
from watchdog.ingest.recording import Recording
from watchdog.message import Redactor
from watchdog.model import Incident, NotificationKind, Observation, Phase, Severity, Thresholds
from watchdog.policy import AlertPlan, Target

TICK_S = 60.0
"""How closely time is followed while something is open: reminders and quiet occurrences come to the minute."""
MOST_TICKS = 60 * 24 * 400


@dataclass(frozen=True, slots=True)
class Played:
    """One message that would have been sent. `when` is its time as a person reads it."""

    at: float
    when: str
    receiver: str
    kind: NotificationKind
    severity: Severity
    incident_id: str
    key: str
    title: str
    body: str


def default_plan(recording: Recording) -> AlertPlan:
    """Default thresholds for everything in `recording`, and one receiver that hears of it from `warn` up."""
    prefixes = dict.fromkeys("/".join(seen.key.split("/")[:2]) for seen in recording.observations)
    return AlertPlan(
        targets=tuple(Target(prefix, Thresholds(), ("you",)) for prefix in prefixes),
        receivers=(ReceiverSettings(name="you", url=Secret("")),),
    )


def with_thresholds(plan: AlertPlan, failures: int | None, successes: int | None) -> AlertPlan:
    """`plan` with other thresholds for every target, where given."""

    def changed(old: Thresholds) -> Thresholds:
        return replace(old, failures=failures or old.failures, successes=successes or old.successes)

    return replace(plan, targets=tuple(replace(one, thresholds=changed(one.thresholds)) for one in plan.targets))


class Replay:
    """Play observations in time order; each call returns what would have been sent until then."""

    def __init__(self, plan: AlertPlan, *, has_dates: bool = True, zone: tzinfo | None = None) -> None:
        """By `plan`; times are shown in `zone` (None: the machine's), without their date if the recording has none."""
        self._plan = plan
        self._has_dates = has_dates
        self._zone = zone if has_dates else UTC
        self._board = Board(plan, redactor=Redactor(()), zone=self._zone, depth=lambda _receiver: 0)
        self._now: float | None = None
        self._keys: dict[str, str] = {}
        self.told = 0
        """How many messages there were so far."""

    def play(self, seen: Observation) -> tuple[Played, ...]:
        """Let time pass to `seen`, then take it in."""
        began = self._now if self._now is not None else seen.at
        passed = self._pass(began, seen.at)
        self._now = max(seen.at, began)
        draft = Draft()
        self._board.observe((seen,), self._now, draft)
        return (*passed, *self._said(draft, self._now))

    def pass_time(self, seconds: float) -> tuple[Played, ...]:
        """Let time pass without any observation."""
        if self._now is None or seconds <= 0:
            return ()
        until = self._now + seconds
        passed = self._pass(self._now, until)
        self._now = until
        return passed

    def _pass(self, since: float, until: float) -> tuple[Played, ...]:
        said: list[Played] = []
        at = since
        for _ in range(MOST_TICKS):
            at = min(at + TICK_S, until)
            if at >= until or not self._board.open:
                break
            draft = Draft()
            self._board.age(at, draft)
            said += self._said(draft, at)
        return tuple(said)

    def _said(self, draft: Draft, at: float) -> tuple[Played, ...]:
        self._keys |= {incident.id: incident.key for incident in draft.incidents.values()}
        played = tuple(
            Played(
                at,
                self.when(at),
                message.notification.receiver,
                message.notification.kind,
                message.notification.severity,
                message.notification.incident_id,
                self._keys.get(message.notification.incident_id, ""),
                message.text.title,
                message.text.body,
            )
            for message in draft.messages
        )
        self.told += len(played)
        return played

    @property
    def still_open(self) -> tuple[Incident, ...]:
        """Incidents that are open at the end, oldest first."""
        return tuple(sorted(self._board.open.values(), key=lambda one: one.since))

    @property
    def pending(self) -> tuple[tuple[str, int, int], ...]:
        """Keys with strikes that have not alerted: key, failures in a row, failures needed."""
        return tuple(
            (key, state.fails, self._plan.thresholds_for(key).failures)
            for key, state in self._board.tracks.items()
            if state.phase is Phase.PENDING
        )

    def when(self, at: float) -> str:
        """`03:14:08`, with the date in front where the file had dates."""
        local = datetime.fromtimestamp(at, UTC).astimezone(self._zone)
        return f"{local:%Y-%m-%d %H:%M:%S}" if self._has_dates else f"{local:%H:%M:%S}"
