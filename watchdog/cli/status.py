"""`status`: what is firing, pending and healthy now, read from the state beside a running daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING
from watchdog.cli.moments import ago, moment
from watchdog.cli.places import kept_state_dir, state_dir_option
from watchdog.overview.status import Health, matcher_words

if TYPE_CHECKING:
    from watchdog.model import Maintenance, Silence
    from watchdog.overview.now import Now
    from watchdog.store import ReceiverView, Snapshot

PROVEN_WITHIN_S = 30 * 86400.0
"""A receiver that has not taken a message for so long is not proven to work."""
PHASE_COLOURS = {"ok": "green", "pending": "yellow", "firing": "red", "recovering": "cyan"}


@click.command()
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as `/api/status` gives it (docs/api.md).")
@click.option("--watch", is_flag=True, help="Stay, and show it anew every two seconds. Ctrl-C ends it.")
def command(state_dir: str | None, as_json: bool, watch: bool) -> int:
    """Show what is firing, pending and healthy now.

    Reads the state that the daemon keeps; it need not be running. Pending counts (2/3) are strikes that have not
    alerted yet; "slow" is a server that lives but takes three times as long as it uses to. Exit code 0 = all well,
    1 = pending, slow or warning, 2 = an incident that pages is open, 3 = no daemon has written here for a while.
    """
    from watchdog.overview.now import Now
    from watchdog.store import Reader

    place = kept_state_dir(state_dir)
    with Reader.open(place) as reader:
        if watch:
            if as_json:
                raise click.UsageError("--watch is for people, --json for programs: choose one")
            from watchdog.cli.status_watch import watch as stay

            return exit_code(stay(reader, state_dir=place))
        seen = Now.read(reader, time.time(), place)  # noqa: TID251 - a command is an entry point
    if as_json:
        click.echo(json.dumps(seen.as_json()))
    else:
        _show(seen)
        _show_quiet_times(seen.snapshot, seen.windows)
    return exit_code(seen.health)


def exit_code(health: Health) -> int:
    """The monitoring-plugin code for how it all stands."""
    return {"well": EXIT_OK, "warning": EXIT_WARNING, "firing": EXIT_CRITICAL, "stale": EXIT_UNKNOWN}[health.value]


def _show(seen: Now) -> None:
    snapshot, plan = seen.snapshot, seen.plan
    if seen.is_stale and snapshot.storage:
        when = "never" if snapshot.latest_at is None else f"{ago(snapshot.at, snapshot.latest_at)} ago"
        click.echo(f"The newest observation is of {when}.")
    elif snapshot.latest_at is None:
        click.echo("Nothing has been observed yet. Is the daemon running? (`inference-watchdog run`)")
    elif seen.is_stale:
        click.echo(f"The newest observation is {ago(snapshot.at, snapshot.latest_at)} old: no daemon is writing here.")
    for view in snapshot.keys:
        strikes = f" {view.state.fails}/{plan[view.key]['failures']}" if view.key in plan else f" {view.state.fails}"
        drift = seen.drifts.get(view.key)
        slow = drift is not None and view.phase.value == "ok"
        phase = "slow" if slow else view.phase.value + (strikes if view.phase.value == "pending" else "")
        coloured = click.style(f"{phase:12}", fg="yellow" if slow else PHASE_COLOURS.get(view.phase.value))
        last = view.last
        what = f"{last.reason}: {last.summary} ({ago(snapshot.at, last.at)} ago)" if last else "not observed yet"
        click.echo(f"{coloured} {view.key}  {what}")
        if drift is not None:
            click.echo(f"  {drift}")
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
        if receiver.failures:
            click.echo(f"  {failing(receiver, snapshot.at, seen.failing_since.get(receiver.name))}")
    if snapshot.storage:
        click.echo(f"storage: {snapshot.storage}")


def proof(now: float, delivered_at: float | None) -> str:
    """Whether a receiver is proven to work, in words that say what to do."""
    if delivered_at is None:
        return "never delivered to; run `inference-watchdog test-alert`"
    if now - delivered_at > PROVEN_WITHIN_S:
        return f"last delivery {ago(now, delivered_at)} ago; run `inference-watchdog test-alert`"
    return f"last delivery {ago(now, delivered_at)} ago"


def failing(receiver: ReceiverView, now: float, since: float | None) -> str:
    """How long a receiver has refused everything (from `since`, Unix seconds), how often, and why last."""
    times = f"{receiver.failures} attempt{'s' * (receiver.failures != 1)} failed in a row"
    how_long = "" if since is None else f"failing for {ago(now, since)}: "
    last = "" if receiver.failed_at is None else f", the last {ago(now, receiver.failed_at)} ago"
    return f"{how_long}{times}{last}" + (f": {receiver.detail}" if receiver.detail else "")


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
