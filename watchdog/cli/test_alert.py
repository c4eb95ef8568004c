"""`test-alert`: a trigger and its end through the real outbox."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK
from watchdog.cli.options import FiniteRange, config_option, state_dir_of, state_dir_option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from watchdog.config import Config
    from watchdog.store import DeliveryView, Reader

LIMIT_S = 60.0


@click.command()
@config_option
@state_dir_option
@click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=1, max=86400), default=LIMIT_S, show_default=True, help="Seconds."
)
@click.argument("receivers", metavar="[RECEIVER]...", nargs=-1)
def command(config_file: str | None, state_dir: str | None, timeout_s: float, receivers: tuple[str, ...]) -> int:
    """Send a trigger and a resolve to your receivers, through the real outbox.

    If the daemon is running, it is asked to send them; otherwise this command sends them itself. Each receiver gets two
    messages marked as a test: one that rings like a page, and its end. The time of a proven delivery is kept: `status`
    warns when the last one is old. A daemon that still follows another address than the file is not asked: reload it
    first.

    Exit code 0: every receiver accepted both; 2: one did not.
    """
    from watchdog import logs
    from watchdog.errors import NotReloadedError
    from watchdog.loading import load, locate

    config = load(locate(config_file)).config
    logs.configure(secrets=config.secrets, level="ERROR")
    known = [receiver.name for receiver in config.receivers]
    unknown = [name for name in receivers if name not in known]
    if unknown:
        raise click.UsageError(f"no receiver is called {', '.join(unknown)}; configured: {', '.join(known)}")
    names = receivers or tuple(known)
    try:
        views = asyncio.run(send_test(config, state_dir_of(state_dir, config.state_dir), names, timeout_s))
    except NotReloadedError as error:
        click.echo(str(error), err=True)
        return EXIT_CRITICAL
    good = len(views) == 2 * len(names) and all(view.state.value == "delivered" for view in views)
    if not good:
        for words in _why(state_dir_of(state_dir, config.state_dir), views):
            click.echo(words, err=True)
        click.echo("Not everything was delivered. Fix the receiver and try again.", err=True)
    return EXIT_OK if good else EXIT_CRITICAL


def _why(state_dir: Path, views: tuple[DeliveryView, ...]) -> list[str]:
    """One line for each receiver that has not accepted everything: how its last attempt failed."""
    from watchdog.cli.status import failure_words
    from watchdog.clock import SystemClock
    from watchdog.overview.status import Status
    from watchdog.store import Reader

    with Reader.open(state_dir) as reader:
        status = Status.read(reader, SystemClock().wall())
    known = {one.name: one for one in status.snapshot.receivers}
    lines = []
    for name in dict.fromkeys(view.receiver for view in views if view.state.value != "delivered"):
        found = known.get(name)
        if found is not None and found.failures:
            words = failure_words(found, status.snapshot.at, status.failing_since.get(name))
        elif any(view.attempt for view in views if view.receiver == name):
            words = "the first attempt is still in progress: no answer so far"
        else:
            words = "not attempted yet; if this receiver is new, let the daemon reload its configuration"
        lines.append(f"{name}: {words}")
    return lines


async def send_test(
    config: Config, state_dir: Path, names: tuple[str, ...], timeout_s: float
) -> tuple[DeliveryView, ...]:
    """Send the test ourselves if no daemon is running, else ask the daemon; returns what became of the messages.

    Shows each message as soon as it is settled, and what is waited for. Raises NotReloadedError, with nothing sent, if
    the running daemon follows other addresses than `config`.
    """
    from watchdog.clock import SystemClock
    from watchdog.errors import StateLockedError
    from watchdog.ingest import Ingest
    from watchdog.message.redaction import Redactor
    from watchdog.notify import build
    from watchdog.outbox import Outbox
    from watchdog.policy import AlertPlan
    from watchdog.store import Store

    clock = SystemClock()
    try:
        store = Store.open(state_dir, clock.wall())
    except StateLockedError:
        click.echo("The daemon is running: it sends the test.", err=True)
        return await _ask(config, state_dir, names, timeout_s)
    try:
        redactor = Redactor(config.secrets)
        ingest = Ingest(store, AlertPlan.from_config(config), clock, redactor=redactor)
        outbox = Outbox(store, ingest, {row.name: build(row, redactor) for row in config.receivers}, clock)
        sending = asyncio.create_task(outbox.run())
        test = await ingest.test_alert(names, sent_from=platform.node())
        views = await _shown(lambda left_s: outbox.settled(test.incident_id, min(left_s, _LOOK_EVERY_S)), timeout_s)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return views
    finally:
        await store.close()


async def _shown(
    look: Callable[[float], Awaitable[tuple[DeliveryView, ...]]], timeout_s: float
) -> tuple[DeliveryView, ...]:
    """`look` (given the seconds left) until every message is settled or time is up; shows what happens meanwhile."""
    from watchdog.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    seen: set[int] = set()
    say_at = _SAY_EVERY_S
    while True:
        views = await look(began + timeout_s - clock.monotonic())
        passed_s = clock.monotonic() - began
        over = passed_s >= timeout_s or all(view.is_done for view in views)
        for view in views:
            if view.row not in seen and (over or view.is_done):
                seen.add(view.row)
                click.echo(line(view))
        if over:
            return views
        if passed_s >= say_at:
            say_at += _SAY_EVERY_S
            for name in dict.fromkeys(view.receiver for view in views if not view.is_done):
                why = next((f": {view.detail}" for view in views if view.receiver == name and view.detail), "")
                click.echo(f"waiting for {name}, {passed_s:.0f} s so far{why}", err=True)


_LOOK_EVERY_S = 0.2
_SAY_EVERY_S = 5.0
_RELOAD_S = 3.0
"""A daemon that was just told to reload follows the file within this time."""


async def _ask(config: Config, state_dir: Path, names: tuple[str, ...], timeout_s: float) -> tuple[DeliveryView, ...]:
    """Queue the test for the running daemon and wait for what becomes of it."""
    from watchdog.clock import SystemClock
    from watchdog.errors import NotReloadedError
    from watchdog.ingest.self_report import SentTestAlert, test_alert_messages
    from watchdog.policy import incident_id
    from watchdog.store import Reader, Requests

    clock = SystemClock()
    with Reader.open(state_dir) as reader:
        until = clock.monotonic() + _RELOAD_S
        while others := _followed_otherwise(config, names, reader):
            if clock.monotonic() > until:
                raise NotReloadedError(
                    f"the running daemon still follows another address for {', '.join(others)} than {config.file}: "
                    "reload it first (`systemctl reload inference-watchdog`, or SIGHUP), then test again; nothing was "
                    "sent"
                )
            await clock.sleep(_LOOK_EVERY_S)
    now = clock.wall()
    test = SentTestAlert(incident_id(now, "", round(now * 1000) % 1024), names)
    with Requests.open(state_dir) as requests:
        requests.queue(test_alert_messages(test, now, platform.node()))
    with Reader.open(state_dir) as reader:

        async def look(_left_s: float) -> tuple[DeliveryView, ...]:
            await clock.sleep(_LOOK_EVERY_S)
            return reader.deliveries(test.incident_id)

        return await _shown(look, timeout_s)


def _followed_otherwise(config: Config, names: tuple[str, ...], reader: Reader) -> list[str]:
    """The receivers that the running daemon knows under another address, or not at all."""
    from watchdog.store import RECEIVERS

    known = reader.memory(RECEIVERS)
    if not isinstance(known, dict):  # a daemon of an older version does not say
        return []
    return [row.name for row in config.receivers if row.name in names and known.get(row.name) != row.address_hash]


def line(view: DeliveryView) -> str:
    """One delivery of the test for a person."""
    took = f"{view.duration_s:.2f} s" if view.duration_s is not None else "-"
    mark = click.style("ok  ", fg="green") if view.state.value == "delivered" else click.style("FAIL", fg="red")
    why = f"  {view.detail}" if view.detail else ""
    return f"{mark} {view.receiver:20} {view.kind.value:10} {view.state.value:10} {took:>8}{why}"
