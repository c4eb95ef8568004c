"""States, incidents and silences as compact JSON, and back. Unknown fields of a newer version are ignored."""

from __future__ import annotations

import json
from typing import Any

from watchdog.model import (
    Cause,
    Confidence,
    Diagnosis,
    Evidence,
    Incident,
    IncidentStatus,
    Json,
    Nature,
    Phase,
    Severity,
    Silence,
    StepReason,
    Told,
    TrackState,
)
from watchdog.text import clean_line


def dump(value: Json) -> str:
    """`value` as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def load(text: str) -> Json:
    """The value of a JSON text."""
    return json.loads(text)


def track_to_text(state: TrackState) -> str:
    """A tracking state as text."""
    return dump(
        {
            "nature": state.nature,
            "phase": state.phase,
            "counts": [state.fails, state.passes, state.unknowns, state.count],
            "recent": "".join("+" if passed else "-" for passed in state.recent),
            "times": [state.since, state.last_at, state.last_good_at],
            "severity": state.severity,
            "cause": state.cause,
        }
    )


def track_from_text(text: str) -> TrackState:
    """The tracking state that `track_to_text` wrote."""
    raw = json.loads(text)
    fails, passes, unknowns, count = raw["counts"]
    since, last_at, last_good_at = raw["times"]
    return TrackState(
        nature=Nature(raw["nature"]),
        phase=Phase(raw["phase"]),
        fails=fails,
        passes=passes,
        unknowns=unknowns,
        count=count,
        recent=tuple(letter == "+" for letter in raw["recent"]),
        since=since,
        last_at=last_at,
        last_good_at=last_good_at,
        severity=Severity(raw["severity"]),
        cause=Cause(raw["cause"]),
    )


def incident_to_text(incident: Incident) -> str:
    """An incident as text."""
    return dump(
        {
            "id": incident.id,
            "key": incident.key,
            "nature": incident.nature,
            "cause": incident.cause,
            "severity": incident.severity,
            "opened_severity": incident.opened_severity,
            "reason": incident.reason,
            "summary": incident.summary,
            "since": incident.since,
            "opened_at": incident.opened_at,
            "last_at": incident.last_at,
            "status": incident.status,
            "closed_at": incident.closed_at,
            "end_reason": incident.end_reason,
            "last_good_at": incident.last_good_at,
            "count": incident.count,
            "evidence": _evidence_to_json(incident.evidence),
            "advice": incident.advice,
            "labels": dict(incident.labels),
            "told": {
                name: [told.severity, told.at, told.reminders, told.count] for name, told in incident.told.items()
            },
            "acknowledged_at": incident.acknowledged_at,
            "diagnosis": _diagnosis_to_json(incident.diagnosis),
            "reasons": list(incident.reasons),
        }
    )


def incident_from_text(text: str) -> Incident:
    """The incident that `incident_to_text` wrote."""
    raw: dict[str, Any] = json.loads(text)
    plain = ("id", "key", "reason", "summary", "since", "opened_at", "last_at", "closed_at", "last_good_at", "count")
    return Incident(
        **{name: raw[name] for name in plain},
        nature=Nature(raw["nature"]),
        cause=Cause(raw["cause"]),
        severity=Severity(raw["severity"]),
        opened_severity=Severity(raw["opened_severity"]),
        status=IncidentStatus(raw["status"]),
        end_reason=None if raw["end_reason"] is None else StepReason(raw["end_reason"]),
        evidence=_evidence_from_json(raw["evidence"]),
        advice=raw["advice"],
        labels=raw["labels"],
        told={name: Told(Severity(row[0]), row[1], row[2], row[3]) for name, row in raw["told"].items()},
        acknowledged_at=raw["acknowledged_at"],
        diagnosis=_diagnosis_from_json(raw.get("diagnosis")),
        reasons=tuple(raw.get("reasons", ())),
    )


def _evidence_to_json(evidence: tuple[Evidence, ...]) -> Json:
    return [[fact.at, fact.source, fact.text] for fact in evidence]


def _evidence_from_json(raw: Json) -> tuple[Evidence, ...]:
    return tuple(Evidence(at, source, said) for at, source, said in raw)


def _diagnosis_to_json(diagnosis: Diagnosis | None) -> Json:
    if diagnosis is None:
        return None
    return {
        "name": diagnosis.name,
        "confidence": diagnosis.confidence,
        "short": diagnosis.short,
        "sentence": diagnosis.sentence,
        "evidence": _evidence_to_json(diagnosis.evidence),
        "look_at": diagnosis.look_at,
    }


def _diagnosis_from_json(raw: Json) -> Diagnosis | None:
    if raw is None:
        return None
    plain = ("name", "short", "sentence", "look_at")
    return Diagnosis(
        **{name: raw[name] for name in plain},
        confidence=Confidence(raw["confidence"]),
        evidence=_evidence_from_json(raw["evidence"]),
    )


def silence_from_row(row: tuple[Any, ...]) -> Silence:
    """The silence of one row of `silences`, all columns in order."""
    name, matcher, starts_at, ends_at, reason, author = row
    return Silence(
        id=name,
        matcher={label: clean_line(value) for label, value in json.loads(matcher).items()},
        starts_at=starts_at,
        ends_at=ends_at,
        reason=clean_line(reason),
        author=clean_line(author),
    )
