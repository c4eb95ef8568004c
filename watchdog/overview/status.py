"""What is now, as one JSON object: the same for `status --json` and `/api/status` (docs/api.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.codec import from_json
from watchdog.model import DeliveryState, Maintenance
from watchdog.overview.drift import Drift, drifts
from watchdog.store import MAINTENANCE, PLAN, Reader, Snapshot
from watchdog.store.files import lock_holder
from watchdog.text import duration

if TYPE_CHECKING:
    from watchdog.model import Diagnosis, Incident, Silence
    from watchdog.overview.drift import Drift
    from watchdog.store import Snapshot
    from watchdog.store.reader import KeyView

VERSION = 1
"""Of the shape of the status object; a field that is added does not change it, one that changes its meaning does."""
STALE_INTERVALS = 3
"""No observation for so many of the shortest interval (and 30 s) means that no daemon is writing here."""
Plan = Mapping[str, Mapping[str, Any]]
"""Check key → `interval_s` and `failures`, as the daemon runs it."""


class Health(StrEnum):
    """How it all stands, in one word. `STALE`: nobody has looked for a while, so nothing is known."""

    WELL = "well"
    WARNING = "warning"
    FIRING = "firing"
    STALE = "stale"


def is_stale(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether no daemon seems to be writing: old good news is no news."""
    shortest_s = min((row["interval_s"] for row in plan.values()), default=0.0)
    limit_s = 30.0 + STALE_INTERVALS * shortest_s
    return snapshot.latest_at is None or snapshot.at - snapshot.latest_at > limit_s


def health_of(snapshot: Snapshot, plan: Plan, drifts: Mapping[str, Drift]) -> Health:
    """The one word for `snapshot`: stale beats everything, then an open page, then whatever is not quite well."""
    if is_stale(snapshot, plan):
        return Health.STALE
    severities = {incident.severity.value for incident in snapshot.open_incidents}
    if "page" in severities:
        return Health.FIRING
    unwell = severities or drifts or any(view.phase.value != "ok" for view in snapshot.keys)
    return Health.WARNING if unwell else Health.WELL


def status_json(
    snapshot: Snapshot, plan: Plan, windows: Sequence[Maintenance] = (), drifts: Mapping[str, Drift] | None = None
) -> dict[str, Any]:
    """The status object; times are Unix seconds."""
    slow = drifts or {}
    return {
        "version": VERSION,
        "health": health_of(snapshot, plan, slow).value,
        "at": snapshot.at,
        "latest_at": snapshot.latest_at,
        "storage": snapshot.storage,
        "checks": [check_json(view, plan.get(view.key, {}), slow.get(view.key)) for view in snapshot.keys],
        "incidents": [_incident_json(incident, snapshot) for incident in snapshot.open_incidents],
        "receivers": [
            {
                "receiver": receiver.name,
                "waiting": receiver.waiting,
                "delivered_at": receiver.delivered_at,
                "failed_at": receiver.failed_at,
                "failures": receiver.failures,
                "detail": receiver.detail,
            }
            for receiver in snapshot.receivers
        ],
        "silences": [silence_json(silence) for silence in snapshot.silences],
        "maintenance": maintenance_json(windows, snapshot.at),
        "blind": [
            {"began_at": window.began_at, "ended_at": window.ended_at, "check": window.key, "reason": window.reason}
            for window in snapshot.blind
        ],
    }


def check_json(view: KeyView, run: Mapping[str, Any], drift: Drift | None = None) -> dict[str, Any]:
    """One tracked key as JSON; `failures`, `interval_s` and `next_at` are null for what is no check of its own."""
    last = view.last
    interval_s = run.get("interval_s")
    return {
        "check": view.key,
        "phase": view.phase.value,
        "fails": view.state.fails,
        "failures": run.get("failures"),
        "interval_s": interval_s,
        "since": view.state.since,
        "last_good_at": view.state.last_good_at,
        "reason": last.reason if last else None,
        "verdict": last.verdict.value if last else None,
        "summary": last.statement if last else None,
        "last_at": last.at if last else None,
        "next_at": last.at + interval_s if last and interval_s else None,
        "duration_s": last.duration_s if last else None,
        "measurements": dict(last.measurements) if last else {},
        "drift": drift_json(drift),
        "incident": view.incident_id,
    }


def drift_json(drift: Drift | None) -> dict[str, Any] | None:
    """How a living server is slower than itself, or null."""
    if drift is None:
        return None
    return {
        "measure": drift.measure,
        "factor": round(drift.factor, 2),
        "now": drift.now_value,
        "usual": drift.usual_value,
        "text": str(drift),
    }


def _incident_json(incident: Incident, snapshot: Snapshot) -> dict[str, Any]:
    seen_by = snapshot.acknowledged.get(incident.id)
    return {
        "id": incident.id,
        "check": incident.key,
        "severity": incident.severity.value,
        "reason": incident.reason,
        "reasons": list(incident.reasons),
        "summary": incident.statement,
        "diagnosis": diagnosis_json(incident.diagnosis),
        "since": incident.since,
        "last_at": incident.last_at,
        "count": incident.count,
        "acknowledged_at": seen_by.at if seen_by else incident.acknowledged_at,
    }


def diagnosis_json(diagnosis: Diagnosis | None) -> dict[str, str] | None:
    """What most likely lies behind an incident, how sure that is, and where to look; null without one."""
    if diagnosis is None:
        return None
    return {
        "sentence": diagnosis.sentence,
        "confidence": diagnosis.confidence.value,
        "look_at": diagnosis.look_at,
    }


def silence_json(silence: Silence) -> dict[str, object]:
    """One silence as JSON; times are Unix seconds."""
    return {
        "id": silence.id,
        "matcher": dict(silence.matcher),
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "reason": silence.reason,
        "author": silence.author,
    }


def maintenance_json(windows: Sequence[Maintenance], now: float) -> list[dict[str, Any]]:
    """Each window with its present and its next time (begin and end in Unix seconds), or null."""
    from watchdog.policy import next_window, window_at  # noqa: PLC0415 - the command line starts without it

    return [
        {
            "name": window.name,
            "matcher": dict(window.matcher),
            "now": window_at(window, now),
            "next": next_window(window, now),
        }
        for window in windows
    ]


def planned(stored: Any) -> tuple[Maintenance, ...]:
    """The maintenance windows that the daemon runs by, as it wrote them down."""
    return tuple(from_json(Maintenance, one) for one in stored or ())


def matcher_words(matcher: Mapping[str, str]) -> str:
    """A matcher as it is written on the command line."""
    return " ".join(f"{label}={value}" for label, value in matcher.items())


# Everything that is now, read once, for the status, the page and the report.

JUST_STARTED_S = 90.0
"""A daemon may take so long until its first observation: the longest patience of a probe, and its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The snapshot, what the daemon runs by, which servers are slower than they use to be (by check key), and since
    when receivers refuse everything (by name, Unix seconds).
    """

    snapshot: Snapshot
    plan: Plan
    windows: tuple[Maintenance, ...] = ()
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    failing_since: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, reader: Reader, now: float, state_dir: Path | None = None) -> Now:
        """As `reader` has it at `now` (Unix seconds).

        With `state_dir`, the snapshot of a state that nobody writes says in `storage` when a daemon runs there all the
        same: it cannot write, on a full disk for example.
        """
        snapshot = reader.snapshot(now)
        plan: Plan = reader.memory(PLAN) or {}
        if state_dir is not None and snapshot.storage is None and is_stale(snapshot, plan):
            snapshot = replace(snapshot, storage=_unwritten(state_dir, snapshot))
        return cls(
            snapshot=snapshot,
            plan=plan,
            windows=planned(reader.memory(MAINTENANCE)),
            drifts=drifts(reader, (view.key for view in snapshot.keys), now),
            failing_since=_failing_since(reader, snapshot),
        )

    @property
    def health(self) -> Health:
        """How it all stands."""
        return health_of(self.snapshot, self.plan, self.drifts)

    @property
    def is_stale(self) -> bool:
        """Whether no daemon seems to be writing."""
        return is_stale(self.snapshot, self.plan)

    def as_json(self) -> dict[str, Any]:
        """The status object."""
        return status_json(self.snapshot, self.plan, self.windows, self.drifts)


def _unwritten(state_dir: Path, snapshot: Snapshot) -> str | None:
    """Why nothing is written though a daemon runs; None if none does."""
    found = lock_holder(state_dir)
    if found is None:
        return None
    who = "a daemon" if found.process is None else f"a daemon (process {found.process})"
    running_s = snapshot.at - found.since
    wrote = snapshot.latest_at is not None and snapshot.latest_at > found.since
    if not wrote and 0 <= running_s < JUST_STARTED_S:
        return f"{who} has started here {duration(running_s)} ago and has observed nothing yet"
    return f"{who} runs here but cannot write its state: look at its log and at the space on the disk"


def _failing_since(reader: Reader, snapshot: Snapshot) -> dict[str, float]:
    """When the first message that is still not delivered was due, of each receiver that failed last."""
    proven = {one.name: one.delivered_at or 0.0 for one in snapshot.receivers if one.failures}
    if not proven:
        return {}
    since = {one.name: one.failed_at for one in snapshot.receivers if one.name in proven and one.failed_at is not None}
    for row in reader.deliveries():
        good_at = proven.get(row.receiver)
        if good_at is None or not row.attempt or row.state is DeliveryState.DELIVERED:
            continue
        if row.done_at is None or row.done_at > good_at:
            began_at = max(row.created_at, good_at)
            since[row.receiver] = min(since.get(row.receiver, began_at), began_at)
    return since
