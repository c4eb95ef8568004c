"""What explains what: incidents that fold into another one, and what an unknown observation says about our sight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from watchdog.model import Incident, IncidentStatus, Nature, Observation, Severity, Verdict
from watchdog.policy.plan import BLIND_PREFIX, AlertPlan

HOST_DOWN_REASONS = frozenset({"silent", "unroutable", "refused"})
"""Reasons of `kernel_log/<host>` that mean the whole machine cannot be reached (design §5.2)."""
OWN_ROAD_REASON = "blind"
"""Reason of an unknown observation when our own road to the network is gone (design §5.1)."""
NEVER_BLIND_REASONS = frozenset({"shutdown", "asleep"})
"""Unknown observations that say nothing about our sight: we are stopping; an on-demand server holds no model."""
NEVER_BLIND_KEYS = ("self/", "vitals/")
"""Keys whose blindness is no incident: vitals are evidence, `kernel_log/<host>` speaks of a host that is not read."""


def inhibitor_of(incident: Incident, open_incidents: Iterable[Incident], plan: AlertPlan) -> Incident | None:
    """The open incident that `incident` folds into, or None.

    A host that cannot be reached explains everything that runs on it; one lost road of our own explains every
    target that we are blind to for that reason (the oldest such incident speaks for all).
    """
    hosts = {incident.labels.get("host", ""), *plan.runs_on.get(incident.labels.get("server", ""), ())} - {""}
    for other in open_incidents:
        if other.id == incident.id or other.status is not IncidentStatus.FIRING:
            continue
        if _is_host_down(other) and other.labels.get("host") in hosts and not _is_host_down(incident):
            return other
        if _is_own_road(incident) and _is_own_road(other) and other.id < incident.id:
            return other
    return None


def may_inhibit(incident: Incident) -> bool:
    """Whether other incidents could fold into this one at all."""
    return _is_host_down(incident) or _is_own_road(incident)


def _is_host_down(incident: Incident) -> bool:
    kind, _, host = incident.key.partition("/")
    return kind == "kernel_log" and "/" not in host and incident.reason in HOST_DOWN_REASONS


def _is_own_road(incident: Incident) -> bool:
    return incident.key.startswith(BLIND_PREFIX) and incident.reason == OWN_ROAD_REASON


def blind_observation(observation: Observation, *, was_blind: bool) -> Observation | None:
    """What an observation says about our own sight of its key: a fail if we could not tell, a pass if we could again.

    None if it says nothing: a key that never was unknown needs no pass, and our own stopping is no blindness.
    """
    unknown = observation.verdict is Verdict.UNKNOWN
    if observation.key.startswith(NEVER_BLIND_KEYS) or (unknown and observation.reason in NEVER_BLIND_REASONS):
        return None
    if not unknown and not was_blind:
        return None
    summary = f"blind to {observation.key}: {observation.summary}" if unknown else f"{observation.key} seen again"
    return replace(
        observation,
        key=BLIND_PREFIX + observation.key,
        verdict=Verdict.FAIL if unknown else Verdict.PASS,
        severity=Severity.WARN,
        nature=Nature.CONDITION,
        summary=summary,
        measurements={},
        count=1,
    )
