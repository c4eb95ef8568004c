"""The decision about one incident: what each receiver is told now, and the named reason of every answer.

Level-triggered: it compares what each receiver was told with what is true now, so a silence that ends, a host that
comes back or a receiver that is new needs no event of its own. Nothing here ever keeps an end (RESOLVED, QUIET) from
a receiver that was told of the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from watchdog.model import (
    Incident,
    IncidentStatus,
    Nature,
    Notification,
    NotificationKind,
    Silence,
    StepReason,
    Told,
    Transition,
    TransitionKind,
)
from watchdog.policy.fold import inhibitor_of
from watchdog.policy.plan import AlertPlan
from watchdog.policy.quiet import maintained_by, silenced_by
from watchdog.policy.standby import Standby, held_for_the_first

OUTBOX_LIMIT = 5000
"""Undelivered rows one receiver may have before new triggers wait outside (ends always fit)."""


class DecisionReason(StrEnum):
    """Why a receiver is told something now, or is not."""

    FIRST = "first"
    ESCALATED = "escalated"
    REMINDER = "reminder"
    ENDED = "ended"
    ALREADY_TOLD = "already_told"
    NEVER_TOLD = "never_told"
    NOT_DUE = "not_due"
    NOTHING_NEW = "nothing_new"
    SILENCED = "silenced"
    MAINTENANCE = "maintenance"
    FOLDED = "folded"
    STANDBY = "standby"
    ACKNOWLEDGED = "acknowledged"
    AWAITING_EVIDENCE = "awaiting_evidence"
    OUTBOX_FULL = "outbox_full"


_SKIPS_A_REMINDER = (DecisionReason.SILENCED, DecisionReason.MAINTENANCE)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one incident now: notifications to queue, the incident with `told` updated, and why.

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
    incident: Incident, transition: Transition | None, circumstances: Circumstances, *, fresh: bool, now: float
) -> Decision:
    """What each receiver is told about `incident` now.

    `transition` is what the tracker just said, or None; `fresh` says that a failing observation of it was just made.
    """
    if incident.status is not IncidentStatus.FIRING:
        return _closing(incident, transition)
    receivers = circumstances.plan.receivers_for(incident.key, incident.labels, incident.severity)
    told = dict(incident.told)
    reasons: dict[str, DecisionReason] = {}
    notifications = []
    for receiver in receivers:
        before = told.get(receiver)
        if before is not None and before.at > now:
            before = replace(before, at=now)  # the wall clock was set back; reminders count from here
            told[receiver] = before
        reason = _about_receiver(incident, receiver, before, circumstances, fresh=fresh, now=now)
        reasons[receiver] = reason
        if reason in (DecisionReason.FIRST, DecisionReason.ESCALATED, DecisionReason.REMINDER):
            kind = _kind(incident, reason)
            notifications.append(Notification(incident.id, receiver, kind, incident.severity))
            again = (before.reminders if before else 0) + 1 if reason is DecisionReason.REMINDER else 0
            told[receiver] = Told(incident.severity, now, again, incident.count)
        elif before is not None and reason in _SKIPS_A_REMINDER and before.severity.rank >= incident.severity.rank:
            # A reminder that fell into the quiet time is left out, not put off: its end speaks only about what changed.
            told[receiver] = replace(before, at=now, reminders=before.reminders + 1)
    changed = incident if told == dict(incident.told) else replace(incident, told=told)
    return Decision(changed, tuple(notifications), reasons)


def _kind(incident: Incident, reason: DecisionReason) -> NotificationKind:
    if reason is DecisionReason.REMINDER:
        return NotificationKind.STILL_FIRING
    return NotificationKind.NEW if incident.nature is Nature.OCCURRENCE else NotificationKind.FIRING


def _closing(incident: Incident, transition: Transition | None) -> Decision:
    """The end goes exactly where a trigger went, once: nothing can hide it."""
    if transition is None or transition.kind not in (TransitionKind.RESOLVED, TransitionKind.EXPIRED):
        return Decision(incident, (), {})
    kind = NotificationKind.QUIET if transition.kind is TransitionKind.EXPIRED else NotificationKind.RESOLVED
    owed = tuple(Notification(incident.id, receiver, kind, incident.severity) for receiver in sorted(incident.told))
    return Decision(incident, owed, {note.receiver: DecisionReason.ENDED for note in owed})


def _about_receiver(
    incident: Incident, receiver: str, told: Told | None, circumstances: Circumstances, *, fresh: bool, now: float
) -> DecisionReason:
    """The one reason why `receiver` is told something about an open incident now, or is not."""
    raised = told is not None and told.severity.rank < incident.severity.rank
    if told is None or raised:
        held_back = _held_back(incident, receiver, circumstances, now)
        if held_back is not None:
            return held_back
        if not fresh and incident.nature is Nature.CONDITION:
            # What held it back has just ended: the next look tells whether there is still something to say.
            return DecisionReason.AWAITING_EVIDENCE
        if receiver in circumstances.full:
            return DecisionReason.OUTBOX_FULL
        return DecisionReason.ESCALATED if raised else DecisionReason.FIRST
    return _about_reminder(incident, receiver, told, circumstances, now)


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
    if inhibitor is not None and receiver in inhibitor.told:
        return DecisionReason.FOLDED  # only where the explanation itself was heard
    return None


def _about_reminder(
    incident: Incident, receiver: str, told: Told, circumstances: Circumstances, now: float
) -> DecisionReason:
    """Whether a receiver that was told everything is due a reminder."""
    alerting = circumstances.plan.alerting
    wait_s = alerting.reminder_every_s if told.reminders else alerting.reminder_first_s
    if wait_s <= 0:
        return DecisionReason.ALREADY_TOLD
    if now - told.at < wait_s:
        return DecisionReason.NOT_DUE
    if incident.acknowledged_at is not None:
        return DecisionReason.ACKNOWLEDGED
    if incident.nature is Nature.OCCURRENCE and incident.count <= told.count:
        return DecisionReason.NOTHING_NEW
    held_back = _held_back(incident, receiver, circumstances, now)
    if held_back is not None:
        return held_back
    return DecisionReason.OUTBOX_FULL if receiver in circumstances.full else DecisionReason.REMINDER


def ended(incident: Incident, reason: StepReason, kind: TransitionKind, now: float) -> Incident:
    """`incident` closed now, because of `reason`."""
    status = IncidentStatus.EXPIRED if kind is TransitionKind.EXPIRED else IncidentStatus.RESOLVED
    return replace(incident, status=status, closed_at=now, end_reason=reason)
