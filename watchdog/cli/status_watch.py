"""`status --watch`: the same as `status`, kept up to date on a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from watchdog.cli.moments import ago, moment
from watchdog.overview.now import Now
from watchdog.overview.status import Health, matcher_words

if TYPE_CHECKING:
    from watchdog.store import Reader
    from watchdog.store.reads import KeyView

EVERY_S = 2.0
COLOURS = {"ok": "green", "slow": "yellow", "pending": "yellow", "firing": "bold red", "recovering": "cyan"}
HEADLINES = {
    Health.WELL: ("all well", "bold green"),
    Health.WARNING: ("not all is well", "bold yellow"),
    Health.FIRING: ("FIRING", "bold white on red"),
    Health.STALE: ("no daemon writes here: nothing is known", "bold magenta"),
}


def watch(
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
        (f" {words} ", style), f"  {moment(seen.snapshot.at)}", ("   Ctrl-C ends this", "dim"), no_wrap=True
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
    said = str(drift) if drift is not None else f"{last.reason}: {last.summary}" if last else "not observed yet"
    return [
        Text(phase + strikes, COLOURS[phase]),
        Text(view.key),
        Text(f"{ago(now, good)} ago" if good is not None else "never"),
        Text("" if next_s is None else "now" if next_s <= 0 else f"in {next_s:.0f}s"),
        Text("" if ttft is None else f"{ttft:.2f} s"),
        Text("" if speed is None else f"{speed:.0f}"),
        Text(said),
    ]


def _incidents(seen: Now) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for incident in seen.snapshot.open_incidents:
        style = "bold red" if incident.severity.value == "page" else "yellow"
        lasted = ago(seen.snapshot.at, incident.since)
        shown += [Text(), Text(f"{incident.severity.value} for {lasted}: {incident.summary}", style)]
        acknowledged = seen.snapshot.acknowledged.get(incident.id)
        if acknowledged is not None:
            shown.append(Text(f"  acknowledged {ago(seen.snapshot.at, acknowledged.at)} ago: {acknowledged.reason}"))
        shown += [Text(f"  {fact.source}: {fact.text}", "dim", no_wrap=True) for fact in incident.evidence[-4:]]
    return shown


def _rest(seen: Now) -> list[RenderableType]:
    snapshot = seen.snapshot
    lines = [f"silence on {matcher_words(one.matcher)} until {moment(one.ends_at)}" for one in snapshot.silences]
    lines += [
        f"blind to {blind.key or 'everything'} for {ago(snapshot.at, blind.began_at)}: {blind.reason}"
        for blind in snapshot.blind
        if blind.ended_at is None
    ]
    lines += [f"{one.waiting} messages wait for {one.name}: {one.detail}" for one in snapshot.receivers if one.waiting]
    lines += [f"storage: {snapshot.storage}"] if snapshot.storage else []
    return [Text(), *(Text(line, "yellow") for line in lines)] if lines else []
