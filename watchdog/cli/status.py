"""`status`: what is firing, pending and healthy now, read from the state beside a running daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING
from watchdog.cli.options import kept_state_dir, state_dir_option
from watchdog.overview.status import Health, Now, matcher_words
from watchdog.text import elapsed, full_timestamp

if TYPE_CHECKING:
    from watchdog.model import Maintenance, Silence
    from watchdog.store import Reader, ReceiverView, Snapshot
    from watchdog.store.reader import KeyView

# `status --watch`: the same as `status`, kept up to date on a terminal.

EVERY_S = 2.0
COLOURS = {"ok": "green", "slow": "yellow", "pending": "yellow", "firing": "bold red", "recovering": "cyan"}
HEADLINES = {
    Health.WELL: ("all well", "bold green"),
    Health.WARNING: ("not all is well", "bold yellow"),
    Health.FIRING: ("FIRING", "bold white on red"),
    Health.STALE: ("no daemon writes here: nothing is known", "bold magenta"),
}


def watch_status(
    reader: Reader, console: Console | None = None, rounds: int | None = None, state_dir: Path | None = None
) -> Health:
    """Show it until Ctrl-C (or for `rounds`); returns the last health. Raises UsageError where there is no terminal."""
    screen = console or Console()
    if not screen.is_terminal:
        raise click.UsageError("--watch needs a terminal; for a program there is --json")
    seen = _read(reader, state_dir)
    try:
        with Live(screen_of(seen), console=screen, auto_refresh=False, screen=True) as live:
            while rounds is None or rounds > 0:
                rounds = None if rounds is None else rounds - 1
                time.sleep(EVERY_S if rounds is None else 0.0)
                seen = _read(reader, state_dir)
                live.update(screen_of(seen), refresh=True)
    except KeyboardInterrupt:
        pass
    return seen.health


def _read(reader: Reader, state_dir: Path | None) -> Now:
    return Now.read(reader, time.time(), state_dir)  # noqa: TID251 - a command is an entry point


def screen_of(seen: Now) -> RenderableType:
    """What is shown. Every text is a `Text`: nothing in it is taken as markup."""
    words, style = HEADLINES[seen.health]
    head = Text.assemble(
        (f" {words} ", style), f"  {full_timestamp(seen.snapshot.at)}", ("   Ctrl-C ends this", "dim"), no_wrap=True
    )
    return Group(head, Text(), _checks(seen), *_incidents(seen), *_rest(seen))


def _checks(seen: Now) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for name in ("state", "check", "last good", "next", "first token", "tokens/s"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("first token", "tokens/s") else "left")
    table.add_column("what was seen", ratio=1, overflow="ellipsis", no_wrap=True)
    for view in seen.snapshot.keys:
        table.add_row(*_row(seen, view))
    return table


def _row(seen: Now, view: KeyView) -> list[Text]:
    now, plan, last = seen.snapshot.at, seen.plan.get(view.key, {}), view.last
    drift = seen.drifts.get(view.key)
    phase = "slow" if drift is not None and view.phase.value == "ok" else view.phase.value
    strikes = f" {view.state.fails}/{plan['failures']}" if phase == "pending" and plan else ""
    good = view.state.last_good_at
    next_s = last.at + plan["interval_s"] - now if last and plan else None
    numbers = last.measurements if last else {}
    ttft, speed = numbers.get("ttft_s"), numbers.get("tokens_per_s")
    said = str(drift) if drift is not None else f"{last.reason}: {last.statement}" if last else "not observed yet"
    return [
        Text(phase + strikes, COLOURS[phase]),
        Text(view.key),
        Text(f"{elapsed(now, good)} ago" if good is not None else "never"),
        Text("" if next_s is None else "now" if next_s <= 0 else f"in {next_s:.0f}s"),
        Text("" if ttft is None else f"{ttft:.2f} s"),
        Text("" if speed is None else f"{speed:.0f}"),
        Text(said),
    ]


def _incidents(seen: Now) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for incident in seen.snapshot.open_incidents:
        style = "bold red" if incident.severity.value == "page" else "yellow"
        lasted = elapsed(seen.snapshot.at, incident.since)
        shown += [Text(), Text(f"{incident.severity.value} for {lasted}: {incident.statement}", style)]
        acknowledged = seen.snapshot.acknowledged.get(incident.id)
        if acknowledged is not None:
            shown.append(
                Text(f"  acknowledged {elapsed(seen.snapshot.at, acknowledged.at)} ago: {acknowledged.reason}")
            )
        shown += [Text(f"  {fact.source}: {fact.text}", "dim", no_wrap=True) for fact in incident.evidence[-4:]]
    return shown


def _rest(seen: Now) -> list[RenderableType]:
    snapshot = seen.snapshot
    lines = [
        f"silence on {matcher_words(one.matcher)} until {full_timestamp(one.ends_at)}" for one in snapshot.silences
    ]
    lines += [
        f"blind to {blind.key or 'everything'} for {elapsed(snapshot.at, blind.began_at)}: {blind.reason}"
        for blind in snapshot.blind
        if blind.ended_at is None
    ]
    lines += [f"{one.waiting} messages wait for {one.name}: {one.detail}" for one in snapshot.receivers if one.waiting]
    lines += [f"storage: {snapshot.storage}"] if snapshot.storage else []
    return [Text(), *(Text(line, "yellow") for line in lines)] if lines else []


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
    from watchdog.store import Reader

    place = kept_state_dir(state_dir)
    with Reader.open(place) as reader:
        if watch:
            if as_json:
                raise click.UsageError("--watch is for people, --json for programs: choose one")

            return exit_code(watch_status(reader, state_dir=place))
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
        when = "never" if snapshot.latest_at is None else f"{elapsed(snapshot.at, snapshot.latest_at)} ago"
        click.echo(f"The newest observation is of {when}.")
    elif snapshot.latest_at is None:
        click.echo("Nothing has been observed yet. Is the daemon running? (`inference-watchdog run`)")
    elif seen.is_stale:
        click.echo(
            f"The newest observation is {elapsed(snapshot.at, snapshot.latest_at)} old: no daemon is writing here."
        )
    for view in snapshot.keys:
        strikes = f" {view.state.fails}/{plan[view.key]['failures']}" if view.key in plan else f" {view.state.fails}"
        drift = seen.drifts.get(view.key)
        slow = drift is not None and view.phase.value == "ok"
        phase = "slow" if slow else view.phase.value + (strikes if view.phase.value == "pending" else "")
        coloured = click.style(f"{phase:12}", fg="yellow" if slow else PHASE_COLOURS.get(view.phase.value))
        last = view.last
        what = f"{last.reason}: {last.statement} ({elapsed(snapshot.at, last.at)} ago)" if last else "not observed yet"
        click.echo(f"{coloured} {view.key}  {what}")
        if drift is not None:
            click.echo(f"  {drift}")
    for incident in snapshot.open_incidents:
        click.echo(
            f"incident {incident.id} {incident.severity.value} since {elapsed(snapshot.at, incident.since)}: "
            f"{incident.key} {incident.statement}"
        )
        seen_by = snapshot.acknowledged.get(incident.id)
        if seen_by is not None:
            click.echo(f"  acknowledged {elapsed(snapshot.at, seen_by.at)} ago{_by(seen_by.author)}: {seen_by.reason}")
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
        return f"last delivery {elapsed(now, delivered_at)} ago; run `inference-watchdog test-alert`"
    return f"last delivery {elapsed(now, delivered_at)} ago"


def failing(receiver: ReceiverView, now: float, since: float | None) -> str:
    """How long a receiver has refused everything (from `since`, Unix seconds), how often, and why last."""
    times = f"{receiver.failures} attempt{'s' * (receiver.failures != 1)} failed in a row"
    how_long = "" if since is None else f"failing for {elapsed(now, since)}: "
    last = "" if receiver.failed_at is None else f", the last {elapsed(now, receiver.failed_at)} ago"
    return f"{how_long}{times}{last}" + (f": {receiver.detail}" if receiver.detail else "")


def _show_quiet_times(snapshot: Snapshot, windows: Sequence[Maintenance]) -> None:
    from watchdog.policy import next_window, window_at

    for silence in snapshot.silences:
        click.echo(_silence_line(silence, snapshot.at))
    for window in windows:
        covered, following = window_at(window, snapshot.at), next_window(window, snapshot.at)
        zone = None if window.once else window.zone
        if covered is not None:
            when = f"now, until {full_timestamp(covered[1], zone)}"
        elif following is not None:
            when = f"next {full_timestamp(following[0], zone)}, for {elapsed(following[1], following[0])}"
        else:
            continue  # it is over for good
        click.echo(f"maintenance {window.name} on {matcher_words(window.matcher)}: {when}")
    for blind in snapshot.blind:
        until = full_timestamp(blind.ended_at) if blind.ended_at is not None else "now"
        what = blind.key or "everything"
        click.echo(f"blind to {what} from {full_timestamp(blind.began_at)} to {until}: {blind.reason}")


def _silence_line(silence: Silence, now: float) -> str:
    left = elapsed(silence.ends_at, now)
    return (
        f"silence {silence.id} on {matcher_words(silence.matcher)} until {full_timestamp(silence.ends_at)}, {left} left"
        f"{_by(silence.author)}: {silence.reason}"
    )


def _by(author: str) -> str:
    return f", by {author}" if author else ""
