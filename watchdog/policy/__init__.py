"""Who hears what, when. Pure: the plan, the decision about every incident, silences, folding, incident ids."""

from watchdog.policy.decision import OUTBOX_LIMIT, Circumstances, Decision, DecisionReason, decide, ended
from watchdog.policy.fold import blind_observation, inhibitor_of, may_inhibit
from watchdog.policy.incident_id import incident_id
from watchdog.policy.plan import BLIND_PREFIX, DELIVERY_PREFIX, AlertPlan, Target
from watchdog.policy.queue import Fate, Waiting, fate, pause_s, row_pause_s
from watchdog.policy.quiet import (
    LABELS,
    maintained_by,
    maintenance_from_json,
    maintenance_of,
    maintenance_to_json,
    matches,
    next_window,
    silenced_by,
    window_at,
)
from watchdog.policy.standby import ID_MARK, Standby, held_for_the_first

__all__ = [
    "BLIND_PREFIX",
    "DELIVERY_PREFIX",
    "ID_MARK",
    "LABELS",
    "OUTBOX_LIMIT",
    "AlertPlan",
    "Circumstances",
    "Decision",
    "DecisionReason",
    "Fate",
    "Standby",
    "Target",
    "Waiting",
    "blind_observation",
    "decide",
    "ended",
    "fate",
    "held_for_the_first",
    "incident_id",
    "inhibitor_of",
    "maintained_by",
    "maintenance_from_json",
    "maintenance_of",
    "maintenance_to_json",
    "matches",
    "may_inhibit",
    "next_window",
    "pause_s",
    "row_pause_s",
    "silenced_by",
    "window_at",
]
