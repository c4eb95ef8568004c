"""What the daemon knows now: tracking states and open incidents in memory, and the step that changes them.

Every step is done at once, without waiting for anything, and leaves a `Draft`: what has to be written in one
transaction. The memory is ahead of the store by at most what is being written.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from watchdog.ingest.context import Scenery, Strikes, made_safe
from watchdog.kinds import BLIND
from watchdog.message import Redactor, render
from watchdog.model import (
    Incident,
    Json,
    Nature,
    Notification,
    NotificationKind,
    Observation,
    Phase,
    Silence,
    Told,
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
class Draft:
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
        """Who has something new waiting."""
        return {message.notification.receiver for message in self.messages}


class Board:
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
        self._scenery = Scenery()

    def load(self, tracks: Mapping[str, TrackState], incidents: Iterable[Incident], last_id: str) -> None:
        """Take over what was stored; states and incidents that lost each other (a repaired database) agree again."""
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
        """A new incident id."""
        self._last_id = incident_id(now, self._last_id, secrets.randbelow(1024))
        return self._last_id if self.standby is None else self._last_id + ID_MARK

    def observe(self, observations: Iterable[Observation], now: float, draft: Draft) -> None:
        """Take observations in, in their order."""
        for raw in observations:
            observation = self._scenery.noted(made_safe(raw, self.redactor))
            draft.observations.append(observation)
            self._scenery.note(observation)
            self._track(observation, now, draft)
            blind = blind_observation(observation, was_blind=BLIND.key(observation.key) in self.tracks)
            if blind is not None:
                self._track(blind, now, draft)
            for key in self._scenery.concerned(observation, self.plan, self.open):
                diagnosed = self._diagnosed(self.open[key], now)
                if diagnosed is not self.open[key]:
                    self._keep(diagnosed, key, draft)

    def _diagnosed(self, incident: Incident, now: float) -> Incident:
        return self._scenery.diagnosed(incident, self.plan, self.open, now)

    def age(self, now: float, draft: Draft) -> None:
        """Let time pass: occurrences go quiet, then reminders, silences and folded incidents are looked at."""
        for key in [key for key, incident in self.open.items() if incident.nature is Nature.OCCURRENCE]:
            self._move(key, step(self.tracks[key], None, self.plan.thresholds_for(key), now), None, now, draft)
        circumstances = self._circumstances()
        for key in list(self.open):
            self._decide(self.open[key], None, circumstances, now, draft, fresh=False)

    def retire(self, now: float, draft: Draft) -> None:
        """Close what the plan does not watch any more, and forget it; forget told receivers that are gone."""
        for key in [key for key in self.tracks if not self.plan.covers(key)]:
            self._move(key, retired(self.tracks[key]), None, now, draft)
            self.tracks.pop(key, None)
            draft.tracks[key], draft.hurried = None, True
        self._scenery.forget(self.plan)
        known = {receiver.name for receiver in self.plan.receivers}
        for key, incident in self.open.items():
            told = {name: what for name, what in incident.told.items() if name in known}
            if len(told) != len(incident.told):
                self._keep(replace(incident, told=told), key, draft)

    def acknowledge(self, acknowledged: Mapping[str, float]) -> None:
        """Note which open incidents a person has acknowledged."""
        for key, incident in self.open.items():
            at = acknowledged.get(incident.id)
            if at is not None and incident.acknowledged_at is None:
                self.open[key] = replace(incident, acknowledged_at=at)

    def queue(self, incident: Incident, note: Notification, now: float, draft: Draft) -> None:
        """Write one message about `incident`."""
        text = render(incident, note.kind, now=now, zone=self._zone, redactor=self.redactor)
        draft.messages.append(Queued(note, text, now))

    def _track(self, observation: Observation, now: float, draft: Draft) -> None:
        key = observation.key
        state = self.tracks.get(key) or TrackState(nature=observation.nature)
        self._move(key, step(state, observation, self.plan.thresholds_for(key), now), observation, now, draft)

    def _move(self, key: str, moved: Step, observation: Observation | None, now: float, draft: Draft) -> None:
        """Keep the new state, bring the incident up to date, and decide who hears of it."""
        self._keep_state(key, moved.state, draft)
        failing = observation is not None and observation.verdict is Verdict.FAIL
        incident = self.open.get(key)
        said = moved.transition
        if observation is not None and failing and said is not None and said.kind is TransitionKind.OPENED:
            incident = self._diagnosed(self._opened(observation, moved.state, now), now)
        elif observation is not None and failing and incident is not None:
            incident = self._diagnosed(self._continued(incident, observation, moved.state, now), now)
        elif said is not None and incident is not None:
            incident = ended(incident, said.reason, said.kind, now)
        elif observation is not None and failing:
            self._strikes[key] = self._strikes.get(key, Strikes()).and_then(observation)
        if moved.state.phase is Phase.OK:
            self._strikes.pop(key, None)
        if incident is not None and (failing or said is not None):
            self._keep(incident, key, draft)
            self._decide(incident, said, self._circumstances(), now, draft, fresh=failing)

    def _keep_state(self, key: str, state: TrackState, draft: Draft) -> None:
        before = self.tracks.get(key)
        over = state.phase is Phase.OK and (state.nature is Nature.OCCURRENCE or BLIND.has(key))
        if over:
            # An occurrence that is over, or sight that came back, leaves nothing to track: keys must not pile up.
            if self.tracks.pop(key, None) is not None:
                draft.tracks[key], draft.hurried = None, True
            return
        self.tracks[key] = state
        if before is None or not _same_but_for_last_good(before, state):
            draft.tracks[key] = state
            draft.hurried |= not _only_passed(before, state)

    def _keep(self, incident: Incident, key: str, draft: Draft) -> None:
        draft.incidents[incident.id] = incident
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
            since=observation.at if state.since is None else state.since,
            opened_at=now,
            last_at=now,
            last_good_at=state.last_good_at,
            count=state.count,
            evidence=strikes.evidence,
            advice=observation.advice,
            labels=observation.labels,
            reasons=strikes.reasons,
        )

    def _continued(self, incident: Incident, observation: Observation, state: TrackState, now: float) -> Incident:
        strikes = Strikes(incident.evidence, incident.reasons).and_then(observation)
        return replace(
            incident,
            cause=state.cause,
            severity=state.severity,
            reason=observation.reason,
            summary=observation.summary,
            last_at=now,
            last_good_at=state.last_good_at,
            count=state.count,
            evidence=strikes.evidence,
            advice=observation.advice or incident.advice,
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
        said: Transition | None,
        circumstances: Circumstances,
        now: float,
        draft: Draft,
        *,
        fresh: bool,
    ) -> None:
        decision = decide(incident, said, circumstances, fresh=fresh, now=now)
        if said is not None or decision.notifications:
            draft.decisions.append((incident, said, decision))
        draft.full |= {name for name, why in decision.reasons.items() if why is DecisionReason.OUTBOX_FULL}
        if decision.incident is not incident:
            self._keep(decision.incident, incident.key, draft)
        for note in decision.notifications:
            self.queue(decision.incident, note, now, draft)

    def fall_back(self, incident: Incident, fallback: str, failed: str, now: float, draft: Draft) -> None:
        """Tell `fallback` about `incident`, which `failed` could not be told; also its end, if it is over."""
        current = self.open.get(incident.key)
        if current is not None and current.id == incident.id:
            incident = current
        before = incident.told.get(fallback)
        if before is not None and before.severity.rank >= incident.severity.rank:
            return
        told = dict(incident.told)
        told[fallback] = replace(told[failed], at=now, reminders=0) if failed in told else _told(incident, now)
        incident = replace(incident, told=told)
        self._keep(incident, incident.key, draft)
        kind = NotificationKind.NEW if incident.nature is Nature.OCCURRENCE else NotificationKind.FIRING
        noted = replace(incident, advice=f"({failed} could not be reached.) {incident.advice}")
        self.queue(noted, Notification(incident.id, fallback, kind, incident.severity), now, draft)
        if incident.closed_at is not None:
            end = NotificationKind.QUIET if incident.nature is Nature.OCCURRENCE else NotificationKind.RESOLVED
            self.queue(incident, Notification(incident.id, fallback, end, incident.severity), now, draft)


def _same_but_for_last_good(before: TrackState, after: TrackState) -> bool:
    """Whether a healthy key only passed once more: the history knows that, its state need not be written."""
    return (
        before.phase is after.phase is Phase.OK
        and before.passes == after.passes
        and before.fails == after.fails
        and before.unknowns == after.unknowns
        and before.recent == after.recent
    )


def _only_passed(before: TrackState | None, after: TrackState) -> bool:
    """Whether a key that was well, or is new, is well: it costs nothing if a crash loses that it was counted."""
    was_well = before is None or (before.phase is Phase.OK and not before.fails and not before.unknowns)
    return was_well and after.phase is Phase.OK and not after.fails and not after.unknowns


def _told(incident: Incident, now: float) -> Told:
    return Told(incident.severity, now, 0, incident.count)
