"""What the watchdog reports about itself, and the log line of every decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from watchdog.ingest.unit_of_work import UnitOfWork
from watchdog.kinds import CHECK
from watchdog.message import test_alert_text
from watchdog.model import Evidence, Notification, NotificationKind, Observation, Severity, TransitionKind, Verdict
from watchdog.reasons import OwnReason
from watchdog.store import Queued
from watchdog.text import bounded_repr

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SentTestAlert:
    """A test alert on its way: the id its messages carry, and who gets them."""

    incident_id: str
    receivers: tuple[str, ...]


def test_alert_messages(test: SentTestAlert, now: float, sent_from: str) -> list[Queued]:
    """The trigger (as loud as a page) and the end of a test alert for each of its receivers, for the outbox."""
    kinds = (NotificationKind.FIRING, NotificationKind.RESOLVED)
    return [
        Queued(Notification(test.incident_id, receiver, kind, Severity.PAGE), test_alert_text(kind, sent_from), now)
        for receiver in test.receivers
        for kind in kinds
    ]


def own_observation(
    key: str,
    verdict: Verdict,
    reason: str,
    summary: str,
    now: float,
    *,
    advice: str = "",
    subject: str = "",
    labels: dict[str, str] | None = None,
) -> Observation:
    """What the watchdog reports about itself: never above `warn`."""
    return Observation(
        key=key,
        verdict=verdict,
        reason=reason,
        severity=Severity.WARN,
        summary=summary,
        at=now,
        advice=advice,
        labels=labels or {},
        subject=subject,
    )


def untaken_observation(check: str, untaken: Sequence[tuple[Observation, Exception]], now: float) -> Observation:
    """That findings of `check` could not be told, as severe as the gravest of them; with none, that all are told."""
    if not untaken:
        return own_observation(CHECK.key(check), Verdict.PASS, OwnReason.OK, f"all findings of {check} are told", now)
    count = len(untaken)
    found = own_observation(
        CHECK.key(check),
        Verdict.FAIL,
        OwnReason.BUG,
        f"{count} finding{'s' * (count != 1)} of {check} could not be processed: {type(untaken[0][1]).__name__}",
        now,
        advice="Read what was found in the evidence and the log, and report this fault.",
    )
    severity = max((Severity.WARN, *(seen.severity for seen, _ in untaken)), key=lambda one: one.rank)
    facts = tuple(Evidence(now, "watchdog", bounded_repr(seen)) for seen, _ in untaken[:10])
    return replace(found, severity=severity, evidence=facts)


_EVENTS = {
    TransitionKind.OPENED: "incident opened",
    TransitionKind.ESCALATED: "incident escalated",
    TransitionKind.RESOLVED: "incident resolved",
    TransitionKind.EXPIRED: "incident expired",
}


def log_decisions(work: UnitOfWork) -> None:
    """One line per change of an incident or message about it: what, why, and who is notified."""
    for incident, transition, decision in work.decisions:
        _log.info(
            _EVENTS[transition.kind] if transition else "incident reminder",
            incident=incident.id,
            key=incident.key,
            severity=incident.severity.value,
            reason=incident.reason,
            why=transition.reason.value if transition else None,
            receivers={name: why.value for name, why in decision.reasons.items()},
        )
