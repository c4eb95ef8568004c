"""The decision about one incident: what each receiver is sent now, and the named reason of every answer.

Level-triggered: it compares what each receiver was told with what is true now, so a silence that ends, a host that
comes back or a receiver that is new needs no event of its own. Nothing here ever keeps an end (RESOLVED, QUIET) from
a receiver that was told of the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from watchdog.kinds import BLIND, KERNEL_LOG, ROAD, is_own, kind_of, row_of
from watchdog.model import (
    Incident,
    IncidentStatus,
    Nature,
    Notification,
    NotificationKind,
    Notified,
    Observation,
    Severity,
    Silence,
    StepReason,
    Transition,
    TransitionKind,
    Verdict,
)
from watchdog.policy.plan import AlertPlan
from watchdog.policy.silences import maintained_by, silenced_by
from watchdog.reasons import HostReason, OwnReason, ServerReason

# What explains what: incidents that fold into another one, and what an unknown observation says about our sight.


def inhibitor_of(incident: Incident, open_incidents: Iterable[Incident], plan: AlertPlan) -> Incident | None:
    """The open incident that explains `incident`, or None.

    A host that cannot be reached explains everything that runs on it; our own network being down explains every
    target that we are blind to for that reason (without an incident that says so, the oldest such stands for all); a
    jump host's trouble every host behind it, and likewise the oldest of those where the jump host is not watched.
    """
    hosts = {incident.labels.get("host", ""), *plan.runs_on.get(incident.labels.get("server", ""), ())} - {""}
    for other in open_incidents:
        if other.id == incident.id or other.status is not IncidentStatus.FIRING:
            continue
        if _is_host_down(other) and other.labels.get("host") in hosts and not _is_host_down(incident):
            return other
        if other.key == ROAD.key() and BLIND.has(incident.key) and incident.reason == OwnReason.BLIND:
            return other
        if _is_behind(incident) and other.key == KERNEL_LOG.key(incident.labels.get("jump", "")):
            return other
        if any(sign.key == incident.key for sign in other.signs) and not incident.signs:
            return other  # told together with it
        same_fault = _is_own_fault(incident) and _is_own_fault(other) and other.reason == incident.reason
        same_fault = same_fault and other.labels.get("jump", "") == incident.labels.get("jump", "")
        if same_fault and other.id < incident.id:
            return other
    return None


def may_inhibit(incident: Incident) -> bool:
    """Whether other incidents can be explained by this one at all."""
    ours = _is_own_fault(incident) or incident.key == ROAD.key() or bool(incident.signs)
    return ours or incident.key == KERNEL_LOG.key(KERNEL_LOG.target_of(incident.key))


def _is_host_down(incident: Incident) -> bool:
    row = row_of(incident.key, incident.reason)
    return incident.key == KERNEL_LOG.key(KERNEL_LOG.target_of(incident.key)) and row is not None and row.host_down


def _is_own_fault(incident: Incident) -> bool:
    ours = (OwnReason.BLIND, HostReason.LOCAL, ServerReason.LOCAL)
    return BLIND.has(incident.key) and (incident.reason in ours or _is_behind(incident))


def _is_behind(incident: Incident) -> bool:
    """Whether we are blind to a host for its jump host's sake, and know which one that is."""
    return BLIND.has(incident.key) and incident.reason == HostReason.JUMP and bool(incident.labels.get("jump"))


def blind_observation(observation: Observation, *, was_blind: bool) -> Observation | None:
    """What an observation says about our own sight of its key: a fail if we could not tell, a pass if we could again.

    None if it says nothing: a key that never was unknown needs no pass, and our own stopping is no blindness.
    """
    unknown = observation.verdict is Verdict.UNKNOWN
    kind, row = kind_of(observation.key), row_of(observation.key, observation.reason)
    if is_own(observation.key) or (kind is not None and not kind.says_blindness) or not (unknown or was_blind):
        return None
    if unknown and row is not None and not row.blind:
        return None
    summary = f"blind to {observation.key}: {observation.phrase}" if unknown else f"{observation.key} seen again"
    out_of_something = unknown and observation.reason in (HostReason.LOCAL, ServerReason.LOCAL)
    if out_of_something:  # of our own machine: whatever could not be looked at first is not named
        summary = f"blind: {observation.phrase}"
    return replace(
        observation,
        key=BLIND.key(observation.key),
        verdict=Verdict.FAIL if unknown else Verdict.PASS,
        severity=Severity.WARN,
        nature=Nature.CONDITION,
        summary=summary,
        subject="watchdog" if out_of_something else "",
        measurements={},
        count=1,
    )


# A second watchdog beside a first one: what it holds back while the first one is alive (design §10).

ID_MARK = "-s"
"""Stands behind the ids of a standby's incidents, so that a message says who sent it."""
SETTLE_S = 300.0
"""A first watchdog that stayed alive for so long after we opened an incident has seen it and notified too."""
HELD_FOR_S = 3600.0
"""What the first one reported before it died is reported again, by us, if it still goes on after this time."""


@dataclass(frozen=True, slots=True)
class Standby:
    """The state of the first watchdog. `is_alive`: it answers, so we hold back. `heard_at`: its last answer, if any."""

    is_alive: bool = True
    heard_at: float | None = None


def held_for_the_first(incident: Incident, standby: Standby | None, now: float) -> bool:
    """Whether nothing new about `incident` may be sent by us. Incidents about ourselves always may.

    While the first one is alive, it notifies. When it has died, what it had time to report is held for an hour more:
    nobody is woken twice by the same trouble, and one that lasts is not forgotten.
    """
    if standby is None or is_own(incident.key):
        return False
    if standby.is_alive:
        return True
    if standby.heard_at is None:
        return False
    reported_by_it = incident.opened_at + SETTLE_S <= standby.heard_at
    return reported_by_it and 0 <= now - standby.heard_at < HELD_FOR_S


OUTBOX_LIMIT = 5000
"""Undelivered rows one receiver may have before new triggers wait outside (ends always fit)."""


class DecisionReason(StrEnum):
    """Why a receiver is notified now, or is not."""

    FIRST = "first"
    CORROBORATED = "corroborated"
    ESCALATED = "escalated"
    REMINDER = "reminder"
    UNANSWERED = "unanswered"
    ENDED = "ended"
    ALREADY_NOTIFIED = "already_told"
    NOT_DUE = "not_due"
    NOTHING_NEW = "nothing_new"
    SILENCED = "silenced"
    MAINTENANCE = "maintenance"
    INHIBITED = "folded"
    STANDBY = "standby"
    ACKNOWLEDGED = "acknowledged"
    AWAITING_EVIDENCE = "awaiting_evidence"
    OUTBOX_FULL = "outbox_full"


_REPEATS = (DecisionReason.REMINDER, DecisionReason.UNANSWERED, DecisionReason.CORROBORATED)
_SENDS = (DecisionReason.FIRST, DecisionReason.ESCALATED, *_REPEATS)
_SKIPS_A_REMINDER = (DecisionReason.SILENCED, DecisionReason.MAINTENANCE)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one incident now: notifications to queue, the incident with `notified` updated, and why.

    `reasons` maps every receiver that was considered to the one reason of its answer.
    """

    incident: Incident
    notifications: tuple[Notification, ...]
    reasons: Mapping[str, DecisionReason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a decision depends on besides the incident itself.

    `open_incidents` are the open incidents, at least those that others may fold into; `full` names receivers whose
    outbox is full. `standby` says how a first watchdog is that we stand by for, None where there is none.
    """

    plan: AlertPlan
    open_incidents: tuple[Incident, ...] = ()
    silences: tuple[Silence, ...] = ()
    full: frozenset[str] = frozenset()
    standby: Standby | None = None


def decide(
    incident: Incident,
    transition: Transition | None,
    circumstances: Circumstances,
    *,
    fresh: bool,
    now: float,
    joined: bool = False,
) -> Decision:
    """What each receiver is sent about `incident` now.

    `transition` is what the tracker just found, or None; `fresh` says that a failing observation of it was just made,
    `joined` that another sign has joined what was told.
    """
    if incident.status is not IncidentStatus.FIRING:
        return _closing(incident, transition)
    named = circumstances.plan.receivers_for(incident.key, incident.labels, incident.severity)
    receivers = list(named)
    notified = dict(incident.notified)
    reasons: dict[str, DecisionReason] = {}
    notifications = []
    for receiver in receivers:  # grows meanwhile: nobody answered, so others are told as well
        before = notified.get(receiver)
        if before is not None and before.at > now:
            before = replace(before, at=now)  # the wall clock was set back; reminders count from here
            notified[receiver] = before
        if receiver in named or before is not None:
            reason = _about_receiver(incident, receiver, before, circumstances, fresh=fresh, now=now)
            if joined and before is not None and reason is not DecisionReason.ESCALATED:
                reason = _unless_held_back(DecisionReason.CORROBORATED, incident, receiver, circumstances, now)
        else:
            reason = _about_next_in_line(incident, receiver, circumstances, now)
        reasons[receiver] = reason
        if reason in _SENDS:
            repeats = before is not None and reason in _REPEATS
            was_told = before is not None and incident.nature is Nature.OCCURRENCE  # what was raised is not new again
            kind = _kind(incident, repeats or was_told)
            notifications.append(Notification(incident.id, receiver, kind, incident.severity))
            counts = repeats and reason is not DecisionReason.CORROBORATED
            again = before.reminders + counts if before is not None and repeats else 0
            notified[receiver] = Notified(incident.severity, now, again, incident.count)
        elif before is not None and reason in _SKIPS_A_REMINDER and before.severity.rank >= incident.severity.rank:
            # A reminder that fell into the quiet time is left out, not put off: at its end only changes are reported.
            notified[receiver] = replace(before, at=now, reminders=before.reminders + 1)
        receivers += [
            name for name in _next_in_line(incident, receiver, notified, circumstances.plan) if name not in receivers
        ]
    changed = incident if notified == dict(incident.notified) else replace(incident, notified=notified)
    return Decision(changed, tuple(notifications), reasons)


def _next_in_line(
    incident: Incident, receiver: str, notified: Mapping[str, Notified], plan: AlertPlan
) -> tuple[str, ...]:
    """Who is told as well once the page to `receiver` had to be repeated."""
    escalate, told = plan.escalation(receiver, incident.severity), notified.get(receiver)
    return escalate.to if escalate is not None and told is not None and told.reminders else ()


def _kind(incident: Incident, repeats: bool) -> NotificationKind:
    if repeats:
        return NotificationKind.STILL_FIRING
    return NotificationKind.NEW if incident.nature is Nature.OCCURRENCE else NotificationKind.FIRING


def _closing(incident: Incident, transition: Transition | None) -> Decision:
    """The end goes exactly where a trigger went, once: nothing can hide it."""
    if transition is None or transition.kind not in (TransitionKind.RESOLVED, TransitionKind.EXPIRED):
        return Decision(incident, (), {})
    kind = NotificationKind.QUIET if transition.kind is TransitionKind.EXPIRED else NotificationKind.RESOLVED
    owed = tuple(Notification(incident.id, receiver, kind, incident.severity) for receiver in sorted(incident.notified))
    return Decision(incident, owed, {note.receiver: DecisionReason.ENDED for note in owed})


def _about_receiver(
    incident: Incident, receiver: str, last: Notified | None, circumstances: Circumstances, *, fresh: bool, now: float
) -> DecisionReason:
    """The one reason why `receiver` is notified of an open incident now, or is not."""
    raised = last is not None and last.severity.rank < incident.severity.rank
    if last is None or raised:
        held_back = _held_back(incident, receiver, circumstances, now)
        if held_back is not None:
            return held_back
        if not fresh and incident.nature is Nature.CONDITION:
            # What held it back has just ended: the next look tells whether there is still something to say.
            return DecisionReason.AWAITING_EVIDENCE
        if receiver in circumstances.full:
            return DecisionReason.OUTBOX_FULL
        return DecisionReason.ESCALATED if raised else DecisionReason.FIRST
    return _about_reminder(incident, receiver, last, circumstances, now)


def _about_next_in_line(incident: Incident, receiver: str, circumstances: Circumstances, now: float) -> DecisionReason:
    """Whether a receiver that would not hear of it by itself is told now, because nobody answered the page."""
    if incident.acknowledged_at is not None:
        return DecisionReason.ACKNOWLEDGED
    return _unless_held_back(DecisionReason.UNANSWERED, incident, receiver, circumstances, now)


def _unless_held_back(
    reason: DecisionReason, incident: Incident, receiver: str, circumstances: Circumstances, now: float
) -> DecisionReason:
    """`reason`, unless something keeps a message about `incident` from `receiver` now."""
    held_back = _held_back(incident, receiver, circumstances, now)
    if held_back is None and receiver in circumstances.full:
        return DecisionReason.OUTBOX_FULL
    return held_back or reason


def _held_back(incident: Incident, receiver: str, circumstances: Circumstances, now: float) -> DecisionReason | None:
    """Why nothing new about `incident` may reach `receiver` now, or None."""
    if held_for_the_first(incident, circumstances.standby, now):
        return DecisionReason.STANDBY
    runs_on = circumstances.plan.runs_on
    if silenced_by(incident, circumstances.silences, now, runs_on):
        return DecisionReason.SILENCED
    if maintained_by(incident, circumstances.plan.maintenance, now, runs_on):
        return DecisionReason.MAINTENANCE
    inhibitor = inhibitor_of(incident, circumstances.open_incidents, circumstances.plan)
    if inhibitor is not None and receiver in inhibitor.notified:
        return DecisionReason.INHIBITED  # only where the explanation itself was heard
    return None


def _about_reminder(
    incident: Incident, receiver: str, last: Notified, circumstances: Circumstances, now: float
) -> DecisionReason:
    """Whether a receiver that was told everything is due a reminder."""
    alerting = circumstances.plan.alerting
    escalate = circumstances.plan.escalation(receiver, incident.severity)
    if escalate is not None:
        wait_s = escalate.every_s if last.reminders else escalate.after_s
    else:
        wait_s = alerting.reminder_every_s if last.reminders else alerting.reminder_first_s
    if wait_s <= 0:
        return DecisionReason.ALREADY_NOTIFIED
    if now - last.at < wait_s:
        return DecisionReason.NOT_DUE
    if incident.acknowledged_at is not None:
        return DecisionReason.ACKNOWLEDGED
    if escalate is None and incident.nature is Nature.OCCURRENCE and incident.count <= last.count:
        return DecisionReason.NOTHING_NEW
    due = DecisionReason.REMINDER if escalate is None else DecisionReason.UNANSWERED
    return _unless_held_back(due, incident, receiver, circumstances, now)


def ended(incident: Incident, reason: StepReason, kind: TransitionKind, now: float) -> Incident:
    status = IncidentStatus.EXPIRED if kind is TransitionKind.EXPIRED else IncidentStatus.RESOLVED
    return replace(incident, status=status, closed_at=now, end_reason=reason)


# Ids of incidents: short, sortable by time, easy to read aloud.

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o or u, so an id can be read aloud and typed from a phone."""
_ID_EPOCH = 1_577_836_800  # 2020-01-01, keeps ids at 8 characters until 2054
_ID_LENGTH = 8


def incident_id(now: float, last: str, entropy: int) -> str:
    """A new id: 8 characters that sort by time, always after `last`, even if the clock was set back.

    `entropy` (0 to 1023) keeps two watchdogs that page the same phone apart.
    """
    number = max(0, int(now) - _ID_EPOCH) * 1024 + entropy % 1024
    number = max(number, _id_number(last) + 1)
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(_ID_LENGTH)))


def _id_number(text: str) -> int:
    number = 0
    for letter in text[:_ID_LENGTH]:
        number = number * 32 + max(0, _ALPHABET.find(letter))
    return number
