"""What the daemon knows now: tracking states and open incidents in memory, and the steps that change them.

Every step is done at once, without waiting for anything, and adds to a `UnitOfWork`: what has to be written in one
transaction. The memory is ahead of the store by at most what is being written, and `UnitOfWork.roll_back` takes it back
when that fails: an incident whose message was never queued must not count as told.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import tzinfo

import structlog

from watchdog.config import ProbeSettings
from watchdog.ingest.context import FACTS, RELATED, DiagnosisContext, Strikes, continued, opened, sanitize
from watchdog.ingest.unit_of_work import UnitOfWork
from watchdog.kinds import BLIND, GENERATION, ROAD, row_of
from watchdog.message import render
from watchdog.message.redaction import Redactor
from watchdog.model import (
    Evidence,
    Incident,
    Nature,
    Notification,
    NotificationKind,
    Notified,
    Observation,
    Phase,
    Severity,
    SignSeen,
    Silence,
    StepReason,
    Thresholds,
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
    DecisionReason,
    NextProbe,
    Standby,
    blind_observation,
    decide,
    ended,
    incident_id,
    may_inhibit,
    next_probe,
    strikes_by_evidence,
)
from watchdog.policy.corroboration import Signs, leading_key
from watchdog.store import Queued
from watchdog.tracker import Step, corroborated, retired, step

_log = structlog.get_logger(__name__)


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
        self._signs = Signs()

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
        """Take in observations, in their order. One that cannot be taken fails alone: `work.untaken`."""
        for raw in observations:
            error = work.attempt(lambda part, raw=raw: self._observe(raw, now, part))  # type: ignore[misc]
            if error is not None:
                work.untaken.append((raw, error))

    def _observe(self, raw: Observation, now: float, work: UnitOfWork) -> None:
        observation = self._context.with_clock_note(sanitize(raw, self.redactor, now))
        work.changes(self._context.newest, observation.key)
        self._context.note(observation)
        state = self.tracks.get(observation.key)
        observation = self._context.as_meant(observation, state, self.plan, self.open.values(), now)
        observation = self._context.with_story(observation, self.open.values())
        work.observations.append(observation)
        own_network_down = ROAD.key() in self.open
        pair = self._signs.note(observation, self.plan, now, own_network_down=own_network_down)
        self._track(observation, now, work)
        if pair:
            self._corroborate(pair, observation, now, work)
        blind = blind_observation(observation, was_blind=BLIND.key(observation.key) in self.tracks)
        if blind is not None:
            self._track(blind, now, work)
        for key in self._context.affected_keys(observation, self.plan, self.open):
            diagnosed = self._diagnosed(self.open[key], now)
            if diagnosed is not self.open[key]:
                self._keep(diagnosed, key, work)

    def _corroborate(self, signs: tuple[SignSeen, ...], seen: Observation, now: float, work: UnitOfWork) -> None:
        """Two independent signs, the second of them in `seen`: one page at once, or both in the one that is open."""
        key = leading_key(signs, seen, self.tracks, self.open)
        if key is None:
            return
        state = self.tracks.get(key) or TrackState(nature=seen.nature)
        newest = seen if key == seen.key else self._context.newest.get(key, seen)
        incident = self.open.get(key)
        if incident is not None and {one.key for one in signs} <= {one.key for one in incident.signs}:
            return  # told already
        joined = incident is not None and incident.severity is Severity.PAGE
        moved = corroborated(state, newest, now)
        self._keep_state(key, moved.state, work)
        if incident is None:
            work.changes(self._strikes, key)
            strikes = self._strikes.pop(key, Strikes())
            incident = opened(newest, moved.state, strikes, self.new_id(now), now)
        known = {one.key for one in incident.signs}
        together = (*incident.signs, *(one for one in signs if one.key not in known))
        lines = tuple(Evidence(one.at, one.about, one.words) for one in together)
        incident = replace(
            incident,
            severity=Severity.PAGE,
            signs=together,
            evidence=tuple(dict.fromkeys((*incident.evidence, *lines)))[-FACTS:],
        )
        incident = self._related(self._diagnosed(incident, now), work)
        if incident.nature is Nature.OCCURRENCE:
            keys = (one.key for one in together)
            incident = replace(
                incident, diagnosis=self._context.diagnosis_at_once(keys, self.plan, self.open.values(), now)
            )
        self._keep(incident, key, work)
        transition = None if joined else moved.transition
        self._decide(incident, transition, self._circumstances(), now, work, fresh=True, joined=joined)

    def _tell_lead(self, incident: Incident, now: float, work: UnitOfWork) -> None:
        """Tell of `incident`, which just opened, under the page whose sign it was, if more is known by now."""
        found = incident.diagnosis
        for key, lead in list(self.open.items()):
            is_lead = lead.id != incident.id and any(one.key == incident.key for one in lead.signs)
            if is_lead and found is not None and (lead.diagnosis is None or lead.diagnosis.name != found.name):
                lead = replace(lead, diagnosis=found)  # noqa: PLW2901
                self._keep(lead, key, work)
                self._decide(lead, None, self._circumstances(), now, work, fresh=True, joined=True)

    def _related(self, incident: Incident, work: UnitOfWork) -> Incident:
        """`incident` with the ids of the others of its machines, which from now on name it as well."""
        related = self._context.related(incident, self.plan, self.open.values())
        for key, other in list(self.open.items()):
            if other.id in related:
                self._keep(replace(other, related=(*other.related, incident.id)[-RELATED:]), key, work)
        return replace(incident, related=related) if related else incident

    def _diagnosed(self, incident: Incident, now: float) -> Incident:
        return self._context.with_diagnosis(incident, self.plan, self.open, now)

    def age(self, now: float, work: UnitOfWork) -> None:
        """Let time pass: occurrences expire, then reminders, silences and inhibited incidents are looked at."""
        for key in [key for key, incident in self.open.items() if incident.nature is Nature.OCCURRENCE]:
            moved = step(self.tracks[key], None, self.plan.thresholds_for(key), now)
            self._alone(key, work, lambda part, key=key, moved=moved: self._move(key, moved, None, now, part))  # type: ignore[misc]
        circumstances = self._circumstances()
        for key, incident in list(self.open.items()):
            self._alone(
                key,
                work,
                lambda part, incident=incident: self._decide(  # type: ignore[misc]
                    incident, None, circumstances, now, part, fresh=False
                ),
            )

    def _alone(self, key: str, work: UnitOfWork, change: Callable[[UnitOfWork], None]) -> None:
        """Do `change` for one incident; what fails is logged, and tried again with the next tick."""
        error = work.attempt(change)
        if error is not None:
            _log.error("an incident could not be looked at", key=key, exc_info=error)

    def retire(self, now: float, work: UnitOfWork) -> None:
        """Close and forget what the plan no longer watches; forget receivers that are gone."""
        for key in [key for key in self.tracks if not self.plan.covers(key)]:
            self._move(key, retired(self.tracks[key]), None, now, work)
            work.changes(self.tracks, key)
            self.tracks.pop(key, None)
            work.tracks[key], work.hurried = None, True
        self._context.forget(self.plan)
        known = {receiver.name for receiver in self.plan.receivers}
        for key, incident in list(self.open.items()):
            notified = {name: what for name, what in incident.notified.items() if name in known}
            if len(notified) != len(incident.notified):
                self._keep(replace(incident, notified=notified), key, work)

    def latest_before(self, at: float) -> float | None:
        """When something that is open was last seen, of all that was before `at`."""
        seen = (state.last_at for state in self.tracks.values() if state.last_at is not None)
        return max((one for one in seen if one < at), default=None)

    def follow_clock(self, step_s: float, set_at: float, work: UnitOfWork) -> None:
        """Our clock was set by `step_s` when it said `set_at`: what began by the old one lasts as long as it did."""
        for key, state in list(self.tracks.items()):
            if state.phase is not Phase.OK:
                work.changes(self.tracks, key)
                self.tracks[key] = work.tracks[key] = state.dated_anew(step_s, set_at)
                work.hurried = True
        for key, incident in list(self.open.items()):
            self._keep(incident.dated_anew(step_s, set_at), key, work)
        self._context.follow_clock(step_s, set_at)

    def acknowledge(self, acknowledged: Mapping[str, float]) -> None:
        """Mark the open incidents that a person has acknowledged."""
        for key, incident in self.open.items():
            at = acknowledged.get(incident.id)
            if at is not None and incident.acknowledged_at is None:
                self.open[key] = replace(incident, acknowledged_at=at)

    def next_probe(self, server: str, settings: ProbeSettings, now: float) -> NextProbe | None:
        """When to probe a failing server again; None: at its regular time."""
        key = GENERATION.key(server)
        state, seen = self.tracks.get(key), self._context.newest.get(key)
        if state is None or seen is None:
            return None
        proven = self._proves_death(server, seen, state, now)
        return next_probe(state, seen, settings, proven=proven, now=now)

    def newest(self, key: str) -> Observation | None:
        """The newest observation of a condition; None if there was none since the start."""
        return self._context.newest.get(key)

    def is_pending(self, key: str) -> bool:
        """Whether failures of `key` have not opened an incident yet."""
        return key in self.tracks and self.tracks[key].phase is Phase.PENDING

    def hangs(self, server: str, since: float) -> bool:
        """Whether something besides its own counters says that a server hangs, seen since `since`."""
        return bool(self._context.signs_of_hang(server, self.plan, self.open.values(), since))

    def queue(self, incident: Incident, note: Notification, now: float, work: UnitOfWork) -> None:
        text = render(incident, note.kind, now=now, zone=self._zone, redactor=self.redactor)
        work.messages.append(Queued(note, text, now))

    def _track(self, observation: Observation, now: float, work: UnitOfWork) -> None:
        key = observation.key
        state = self.tracks.get(key) or TrackState(nature=observation.nature)
        row = row_of(key, observation.reason)
        if row is not None and row.ends and state.phase is not Phase.OK:
            self._move(key, retired(state, StepReason.AWAY), observation, now, work)
            return
        self._move(
            key, step(state, observation, self._limits(key, observation, state, now), now), observation, now, work
        )

    def _proves_death(self, server: str, seen: Observation, state: TrackState, now: float) -> bool:
        """By the server's own words, or by two independent signs."""
        return self._context.proves_death(
            server, seen, state, self.plan, self.open.values()
        ) or self._signs.prove_death(server, self.plan, now)

    def _limits(self, key: str, observation: Observation, state: TrackState, now: float) -> Thresholds:
        """How `key` is tracked at this observation: what a failure proves decides how soon it may count again."""
        limits, server = self.plan.thresholds_for(key), GENERATION.target_of(key)
        settings = self.plan.probes.get(server)
        if settings is None or observation.verdict is not Verdict.FAIL:
            return limits
        proven = self._proves_death(server, observation, state, now)
        return strikes_by_evidence(limits, state, observation, settings, proven=proven)

    def _move(self, key: str, moved: Step, observation: Observation | None, now: float, work: UnitOfWork) -> None:
        """Keep the new state, update the incident, and decide who is notified."""
        self._keep_state(key, moved.state, work)
        failing = observation is not None and observation.verdict is Verdict.FAIL
        incident = self.open.get(key)
        transition = moved.transition
        if observation is not None and failing and transition is not None and transition.kind is TransitionKind.OPENED:
            work.changes(self._strikes, key)
            strikes = self._strikes.pop(key, Strikes())
            incident = self._diagnosed(opened(observation, moved.state, strikes, self.new_id(now), now), now)
            incident = self._related(incident, work)
        elif observation is not None and failing and incident is not None:
            incident = self._diagnosed(continued(incident, observation, moved.state, now), now)
        elif transition is not None and incident is not None:
            incident = ended(incident, transition.reason, transition.kind, now)
        elif observation is not None and failing and moved.reason is not StepReason.TOO_SOON:
            work.changes(self._strikes, key)
            self._strikes[key] = self._strikes.get(key, Strikes()).and_then(observation)
        if moved.state.phase is Phase.OK:
            work.changes(self._strikes, key)
            self._strikes.pop(key, None)
        if incident is not None and (failing or transition is not None):
            self._keep(incident, key, work)
            self._decide(incident, transition, self._circumstances(), now, work, fresh=failing)
            if transition is not None and transition.kind is TransitionKind.OPENED:
                self._tell_lead(incident, now, work)

    def _keep_state(self, key: str, state: TrackState, work: UnitOfWork) -> None:
        before = self.tracks.get(key)
        work.changes(self.tracks, key)
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
        work.changes(self.open, key)
        if incident.closed_at is None:
            self.open[key] = incident
        elif key in self.open and self.open[key].id == incident.id:
            del self.open[key]

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
        joined: bool = False,
    ) -> None:
        decision = decide(incident, transition, circumstances, fresh=fresh, now=now, joined=joined)
        if any(not note.kind.is_end for note in decision.notifications):
            told = replace(decision.incident, diagnosis_told=decision.incident.diagnosis)
            decision = replace(decision, incident=told)
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
