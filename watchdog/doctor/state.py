"""Our own state: can it be written, is there room, does a daemon write there, has each receiver taken a message."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from watchdog.config import ReceiverSettings
from watchdog.doctor.finding import Finding, Grade
from watchdog.errors import StoreError
from watchdog.notify import manner_words
from watchdog.store import INSTANCE, Reader, ReceiverView, Snapshot
from watchdog.store.files import DATABASE
from watchdog.text import duration

ROOM_FAIL_BYTES = 64 << 20
ROOM_WARN_BYTES = 512 << 20
PROVEN_WITHIN_S = 30 * 86400.0
"""A receiver that has not accepted a message for so long is not proven to work (`status` says the same)."""
STALE_S = 900.0


def read_state(state_dir: Path, now: float) -> tuple[Snapshot | None, list[Finding]]:
    """What the daemon keeps, None when there is none yet; and what is wrong with it when it cannot be read."""
    try:
        if not (state_dir / DATABASE).exists():
            return None, []
        with Reader.open(state_dir) as reader:
            return reader.snapshot(now), []
    except (StoreError, OSError) as error:
        fix = "Run this as the account that runs the daemon, and read the daemon's log."
        return None, [Finding.fail("state", str(state_dir), str(error), fix=fix, reason="unreadable")]


def own_instance(state_dir: Path) -> str:
    """The id of the watchdog that keeps its state there; empty while it has none that can be read."""
    try:
        if not (state_dir / DATABASE).exists():
            return ""
        with Reader.open(state_dir) as reader:
            known = reader.memory(INSTANCE)
    except (StoreError, OSError):
        return ""
    return str(known.get("id", "")) if isinstance(known, dict) else ""


def examine_state(state_dir: Path) -> list[Finding]:
    """Whether the state directory, or the folder it will be created in, can be written and has room."""
    place = state_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    name = str(state_dir)
    if place.exists() and not place.is_dir():
        fix = "Name a directory with `state_dir` or --state-dir."
        words = f"cannot be a directory: {place} is a file"
        return [Finding.fail("state", name, words, fix=fix, reason="not_writable")]
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        owner = place.owner() if place.exists() else "?"
        words = f"cannot be written by this user: {place} belongs to {owner}"
        chown = f"sudo chown -R $USER {shlex.quote(str(place))}"
        fix = f"Run this as the account that runs the daemon; if this is it: `{chown}`."
        return [Finding.fail("state", name, words, fix=fix, reason="not_writable")]
    there = "can be written" if place == state_dir else f"will be created in {place}"
    free = shutil.disk_usage(place).free
    room = f"{free >> 30} GiB free" if free >= 1 << 30 else f"{free >> 20} MiB free"
    if free >= ROOM_WARN_BYTES:
        return [Finding.ok("state", name, f"{there}, {room}")]
    build = Finding.fail if free < ROOM_FAIL_BYTES else Finding.warn
    fix = "Free some space, or move `state_dir` to another disk."
    return [build("state", name, f"{there}, but only {room}", fix=fix, reason="disk_full")]


def examine_daemon(snapshot: Snapshot | None, now: float) -> Finding:
    """Whether a daemon writes to the state."""
    latest = snapshot.latest_at if snapshot is not None else None
    if latest is not None and now - latest <= STALE_S:
        return Finding.ok("daemon", "state", f"last observation {duration(now - latest)} ago")
    what = "there is no observation" if latest is None else f"the last observation is {duration(now - latest)} old"
    return Finding.warn(
        "daemon",
        "state",
        f"{what}: no daemon is writing here",
        fix="Start it: `inference-watchdog service install`, or `inference-watchdog run`.",
        reason="not_running",
    )


def examine_receivers(receivers: Sequence[ReceiverSettings], snapshot: Snapshot | None, now: float) -> list[Finding]:
    """Whether each receiver has accepted a message. Nothing is sent: only a person can tell that it arrived."""
    views = {view.name: view for view in snapshot.receivers} if snapshot is not None else {}
    return [_with_manner(_receiver(one, views.get(one.name), now), one) for one in receivers]


def _with_manner(found: Finding, receiver: ReceiverSettings) -> Finding:
    """`found`, and how loud it rings there."""
    return (
        found if receiver.url is None else replace(found, words=f"{found.words}; {manner_words(receiver.url.reveal())}")
    )


def _receiver(receiver: ReceiverSettings, view: ReceiverView | None, now: float) -> Finding:
    name = receiver.name
    test = f"`inference-watchdog test-alert {name}`"
    if view is not None and view.failures > 0:
        why = view.detail or "no reason given"
        failed = "delivery failed" if view.failures == 1 else "deliveries in a row failed"
        words = f"{view.failures} {failed}, {view.waiting} waiting: {why}"
        return Finding.fail(
            "receiver", name, words, fix=f"Correct its address, then run {test}.", reason="delivery_failed"
        )
    if view is None or view.delivered_at is None:
        words = "cannot tell: the address has a valid form, but nothing was delivered yet"
        fix = f"Run {test} and see whether it arrives."
        return Finding("receiver", name, Grade.WARN, words, fix, reason="unproven", seen=False)
    if view.proven_address not in ("", receiver.address_hash):
        words = f"cannot tell: the message that arrived {duration(now - view.delivered_at)} ago went to another address"
        fix = f"Reload the daemon if it runs, then run {test} and see whether it arrives."
        return Finding("receiver", name, Grade.WARN, words, fix, reason="unproven", seen=False)
    if now - view.delivered_at > PROVEN_WITHIN_S:
        words = f"the last proven delivery is {duration(now - view.delivered_at)} old"
        return Finding.warn("receiver", name, words, fix=f"Run {test}.", reason="unproven")
    return Finding.ok("receiver", name, f"accepted a message {duration(now - view.delivered_at)} ago")
