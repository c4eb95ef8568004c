"""The words of this program as frozen types. No behaviour beyond comparing and naming.

Times are Unix seconds (float), durations are seconds; both say so in their names (`…_at`, `…_s`).
"""

from watchdog.model.delivery import (
    Delivery,
    DeliveryState,
    Notification,
    NotificationKind,
    Outcome,
    OutcomeReason,
    Text,
)
from watchdog.model.incident import (
    Cause,
    Confidence,
    Diagnosis,
    Incident,
    IncidentStatus,
    Notified,
    Phase,
    StepReason,
    Thresholds,
    TrackState,
    Transition,
    TransitionKind,
)
from watchdog.model.observation import (
    Check,
    CheckProgress,
    CheckResult,
    Evidence,
    Json,
    Nature,
    Observation,
    Severity,
    Verdict,
    split_statement,
    statement_of,
)
from watchdog.model.silence import Maintenance, Silence, Weekday, matches_value

__all__ = [
    "Cause",
    "Check",
    "CheckProgress",
    "CheckResult",
    "Confidence",
    "Delivery",
    "DeliveryState",
    "Diagnosis",
    "Evidence",
    "Incident",
    "IncidentStatus",
    "Json",
    "Maintenance",
    "Nature",
    "Notification",
    "NotificationKind",
    "Notified",
    "Observation",
    "Outcome",
    "OutcomeReason",
    "Phase",
    "Severity",
    "Silence",
    "StepReason",
    "Text",
    "Thresholds",
    "TrackState",
    "Transition",
    "TransitionKind",
    "Verdict",
    "Weekday",
    "matches_value",
    "split_statement",
    "statement_of",
]
