"""What the daemon knows now: tracking states and open incidents in memory, and the steps that change them.

Every step is done at once, without waiting for anything, and adds to a `UnitOfWork`: what has to be written in one
transaction. The memory is ahead of the store by at most what is being written.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from watchdog.ingest.context import DiagnosisContext, Strikes, sanitize
from watchdog.kinds import BLIND
from watchdog.message import Redactor, render
from watchdog.model import (
    Incident,
    Json,
    Nature,
    Notification,
    NotificationKind,
    Notified,
    Observation,
    Phase,
    Silence,
    TrackState,
    Transition,
    TransitionKind,
    Verdict,
)
from watchdog.policy import (
    ID_MARK,
    OUTBOX_LIMIT,
    AlertPlan,
    Circumstances,
    Decision,
    DecisionReason,
    Standby,
    blind_observation,
    decide,
    ended,
    incident_id,
    may_inhibit,
)
from watchdog.store import Commit, Queued
from watchdog.tracker import Step, retired, step


@dataclass(slots=True)
class UnitOfWork:
    """What one step changed, to be written together. `decisions` are for the log; `full` names full outboxes."""

    observations: list[Observation] = field(default_factory=list)
    tracks: dict[str, TrackState | None] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    messages: list[Queued] = field(default_factory=list)
    decisions: list[tuple[Incident, Transition | None, Decision]] = field(default_factory=list)
    full: set[str] = field(default_factory=set)
    hurried: bool = False

    def commit(self, memory: tuple[str, Json] | None, *, forgettable: bool = False) -> Commit:
        """The same as a transaction, with what the check wants to remember."""
        return Commit(
            observations=tuple(self.observations),
            tracks=self.tracks,
            incidents=tuple(self.incidents.values()),
            messages=tuple(self.messages),
            memory=memory,
            forgettable=forgettable,
            hurried=self.hurried,
        )

    @property
    def receivers(self) -> set[str]:
        """The names of the receivers that have something new in the outbox."""
        return {message.notification.receiver for message in self.messages}


class Incidents:
    """Tracking states and open incidents, by key."""

    def __init__(
        self,
        plan: AlertPlan,
        *,
        redactor: Redactor,
        zone: tzinfo | None,
        depth: Callable[[str], int],
    ) -> None:
        """Start empty. `depth(receiver)` is how many undelivered rows a receiver has."""
        self.plan = plan
        self.redactor = redactor
        self.silences: tuple[Silence, ...] = ()
        self.standby: Standby | None = None
        self.tracks: dict[str, TrackState] = {}
        self.open: dict[str, Incident] = {}
        self._zone = zone
        self._depth = depth
        self._last_id = ""
        self._strikes: dict[str, Strikes] = {}
        self._context = DiagnosisContext()

    def load(self, tracks: Mapping[str, TrackState], incidents: Iterable[Incident], last_id: str) -> None:
        """Take over what was stored; states and incidents that do not match (a repaired database) are made to agree."""
        self._last_id = last_id
        self.open = {incident.key: incident for incident in incidents}
        self.tracks = {key: state for key, state in tracks.items() if not state.is_open or key in self.open}
        for key, incident in self.open.items():
            if key not in self.tracks or not self.tracks[key].is_open:
                self.tracks[key] = TrackState(
                    nature=incident.nature,
                    phase=Phase.FIRING,
                    since=incident.since,
                    last_at=incident.last_at,
                    last_good_at=incident.last_good_at,
                    count=incident.count,
                    severity=incident.severity,
                    cause=incident.cause,
                )

    def new_id(self, now: float) -> str:
        self._last_id = incident_id(now, self._last_id, secrets.randbelow(1024))
        return self._last_id if self.standby is None else self._last_id + ID_MARK

    def observe(self, observations: Iterable[Observation], now: float, work: UnitOfWork) -> None:
        for raw in observations:
            observation = self._context.with_clock_note(sanitize(raw, self.redactor))
            work.observations.append(observation)
            self._context.note(observation)
            self._track(observation, now, work)
            blind = blind_observation(observation, was_blind=BLIND.key(observation.key) in self.tracks)
            if blind is not None:
                self._track(blind, now, work)
            for key in self._context.affected_keys(observation, self.plan, self.open):
                with_diagnosis = self._diagnosed(self.open[key], now)
                if with_diagnosis is not self.open[key]:
                    self._keep(with_diagnosis, key, work)

    def _diagnosed(self, incident: Incident, now: float) -> Incident:
        return self._context.with_diagnosis(incident, self.plan, self.open, now)

    def age(self, now: float, work: UnitOfWork) -> None:
        """Let time pass: occurrences expire, then reminders, silences and inhibited incidents are looked at."""
        for key in [key for key, incident in self.open.items() if incident.nature is Nature.OCCURRENCE]:
            self._move(key, step(self.tracks[key], None, self.plan.thresholds_for(key), now), None, now, work)
        circumstances = self._circumstances()
        for key in list(self.open):
            self._decide(self.open[key], None, circumstances, now, work, fresh=False)

    def retire(self, now: float, work: UnitOfWork) -> None:
        """Close and forget what the plan no longer watches; forget receivers that are gone."""
        for key in [key for key in self.tracks if not self.plan.covers(key)]:
            self._move(key, retired(self.tracks[key]), None, now, work)
            self.tracks.pop(key, None)
            work.tracks[key], work.hurried = None, True
        self._context.forget(self.plan)
        known = {receiver.name for receiver in self.plan.receivers}
        for key, incident in self.open.items():
            notified = {name: what for name, what in incident.notified.items() if name in known}
            if len(notified) != len(incident.notified):
                self._keep(replace(incident, notified=notified), key, work)

    def acknowledge(self, acknowledged: Mapping[str, float]) -> None:
        """Mark the open incidents that a person has acknowledged."""
        for key, incident in self.open.items():
            at = acknowledged.get(incident.id)
            if at is not None and incident.acknowledged_at is None:
                self.open[key] = replace(incident, acknowledged_at=at)

    def queue(self, incident: Incident, note: Notification, now: float, work: UnitOfWork) -> None:
        """Queue one message about `incident`."""
        text = render(incident, note.kind, now=now, zone=self._zone, redactor=self.redactor)
        work.messages.append(Queued(note, text, now))

    def _track(self, observation: Observation, now: float, work: UnitOfWork) -> None:
        key = observation.key
        state = self.tracks.get(key) or TrackState(nature=observation.nature)
        self._move(key, step(state, observation, self.plan.thresholds_for(key), now), observation, now, work)

    def _move(self, key: str, moved: Step, observation: Observation | None, now: float, work: UnitOfWork) -> None:
        """Keep the new state, update the incident, and decide who is notified."""
        self._keep_state(key, moved.state, work)
        failing = observation is not None and observation.verdict is Verdict.FAIL
        incident = self.open.get(key)
        transition = moved.transition
        if observation is not None and failing and transition is not None and transition.kind is TransitionKind.OPENED:
            incident = self._diagnosed(self._opened(observation, moved.state, now), now)
        elif observation is not None and failing and incident is not None:
            incident = self._diagnosed(self._continued(incident, observation, moved.state, now), now)
        elif transition is not None and incident is not None:
            incident = ended(incident, transition.reason, transition.kind, now)
        elif observation is not None and failing:
            self._strikes[key] = self._strikes.get(key, Strikes()).and_then(observation)
        if moved.state.phase is Phase.OK:
            self._strikes.pop(key, None)
        if incident is not None and (failing or transition is not None):
            self._keep(incident, key, work)
            self._decide(incident, transition, self._circumstances(), now, work, fresh=failing)

    def _keep_state(self, key: str, state: TrackState, work: UnitOfWork) -> None:
        before = self.tracks.get(key)
        over = state.phase is Phase.OK and (state.nature is Nature.OCCURRENCE or BLIND.has(key))
        if over:
            # An occurrence that is over, or a key that is seen again, leaves nothing to track: keys must not pile up.
            if self.tracks.pop(key, None) is not None:
                work.tracks[key], work.hurried = None, True
            return
        self.tracks[key] = state
        if before is None or not _same_but_for_last_good(before, state):
            work.tracks[key] = state
            work.hurried |= not _only_passed(before, state)

    def _keep(self, incident: Incident, key: str, work: UnitOfWork) -> None:
        work.incidents[incident.id] = incident
        if incident.closed_at is None:
            self.open[key] = incident
        elif key in self.open and self.open[key].id == incident.id:
            del self.open[key]

    def _opened(self, observation: Observation, state: TrackState, now: float) -> Incident:
        strikes = self._strikes.pop(observation.key, Strikes()).and_then(observation)
        return Incident(
            id=self.new_id(now),
            key=observation.key,
            nature=observation.nature,
            cause=state.cause,
            severity=state.severity,
            opened_severity=state.severity,
            reason=observation.reason,
            summary=observation.summary,
            subject=observation.subject,
            unit=observation.unit,
            at_least=observation.at_least,
            detail=observation.detail,
            since=observation.at if state.since is None else state.since,
            opened_at=now,
            last_at=now,
            last_good_at=state.last_good_at,
            count=state.count,
            evidence=strikes.evidence,
            advice=observation.advice,
            look_only=observation.look_only,
            labels=observation.labels,
            reasons=strikes.reasons,
        )

    def _continued(self, incident: Incident, observation: Observation, state: TrackState, now: float) -> Incident:
        strikes = Strikes(incident.evidence, incident.reasons).and_then(observation)
        advises = observation if observation.advice else incident
        return replace(
            incident,
            cause=state.cause,
            severity=state.severity,
            reason=observation.reason,
            summary=observation.summary,
            subject=observation.subject,
            unit=observation.unit,
            at_least=observation.at_least or incident.at_least,
            detail=observation.detail,
            last_at=now,
            last_good_at=state.last_good_at,
            count=state.count,
            evidence=strikes.evidence,
            advice=advises.advice,
            look_only=advises.look_only,
            reasons=strikes.reasons,
        )

    def _circumstances(self) -> Circumstances:
        return Circumstances(
            plan=self.plan,
            open_incidents=tuple(incident for incident in self.open.values() if may_inhibit(incident)),
            silences=self.silences,
            full=frozenset(
                receiver.name for receiver in self.plan.receivers if self._depth(receiver.name) >= OUTBOX_LIMIT
            ),
            standby=self.standby,
        )

    def _decide(
        self,
        incident: Incident,
        transition: Transition | None,
        circumstances: Circumstances,
        now: float,
        work: UnitOfWork,
        *,
        fresh: bool,
    ) -> None:
        decision = decide(incident, transition, circumstances, fresh=fresh, now=now)
        if transition is not None or decision.notifications:
            work.decisions.append((incident, transition, decision))
        work.full |= {name for name, why in decision.reasons.items() if why is DecisionReason.OUTBOX_FULL}
        if decision.incident is not incident:
            self._keep(decision.incident, incident.key, work)
        for note in decision.notifications:
            self.queue(decision.incident, note, now, work)

    def notify_fallback(self, incident: Incident, fallback: str, failed: str, now: float, work: UnitOfWork) -> None:
        """Notify `fallback` of `incident`, which could not be delivered to `failed`; also of its end, if it is over."""
        current = self.open.get(incident.key)
        if current is not None and current.id == incident.id:
            incident = current
        before = incident.notified.get(fallback)
        if before is not None and before.severity.rank >= incident.severity.rank:
            return
        notified = dict(incident.notified)
        like = notified.get(failed) or Notified(incident.severity, now, count=incident.count)
        notified[fallback] = replace(like, at=now, reminders=0)
        incident = replace(incident, notified=notified)
        self._keep(incident, incident.key, work)
        kind = NotificationKind.NEW if incident.nature is Nature.OCCURRENCE else NotificationKind.FIRING
        with_clock_note = replace(
            incident, advice=f"({failed} could not be reached.) {incident.advice}", look_only=False
        )
        self.queue(with_clock_note, Notification(incident.id, fallback, kind, incident.severity), now, work)
        if incident.closed_at is not None:
            end = NotificationKind.QUIET if incident.nature is Nature.OCCURRENCE else NotificationKind.RESOLVED
            self.queue(incident, Notification(incident.id, fallback, end, incident.severity), now, work)


def _same_but_for_last_good(before: TrackState, after: TrackState) -> bool:
    """Whether a healthy key only passed once more: the history has that, its state need not be written."""
    return (
        before.phase is after.phase is Phase.OK
        and before.passes == after.passes
        and before.fails == after.fails
        and before.unknowns == after.unknowns
        and before.recent == after.recent
    )


def _only_passed(before: TrackState | None, after: TrackState) -> bool:
    """Whether a key that was well, or is new, is well: a crash may lose that count."""
    was_well = before is None or (before.phase is Phase.OK and not before.fails and not before.unknowns)
    return was_well and after.phase is Phase.OK and not after.fails and not after.unknowns
