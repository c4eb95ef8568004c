"""What is now, read once for the status, the page and the report, and as JSON (docs/api.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from watchdog.engines.slowness import FACTOR
from watchdog.json_values import from_json, to_json
from watchdog.kinds import GENERATION, KERNEL_LOG, SLOW, row_of
from watchdog.model import DeliveryState, Diagnosis, Incident, Maintenance, Phase, Severity, Verdict
from watchdog.policy import PATIENCE, PatienceReason, next_window, window_at
from watchdog.reasons import ServerReason
from watchdog.store import MAINTENANCE, NEXT_PROBES, PLAN, Reader, Snapshot
from watchdog.store.files import lock_holder
from watchdog.store.reader import KeyView, ReceiverView
from watchdog.text import duration, quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How many times slower than usual (`factor`), by which measure, and as a sentence."""

    measure: str
    factor: float
    now_value: float
    usual_value: float
    text: str


def drifts(snapshot: Snapshot) -> dict[str, Drift]:
    """Key of a generation check → its drift, for those that are alive and at least `FACTOR` times slower than usual."""
    passing = {view.key for view in snapshot.keys if view.last is not None and view.last.verdict is Verdict.PASS}
    found = {
        GENERATION.key(SLOW.target_of(view.key)): drift
        for view in snapshot.keys
        if SLOW.has(view.key) and (drift := _drift_of(view)) is not None
    }
    return {key: drift for key, drift in found.items() if key in passing}


def _drift_of(view: KeyView) -> Drift | None:
    seen = view.last.measurements if view.last is not None else {}
    measure = next((name for name in ("ttft_s", "tokens_per_s") if name in seen), None)
    factor = seen.get("slow_factor", 1.0)
    if measure is None or view.last is None or factor < FACTOR:
        return None
    usual = seen.get(f"usual_{measure}", 0.0)
    return Drift(measure=measure, factor=factor, now_value=seen[measure], usual_value=usual, text=view.last.summary)


VERSION = 1
"""Of the shape of the status object; a field that is added does not change it, one that changes its meaning does."""
STALE_INTERVALS = 3
"""No observation for so many of the shortest interval (and 30 s) means that no daemon is writing here."""
JUST_STARTED_S = 90.0
"""A daemon may take so long until its first observation: the longest timeout of a probe, and its start."""
Plan = Mapping[str, Mapping[str, Any]]
"""Check key → `interval_s` and `failures`, as the daemon runs it."""
NextProbes = Mapping[str, Mapping[str, Any]]
"""Check key → when it is probed again `after` which failure, and why: as the daemon keeps it."""


class Health(StrEnum):
    """How everything is, in one word. `STALE`: nothing was observed for a while, so nothing is known."""

    WELL = "well"
    WARNING = "warning"
    FIRING = "firing"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The snapshot, the plan and maintenance `windows` that the daemon runs by, which servers are slower than usual (by
    check key), since when receivers have refused everything (by name, Unix seconds), and when failing servers are
    probed again.
    """

    snapshot: Snapshot
    plan: Plan
    windows: tuple[Maintenance, ...] = ()
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    failing_since: Mapping[str, float] = field(default_factory=dict)
    next_probes: NextProbes = field(default_factory=dict)

    @classmethod
    def read(cls, reader: Reader, now: float, state_dir: Path | None = None) -> Status:
        """As `reader` has it at `now` (Unix seconds).

        With `state_dir`, the snapshot of a stale state says in `storage` when a daemon runs there all the same: it
        cannot write, on a full disk for example.
        """
        snapshot = reader.snapshot(now)
        status = cls(
            snapshot=snapshot,
            plan=reader.memory(PLAN) or {},
            windows=_maintenance(reader.memory(MAINTENANCE)),
            drifts=drifts(snapshot),
            failing_since=_failing_since(reader, snapshot),
            next_probes=reader.memory(NEXT_PROBES) or {},
        )
        if state_dir is not None and snapshot.storage is None and status.is_stale:
            return replace(status, snapshot=replace(snapshot, storage=_not_writing(state_dir, snapshot)))
        return status

    @property
    def is_stale(self) -> bool:
        """Whether no daemon seems to be writing: an old pass proves nothing."""
        shortest_s = min((row["interval_s"] for row in self.plan.values()), default=0.0)
        limit_s = 30.0 + STALE_INTERVALS * shortest_s
        return self.snapshot.latest_at is None or self.snapshot.at - self.snapshot.latest_at > limit_s

    @property
    def health(self) -> Health:
        """Stale beats everything, then an open page, then whatever is not well."""
        if self.is_stale:
            return Health.STALE
        severities = {incident.severity for incident in self.snapshot.open_incidents}
        if Severity.PAGE in severities:
            return Health.FIRING
        unwell = severities or self.drifts or any(view.phase is not Phase.OK for view in self.snapshot.keys)
        return Health.WARNING if unwell else Health.WELL

    def kernel_trouble(self, view: KeyView) -> Severity | None:
        """The gravest open kernel finding of the host whose log `view` says can be read; None for any other view."""
        if view.key != KERNEL_LOG.key(KERNEL_LOG.target_of(view.key)):
            return None
        found = [one.severity for one in self.snapshot.open_incidents if one.key.startswith(f"{view.key}/")]
        return max(found, key=lambda severity: severity.rank, default=None)

    @property
    def seats(self) -> Mapping[str, tuple[KeyView, ...]]:
        """Name of each seat → its servers, its holder first."""
        found: dict[str, list[KeyView]] = {}
        for view in self.snapshot.keys:
            if (seat := self.plan.get(view.key, {}).get("seat")) is not None:
                found.setdefault(seat, []).append(view)
        return {name: tuple(sorted(views, key=_is_away)) for name, views in found.items()}

    def strikes(self, view: KeyView) -> str:
        """The failures in a row of a check, and how many alert: `2/3`, or `2` for what is not a check of its own."""
        failures = self.plan.get(view.key, {}).get("failures")
        return f"{view.state.fails}/{failures}" if failures else f"{view.state.fails}"

    def patience_with(self, view: KeyView) -> PatienceReason | None:
        """Why a failing server is probed again when it is; None where no failure waits for another."""
        told = self._next_probe(view)
        return None if told is None else PatienceReason(told["why"])

    def _next_probe(self, view: KeyView) -> Mapping[str, Any] | None:
        told = self.next_probes.get(view.key)
        is_of_now = told is not None and view.last is not None and told["after"] == view.last.at
        return told if is_of_now and view.phase is Phase.PENDING else None

    def patience_words(self, view: KeyView) -> str:
        """`confirming, connection refused for 40 s`; "" where no failure waits for another."""
        why, last = self.patience_with(view), view.last
        if why is None or last is None:
            return ""
        row, since = row_of(view.key, last.reason), last.at if view.state.since is None else view.state.since
        said = last.reason if row is None else row.short or row.words or last.reason
        return f"{PATIENCE[why].words}, {said} for {duration(self.snapshot.at - since)}"

    def due_at(self, view: KeyView) -> float | None:
        """When the check runs next (Unix seconds); None for what is not a check of its own, or has not run yet."""
        told = self._next_probe(view)
        if told is not None and told["at"] is not None:
            return float(told["at"])
        interval_s = self.plan.get(view.key, {}).get("interval_s")
        return view.last.at + interval_s if view.last is not None and interval_s else None

    def as_json(self) -> dict[str, Any]:
        """The status object; times are Unix seconds."""
        snapshot = self.snapshot
        return {
            "version": VERSION,
            "health": self.health.value,
            "at": snapshot.at,
            "latest_at": snapshot.latest_at,
            "storage": snapshot.storage,
            "checks": [self._check_json(view) for view in snapshot.keys],
            "seats": [
                {
                    "seat": name,
                    "holder": None if _is_away(views[0]) else GENERATION.target_of(views[0].key),
                    "servers": [GENERATION.target_of(view.key) for view in views],
                }
                for name, views in self.seats.items()
            ],
            "incidents": [_incident_json(incident, snapshot) for incident in snapshot.open_incidents],
            "receivers": [_receiver_json(receiver) for receiver in snapshot.receivers],
            "silences": to_json(snapshot.silences),
            "maintenance": [_maintenance_json(window, snapshot.at) for window in self.windows],
            "blind": [
                {"began_at": window.began_at, "ended_at": window.ended_at, "check": window.key, "reason": window.reason}
                for window in snapshot.blind
            ],
        }

    def _check_json(self, view: KeyView) -> dict[str, Any]:
        """One tracked key; `failures`, `interval_s` and `next_at` are null for what is not a check of its own."""
        run, last = self.plan.get(view.key, {}), view.last
        return {
            "check": view.key,
            "phase": view.phase.value,
            "fails": view.state.fails,
            "failures": run.get("failures"),
            "interval_s": run.get("interval_s"),
            "since": view.state.since,
            "last_good_at": view.state.last_good_at,
            "reason": last.reason if last else None,
            "verdict": last.verdict.value if last else None,
            "summary": last.statement if last else None,
            "last_at": last.at if last else None,
            "next_at": self.due_at(view),
            "next_probe": self._next_probe_json(view),
            "duration_s": last.duration_s if last else None,
            "measurements": dict(last.measurements) if last else {},
            "drift": _drift_json(self.drifts.get(view.key)),
            "incident": view.incident_id,
        }

    def _next_probe_json(self, view: KeyView) -> dict[str, Any] | None:
        """Why a failing server is probed again at `next_at`, in a word and in words, and with which deadline."""
        told = self._next_probe(view)
        if told is None:
            return None
        return {"why": told["why"], "words": self.patience_words(view), "timeout_s": told["timeout_s"]}


def _is_away(view: KeyView) -> bool:
    """Whether another server of its seat holds it, or none is known to."""
    return view.last is None or view.last.reason == ServerReason.AWAY


def _not_writing(state_dir: Path, snapshot: Snapshot) -> str | None:
    """Why nothing is written though a daemon runs; None if none runs."""
    found = lock_holder(state_dir)
    if found is None:
        return None
    who = "a daemon" if found.process is None else f"a daemon (process {found.process})"
    running_s = snapshot.at - found.since
    wrote = snapshot.latest_at is not None and snapshot.latest_at > found.since
    if not wrote and 0 <= running_s < JUST_STARTED_S:
        return f"{who} started here {duration(running_s)} ago and has observed nothing yet"
    return f"{who} runs here but cannot write its state: look at its log and at the free disk space"


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


def _drift_json(drift: Drift | None) -> dict[str, Any] | None:
    if drift is None:
        return None
    return {
        "measure": drift.measure,
        "factor": round(drift.factor, 2),
        "now": drift.now_value,
        "usual": drift.usual_value,
        "text": drift.text,
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
        "related": list(incident.related),
        "acknowledged_at": seen_by.at if seen_by else incident.acknowledged_at,
    }


def diagnosis_json(diagnosis: Diagnosis | None) -> dict[str, str] | None:
    """The most likely cause of an incident, how sure that is, and where to look; None without one."""
    if diagnosis is None:
        return None
    return {
        "sentence": diagnosis.sentence,
        "confidence": diagnosis.confidence.value,
        "look_at": diagnosis.look_at,
    }


def _receiver_json(receiver: ReceiverView) -> dict[str, Any]:
    return {
        "receiver": receiver.name,
        "waiting": receiver.waiting,
        "delivered_at": receiver.delivered_at,
        "failed_at": receiver.failed_at,
        "failures": receiver.failures,
        "detail": receiver.detail,
    }


def _maintenance_json(window: Maintenance, now: float) -> dict[str, Any]:
    """One window; `now` and `next` are begin and end in Unix seconds, or null."""
    return {
        "name": window.name,
        "matcher": dict(window.matcher),
        "now": window_at(window, now),
        "next": next_window(window, now),
    }


def _maintenance(stored: Any) -> tuple[Maintenance, ...]:
    """The maintenance windows that the daemon runs by, as it wrote them down."""
    return tuple(from_json(Maintenance, one) for one in stored or ())


def matcher_words(matcher: Mapping[str, str]) -> str:
    """A matcher as it is written on the command line."""
    return " ".join(f"{label}={value}" for label, value in matcher.items())


# The state of a check, and of everything, as a symbol and a word: never by colour alone.

SYMBOLS = {"ok": "●", "slow": "◔", "pending": "◐", "firing": "▲", "recovering": "◑", "blind": "○", "stale": "○"}


@dataclass(frozen=True, slots=True)
class State:
    """`kind` is a key of `SYMBOLS` and a class of the style sheet."""

    kind: str
    words: str
    severity: Severity


def state_of(view: KeyView, status: Status) -> State:
    if status.is_stale:
        return State("stale", "not watched", Severity.WARN)
    if view.phase in (Phase.FIRING, Phase.RECOVERING):
        return State(view.phase.value, view.phase.value, view.state.severity)
    if view.state.unknowns or (view.last is not None and view.last.verdict is Verdict.UNKNOWN):
        return _of_an_unknown(view)
    if view.phase is Phase.PENDING:
        return State("pending", f"pending {status.strikes(view)}", Severity.WARN)
    return _of_a_passing(view, status)


def _of_an_unknown(view: KeyView) -> State:
    """An expected one, of a server that is asleep or away, says so."""
    row = row_of(view.key, view.last.reason) if view.last is not None else None
    if view.last is not None and row is not None and not row.blind:
        return State("blind", view.last.reason, Severity.INFO)
    return State("blind", "unknown", Severity.WARN)


def _of_a_passing(view: KeyView, status: Status) -> State:
    if view.last is None:
        return State("blind", "not checked yet", Severity.INFO)
    trouble = status.kernel_trouble(view)
    if trouble is not None and trouble is not Severity.INFO:
        return State("firing", "kernel errors", trouble)
    slow = view.key in status.drifts
    return State("slow", "slow", Severity.WARN) if slow else State("ok", "ok", Severity.INFO)


def headline(status: Status) -> tuple[str, str]:
    """The whole state as `(class, sentence)`."""
    if status.snapshot.latest_at is None:
        return "stale", "Nothing has been observed yet"
    if status.health is Health.STALE:
        return "stale", "No recent observations"
    pages = sum(one.severity is Severity.PAGE for one in status.snapshot.open_incidents)
    others = len(status.snapshot.open_incidents) - pages
    if pages:
        return "firing", f"{quantity(pages, 'incident')} firing" + (f" and {others} more" if others else "")
    if others:
        return "warning", quantity(others, "warning")
    if status.health is Health.WARNING:
        pending = [view.key.partition("/")[2] for view in status.snapshot.keys if view.phase is not Phase.OK]
        slow = [key.partition("/")[2] for key in status.drifts]
        words = f"{_first_names(pending)}: pending" if pending else f"{_first_names(slow)}: slower than usual"
        return "warning", words
    return "well", "All is well"


def _first_names(names: list[str]) -> str:
    rest = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + rest
