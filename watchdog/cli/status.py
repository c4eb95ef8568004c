"""`status`: what is firing, pending and healthy now, read from the state beside a running daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING
from watchdog.cli.moments import ago, moment
from watchdog.cli.places import state_dir_of, state_dir_option
from watchdog.cli.silence import matcher_words, silence_json

if TYPE_CHECKING:
    from watchdog.model import Maintenance, Silence
    from watchdog.store import Snapshot
    from watchdog.store.reads import KeyView

STALE_INTERVALS = 3
"""No observation for so many of the shortest interval (and 30 s) means that no daemon is writing here."""
Plan = Mapping[str, Mapping[str, Any]]
"""Check key → `interval_s` and `failures`, as the daemon runs it."""
PROVEN_WITHIN_S = 30 * 86400.0
"""A receiver that has not taken a message for so long is not proven to work."""
PHASE_COLOURS = {"ok": "green", "pending": "yellow", "firing": "red", "recovering": "cyan"}


@click.command()
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object: checks, incidents, receivers, silences, blind.")
def command(state_dir: str | None, as_json: bool) -> int:
    """Show what is firing, pending and healthy now.

    Reads the state that the daemon keeps; it need not be running. Pending counts (2/3) are strikes that have not
    alerted yet. Exit code 0 = all well, 1 = pending or warning, 2 = an incident that pages is open, 3 = no daemon has
    written here for a while.
    """
    from watchdog.store import MAINTENANCE, PLAN, Reader

    now = time.time()  # noqa: TID251 - a command is an entry point
    with Reader.open(state_dir_of(state_dir)) as reader:
        snapshot, plan = reader.snapshot(now), reader.memory(PLAN) or {}
        windows = planned(reader.memory(MAINTENANCE))
    if as_json:
        click.echo(json.dumps({**status_json(snapshot, plan), "maintenance": maintenance_json(windows, now)}))
    else:
        _show(snapshot, plan)
        _show_quiet_times(snapshot, windows)
    return exit_code(snapshot, plan)


def is_stale(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether no daemon seems to be writing: old good news is no news."""
    shortest_s = min((row["interval_s"] for row in plan.values()), default=0.0)
    limit_s = 30.0 + STALE_INTERVALS * shortest_s
    return snapshot.latest_at is None or snapshot.at - snapshot.latest_at > limit_s


def exit_code(snapshot: Snapshot, plan: Plan) -> int:
    """The monitoring-plugin code for `snapshot`; stale beats everything."""
    if is_stale(snapshot, plan):
        return EXIT_UNKNOWN
    severities = {incident.severity.value for incident in snapshot.open_incidents}
    if "page" in severities:
        return EXIT_CRITICAL
    return EXIT_WARNING if severities or any(view.phase.value != "ok" for view in snapshot.keys) else EXIT_OK


def status_json(snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
    """The snapshot as JSON; times are Unix seconds."""
    return {
        "at": snapshot.at,
        "latest_at": snapshot.latest_at,
        "storage": snapshot.storage,
        "checks": [check_json(view, plan.get(view.key, {})) for view in snapshot.keys],
        "incidents": [
            {
                "id": incident.id,
                "check": incident.key,
                "severity": incident.severity.value,
                "reason": incident.reason,
                "summary": incident.summary,
                "since": incident.since,
                "last_at": incident.last_at,
                "count": incident.count,
                "acknowledged_at": snapshot.acknowledged[incident.id].at
                if incident.id in snapshot.acknowledged
                else incident.acknowledged_at,
            }
            for incident in snapshot.open_incidents
        ],
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
        "blind": [
            {"began_at": window.began_at, "ended_at": window.ended_at, "check": window.key, "reason": window.reason}
            for window in snapshot.blind
        ],
    }


def check_json(view: KeyView, run: Mapping[str, Any]) -> dict[str, Any]:
    """One tracked key as JSON; `failures` and `interval_s` are null for what is no check of its own."""
    last = view.last
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
        "summary": last.summary if last else None,
        "last_at": last.at if last else None,
        "duration_s": last.duration_s if last else None,
        "measurements": dict(last.measurements) if last else {},
        "incident": view.incident_id,
    }


def _show(snapshot: Snapshot, plan: Plan) -> None:
    if snapshot.latest_at is None:
        click.echo("Nothing has been observed yet. Is the daemon running? (`inference-watchdog run`)")
    elif is_stale(snapshot, plan):
        click.echo(f"The newest observation is {ago(snapshot.at, snapshot.latest_at)} old: no daemon is writing here.")
    for view in snapshot.keys:
        strikes = f" {view.state.fails}/{plan[view.key]['failures']}" if view.key in plan else f" {view.state.fails}"
        phase = view.phase.value + (strikes if view.phase.value == "pending" else "")
        coloured = click.style(f"{phase:12}", fg=PHASE_COLOURS.get(view.phase.value))
        last = view.last
        what = f"{last.reason}: {last.summary} ({ago(snapshot.at, last.at)} ago)" if last else "not observed yet"
        click.echo(f"{coloured} {view.key}  {what}")
    for incident in snapshot.open_incidents:
        click.echo(
            f"incident {incident.id} {incident.severity.value} since {ago(snapshot.at, incident.since)}: "
            f"{incident.key} {incident.summary}"
        )
        seen_by = snapshot.acknowledged.get(incident.id)
        if seen_by is not None:
            click.echo(f"  acknowledged {ago(snapshot.at, seen_by.at)} ago{_by(seen_by.author)}: {seen_by.reason}")
    for receiver in snapshot.receivers:
        click.echo(f"receiver {receiver.name}: {proof(snapshot.at, receiver.delivered_at)}, {receiver.waiting} waiting")
    if snapshot.storage:
        click.echo(f"storage: {snapshot.storage}")


def proof(now: float, delivered_at: float | None) -> str:
    """Whether a receiver is proven to work, in words that say what to do."""
    if delivered_at is None:
        return "never delivered to; run `inference-watchdog test-alert`"
    if now - delivered_at > PROVEN_WITHIN_S:
        return f"last delivery {ago(now, delivered_at)} ago; run `inference-watchdog test-alert`"
    return f"last delivery {ago(now, delivered_at)} ago"


def planned(stored: Any) -> tuple[Maintenance, ...]:
    """The maintenance windows that the daemon runs by, as it wrote them down."""
    from zoneinfo import ZoneInfo

    from watchdog.policy import maintenance_from_json

    return tuple(maintenance_from_json(one, ZoneInfo(one["time_zone"])) for one in stored or ())


def maintenance_json(windows: Sequence[Maintenance], now: float) -> list[dict[str, Any]]:
    """Each window with its present and its next time (begin and end in Unix seconds), or null."""
    from watchdog.policy import next_window, window_at

    return [
        {
            "name": window.name,
            "matcher": dict(window.matcher),
            "now": window_at(window, now),
            "next": next_window(window, now),
        }
        for window in windows
    ]


def _show_quiet_times(snapshot: Snapshot, windows: Sequence[Maintenance]) -> None:
    from watchdog.policy import next_window, window_at

    for silence in snapshot.silences:
        click.echo(_silence_line(silence, snapshot.at))
    for window in windows:
        covered, following = window_at(window, snapshot.at), next_window(window, snapshot.at)
        zone = None if window.once else window.zone
        if covered is not None:
            when = f"now, until {moment(covered[1], zone)}"
        elif following is not None:
            when = f"next {moment(following[0], zone)}, for {ago(following[1], following[0])}"
        else:
            continue  # it is over for good
        click.echo(f"maintenance {window.name} on {matcher_words(window.matcher)}: {when}")
    for blind in snapshot.blind:
        until = moment(blind.ended_at) if blind.ended_at is not None else "now"
        what = blind.key or "everything"
        click.echo(f"blind to {what} from {moment(blind.began_at)} to {until}: {blind.reason}")


def _silence_line(silence: Silence, now: float) -> str:
    left = ago(silence.ends_at, now)
    return (
        f"silence {silence.id} on {matcher_words(silence.matcher)} until {moment(silence.ends_at)}, {left} left"
        f"{_by(silence.author)}: {silence.reason}"
    )


def _by(author: str) -> str:
    return f", by {author}" if author else ""
