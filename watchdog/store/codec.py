"""States, incidents and silences as the text columns of the database, and back."""

from __future__ import annotations

import json
import math
from typing import Any

from watchdog.json_values import from_json, to_json
from watchdog.model import Incident, Json, Silence, TrackState, split_statement, statement_of
from watchdog.text import clean_line, without_surrogates

_PACKED = {"counts": ("fails", "passes", "unknowns", "count"), "times": ("since", "last_at", "last_good_at")}
"""Fields of a tracking state that are stored as one list: there is a state per key, and it is rewritten often."""


def dump(value: Json) -> str:
    """`value` as JSON without spaces, in any case text that can be stored: the last line of defence.

    Lone surrogates become question marks, and numbers that JSON cannot write become null.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False)
    return without_surrogates(text)


def _finite(value: Json) -> Json:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def track_to_text(state: TrackState) -> str:
    raw = to_json(state)
    for group, names in _PACKED.items():
        raw[group] = [raw.pop(name) for name in names]
    raw["recent"] = "".join("+" if passed else "-" for passed in state.recent)
    for name in ("struck_at", "failing_since"):
        if raw[name] is None:
            del raw[name]
    return dump(raw)


def track_from_text(text: str) -> TrackState:
    raw = json.loads(text)
    for group, names in _PACKED.items():
        raw |= zip(names, raw.pop(group), strict=True)
    raw["recent"] = [letter == "+" for letter in raw["recent"]]
    return from_json(TrackState, raw)


_UNSET = {"unit": "", "at_least": False, "detail": "", "look_only": False}
"""Fields that are stored only where they are set."""


def incident_to_text(incident: Incident) -> str:
    """An incident as text: its subject in front of the summary, as every version wrote it."""
    raw = to_json(incident)
    raw["summary"] = statement_of(incident.subject, incident.summary)
    if split_statement(raw["summary"], _named(raw)) == (incident.subject, incident.summary):
        del raw["subject"]
    return dump({name: value for name, value in raw.items() if name not in _UNSET or value != _UNSET[name]})


def incident_from_text(text: str) -> Incident:
    raw = json.loads(text)
    raw["subject"], raw["summary"] = split_statement(raw["summary"], raw.get("subject", _named(raw)))
    return from_json(Incident, raw)


def _named(raw: Json) -> str:
    labels = raw["labels"]
    return str(labels.get("server") or labels.get("host") or labels.get("receiver") or "")


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
