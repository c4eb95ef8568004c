"""What the watchdog says about itself, and the log line of every decision."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from watchdog.ingest.incidents import Draft
from watchdog.message import rehearsal
from watchdog.model import Notification, NotificationKind, Observation, Severity, TransitionKind, Verdict
from watchdog.store import Queued

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A test alert on its way: the id its messages carry, and who gets them."""

    incident_id: str
    receivers: tuple[str, ...]


def rehearsal_messages(test: Rehearsal, now: float, sent_from: str) -> list[Queued]:
    """The trigger and the end of a test alert for each of its receivers, for the outbox."""
    kinds = (NotificationKind.FIRING, NotificationKind.RESOLVED)
    return [
        Queued(Notification(test.incident_id, receiver, kind, Severity.INFO), rehearsal(kind, sent_from), now)
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
    labels: dict[str, str] | None = None,
) -> Observation:
    """What the watchdog says about itself: never louder than a warning."""
    return Observation(
        key=key,
        verdict=verdict,
        reason=reason,
        severity=Severity.WARN,
        summary=summary,
        at=now,
        advice=advice,
        labels=labels or {},
    )


_EVENTS = {
    TransitionKind.OPENED: "incident opened",
    TransitionKind.ESCALATED: "incident raised",
    TransitionKind.RESOLVED: "incident resolved",
    TransitionKind.EXPIRED: "incident went quiet",
}


def log_decisions(draft: Draft) -> None:
    """One line per change of an incident or message about it: what, why, and who hears of it."""
    for incident, said, decision in draft.decisions:
        _log.info(
            _EVENTS[said.kind] if said else "incident told again",
            incident=incident.id,
            key=incident.key,
            severity=incident.severity.value,
            reason=incident.reason,
            why=said.reason.value if said else None,
            receivers={name: why.value for name, why in decision.reasons.items()},
        )
