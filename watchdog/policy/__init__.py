"""Who hears what, when. Pure: the plan, the decision about every incident, silences, folding, incident ids."""

from watchdog.policy.decision import (
    ID_MARK,
    OUTBOX_LIMIT,
    Circumstances,
    Decision,
    DecisionReason,
    Standby,
    blind_observation,
    decide,
    ended,
    held_for_the_first,
    incident_id,
    inhibitor_of,
    may_inhibit,
)
from watchdog.policy.plan import AlertPlan, Target
from watchdog.policy.retry import QueueDecision, Waiting, pause_s, queue_decision, refused_row_pause_s, row_pause_s
from watchdog.policy.silences import (
    LABELS,
    maintained_by,
    maintenance_of,
    matches,
    next_window,
    silenced_by,
    window_at,
)

__all__ = [
    "ID_MARK",
    "LABELS",
    "OUTBOX_LIMIT",
    "AlertPlan",
    "Circumstances",
    "Decision",
    "DecisionReason",
    "QueueDecision",
    "Standby",
    "Target",
    "Waiting",
    "blind_observation",
    "decide",
    "ended",
    "held_for_the_first",
    "incident_id",
    "inhibitor_of",
    "maintained_by",
    "maintenance_of",
    "matches",
    "may_inhibit",
    "next_window",
    "pause_s",
    "queue_decision",
    "refused_row_pause_s",
    "row_pause_s",
    "silenced_by",
    "window_at",
]
