"""`status`: what is firing, pending and healthy now, read from the state beside a running daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING
from watchdog.cli.options import kept_state_dir, state_dir_option
from watchdog.model import Severity
from watchdog.overview.status import Health, Status, matcher_words
from watchdog.policy import next_window, window_at
from watchdog.text import duration, full_timestamp, quantity

if TYPE_CHECKING:
    from watchdog.model import Maintenance
    from watchdog.store import Reader, ReceiverView
    from watchdog.store.reader import KeyView

REFRESH_S = 2.0
PROVEN_WITHIN_S = 30 * 86400.0
"""A receiver that has not taken a message for so long is not proven to work."""
COLOURS = {"ok": "green", "slow": "yellow", "pending": "yellow", "firing": "red", "recovering": "cyan"}
HEADLINES = {
    Health.WELL: ("all well", "bold green"),
    Health.WARNING: ("warning", "bold yellow"),
    Health.FIRING: ("FIRING", "bold white on red"),
    Health.STALE: ("no daemon is writing here: nothing is known", "bold magenta"),
}
EXIT_CODES = {
    Health.WELL: EXIT_OK,
    Health.WARNING: EXIT_WARNING,
    Health.FIRING: EXIT_CRITICAL,
    Health.STALE: EXIT_UNKNOWN,
}


@click.command()
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as `/api/status` gives it (docs/api.md).")
@click.option("--watch", is_flag=True, help="Stay and refresh every two seconds. Ctrl-C ends it.")
def command(state_dir: str | None, as_json: bool, watch: bool) -> int:
    """Show what is firing, pending and healthy now.

    Reads the state that the daemon keeps; it need not be running. Pending counts (2/3) are strikes that have not
    alerted yet; "slow" is a server that is alive but takes three times as long as usual. Exit code 0 = all well,
    1 = pending, slow or warning, 2 = an incident that pages is open, 3 = no daemon has written here for a while.
    """
    from watchdog.store import Reader

    directory = kept_state_dir(state_dir)
    with Reader.open(directory) as reader:
        if watch:
            if as_json:
                raise click.UsageError("--watch is for people, --json for programs: choose one")
            return EXIT_CODES[watch_status(reader, state_dir=directory)]
        status = _read(reader, directory)
    if as_json:
        click.echo(json.dumps(status.as_json()))
    else:
        for line in _lines(status):
            click.echo(line)
    return EXIT_CODES[status.health]


def _read(reader: Reader, state_dir: Path | None) -> Status:
    return Status.read(reader, time.time(), state_dir)  # noqa: TID251 - a command is an entry point


def _lines(status: Status) -> Iterator[str]:
    snapshot = status.snapshot
    yield from _freshness(status)
    for view in snapshot.keys:
        last, (phase, colour) = view.last, _phase(status, view)
        what = "not observed yet"
        if last is not None:
            what = f"{last.reason}: {last.statement} ({_ago(status, last.at)})"
        yield f"{click.style(f'{phase:12}', fg=colour)} {view.key}  {what}"
        if view.key in status.drifts:
            yield f"  {status.drifts[view.key].text}"
        if words := status.patience_words(view):
            yield f"  next probe {_due(status, view)}: {words}"
    for seat, views in status.seats.items():
        names = [view.key.partition("/")[2] for view in views]
        yield f"seat {seat}: {names[0]} (away: {', '.join(names[1:])})"
    for incident in snapshot.open_incidents:
        lasted = duration(snapshot.at - incident.since)
        yield f"incident {incident.id} {incident.severity.value} for {lasted}: {incident.key} {incident.statement}"
        yield from _acknowledged(status, incident.id)
    for receiver in snapshot.receivers:
        yield f"receiver {receiver.name}: {proof_words(snapshot.at, receiver.delivered_at)}, {receiver.waiting} waiting"
        if receiver.failures:
            yield f"  {failure_words(receiver, snapshot.at, status.failing_since.get(receiver.name))}"
    if snapshot.storage:
        yield f"storage: {snapshot.storage}"
    yield from _silences(status)
    yield from filter(None, (_maintenance(window, snapshot.at) for window in status.windows))
    for blind in snapshot.blind:
        until = full_timestamp(blind.ended_at) if blind.ended_at is not None else "now"
        what = blind.key or "everything"
        yield f"blind to {what} from {full_timestamp(blind.began_at)} to {until}: {blind.reason}"


def _freshness(status: Status) -> Iterator[str]:
    """That nothing was observed for a while, or ever."""
    snapshot = status.snapshot
    if snapshot.latest_at is None:
        if not snapshot.storage:
            yield "Nothing has been observed yet. Is the daemon running? (`inference-watchdog run`)"
    elif status.is_stale:
        because = "" if snapshot.storage else ": no daemon is writing here"
        yield f"The newest observation is {duration(snapshot.at - snapshot.latest_at)} old{because}."


def _due(status: Status, view: KeyView) -> str:
    """When a check runs next: `in 12 s`."""
    left_s = (status.due_at(view) or 0.0) - status.snapshot.at
    return f"in {duration(left_s)}" if left_s > 0 else "now"


def _ago(status: Status, at: float) -> str:
    return f"{duration(status.snapshot.at - at)} ago"


def _phase(status: Status, view: KeyView) -> tuple[str, str]:
    """The phase of a check, with its strikes while it is pending, and its colour."""
    phase = view.phase.value
    if phase == "pending":
        return f"pending {status.strikes(view)}", COLOURS[phase]
    if phase == "ok" and view.key in status.drifts:
        phase = "slow"
    trouble = status.kernel_trouble(view) if phase == "ok" else None
    if trouble is not None and trouble is not Severity.INFO:
        return "errors", COLOURS["firing" if trouble is Severity.PAGE else "pending"]
    return phase, COLOURS[phase]


def _acknowledged(status: Status, incident_id: str) -> Iterator[str]:
    found = status.snapshot.acknowledged.get(incident_id)
    if found is not None:
        yield f"  acknowledged {_ago(status, found.at)}{_by(found.author)}: {found.reason}"


def _silences(status: Status) -> Iterator[str]:
    for silence in status.snapshot.silences:
        left = duration(silence.ends_at - status.snapshot.at)
        until = f"until {full_timestamp(silence.ends_at)}, {left} left"
        yield (
            f"silence {silence.id} on {matcher_words(silence.matcher)} {until}{_by(silence.author)}: {silence.reason}"
        )


def _maintenance(window: Maintenance, now: float) -> str | None:
    """When a maintenance window is; None for one that is over for good."""
    current, following = window_at(window, now), next_window(window, now)
    zone = None if window.once else window.zone
    if current is not None:
        when = f"now, until {full_timestamp(current[1], zone)}"
    elif following is not None:
        when = f"next {full_timestamp(following[0], zone)}, for {duration(following[1] - following[0])}"
    else:
        return None
    return f"maintenance {window.name} on {matcher_words(window.matcher)}: {when}"


def _by(author: str) -> str:
    return f", by {author}" if author else ""


def proof_words(now: float, delivered_at: float | None) -> str:
    """Whether a receiver is proven to work, and what to do if not; times in Unix seconds."""
    if delivered_at is None:
        return "nothing delivered yet; run `inference-watchdog test-alert`"
    last = f"last delivery {duration(now - delivered_at)} ago"
    return f"{last}; run `inference-watchdog test-alert`" if now - delivered_at > PROVEN_WITHIN_S else last


def failure_words(receiver: ReceiverView, now: float, since: float | None) -> str:
    """How long a receiver has refused everything (from `since`, Unix seconds), how often, and why last."""
    how_long = "" if since is None else f"failing for {duration(now - since)}: "
    last = "" if receiver.failed_at is None else f", the last {duration(now - receiver.failed_at)} ago"
    detail = f": {receiver.detail}" if receiver.detail else ""
    return f"{how_long}{quantity(receiver.failures, 'attempt')} failed in a row{last}{detail}"


def watch_status(
    reader: Reader, console: Console | None = None, rounds: int | None = None, state_dir: Path | None = None
) -> Health:
    """Show it until Ctrl-C (or for `rounds`); returns the last health. Raises UsageError where there is no terminal."""
    screen = console or Console()
    if not screen.is_terminal:
        raise click.UsageError("--watch needs a terminal; for a program there is --json")
    status = _read(reader, state_dir)
    try:
        with Live(screen_of(status), console=screen, auto_refresh=False, screen=True) as live:
            while rounds is None or rounds > 0:
                rounds = None if rounds is None else rounds - 1
                time.sleep(REFRESH_S if rounds is None else 0.0)
                status = _read(reader, state_dir)
                live.update(screen_of(status), refresh=True)
    except KeyboardInterrupt:
        pass
    return status.health


def screen_of(status: Status) -> RenderableType:
    """What `--watch` shows. Every text is a `Text`: nothing in it is taken as markup."""
    words, style = HEADLINES[status.health]
    at = f"  {full_timestamp(status.snapshot.at)}"
    head = Text.assemble((f" {words} ", style), at, ("   Ctrl-C to quit", "dim"), no_wrap=True)
    return Group(head, Text(), _checks(status), *_incidents(status), *_rest(status))


def _checks(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for name in ("state", "check", "last good", "next", "first token", "tokens/s"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("first token", "tokens/s") else "left")
    table.add_column("last result", ratio=1, overflow="ellipsis", no_wrap=True)
    for view in status.snapshot.keys:
        table.add_row(*_row(status, view))
    return table


def _row(status: Status, view: KeyView) -> list[Text]:
    last, (phase, colour) = view.last, _phase(status, view)
    good_at, due_at = view.state.last_good_at, status.due_at(view)
    numbers = last.measurements if last else {}
    ttft, speed = numbers.get("ttft_s"), numbers.get("tokens_per_s")
    drift = status.drifts.get(view.key)
    result = drift.text if drift is not None else f"{last.reason}: {last.statement}" if last else "not observed yet"
    if words := status.patience_words(view):
        result = f"{words} ({result})"
    return [
        Text(phase, f"bold {colour}" if phase == "firing" else colour),
        Text(view.key),
        Text("never" if good_at is None else _ago(status, good_at)),
        Text("" if due_at is None else _due(status, view)),
        Text("" if ttft is None else f"{ttft:.2f} s"),
        Text("" if speed is None else f"{speed:.0f}"),
        Text(result),
    ]


def _incidents(status: Status) -> Iterator[RenderableType]:
    for incident in status.snapshot.open_incidents:
        style = "bold red" if incident.severity.value == "page" else "yellow"
        lasted = duration(status.snapshot.at - incident.since)
        yield Text()
        yield Text(f"{incident.severity.value} for {lasted}: {incident.statement}", style)
        yield from (Text(line) for line in _acknowledged(status, incident.id))
        yield from (Text(f"  {fact.source}: {fact.text}", "dim", no_wrap=True) for fact in incident.evidence[-4:])


def _rest(status: Status) -> Iterator[RenderableType]:
    snapshot = status.snapshot
    lines = [*_silences(status)]
    lines += [
        f"blind to {blind.key or 'everything'} for {duration(snapshot.at - blind.began_at)}: {blind.reason}"
        for blind in snapshot.blind
        if blind.ended_at is None
    ]
    lines += [
        f"{quantity(one.waiting, 'message')} waiting for {one.name}: {one.detail}"
        for one in snapshot.receivers
        if one.waiting
    ]
    lines += [f"storage: {snapshot.storage}"] if snapshot.storage else []
    if lines:
        yield Text()
    yield from (Text(line, "yellow") for line in lines)
