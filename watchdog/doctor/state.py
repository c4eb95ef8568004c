"""Our own state: can it be written, is there room, does a daemon write there, was each receiver ever proven."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from watchdog.config import ReceiverSettings
from watchdog.doctor.finding import Finding, Grade
from watchdog.errors import StoreError
from watchdog.store import Reader, Snapshot
from watchdog.store.files import DATABASE

ROOM_FAIL_BYTES = 64 << 20
ROOM_WARN_BYTES = 512 << 20
PROVEN_WITHIN_S = 30 * 86400.0
"""A receiver that has not taken a message for so long is not proven to work (as `status` says it)."""
STALE_S = 900.0


def read_state(state_dir: Path, now: float) -> tuple[Snapshot | None, list[Finding]]:
    """What the daemon keeps, None when there is none yet; and what is wrong with it when it cannot be read."""
    try:
        if not (state_dir / DATABASE).exists():
            return None, []
        with Reader.open(state_dir) as reader:
            return reader.snapshot(now), []
    except (StoreError, OSError) as error:
        return None, [
            Finding(
                area="state",
                name=str(state_dir),
                grade=Grade.FAIL,
                words=str(error),
                fix="Run this as the account that runs the daemon, and read the daemon's log.",
                reason="unreadable",
            )
        ]


def examine_state(state_dir: Path) -> list[Finding]:
    """Whether the state directory, or the folder it will be made in, can be written and has room."""
    place = state_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    name = str(state_dir)
    if place.exists() and not place.is_dir():
        return [
            Finding(
                area="state",
                name=name,
                grade=Grade.FAIL,
                words=f"cannot be a folder: {place} is a file",
                fix="Name a folder with `state_dir` or --state-dir.",
                reason="not_writable",
            )
        ]
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        owner = place.owner() if place.exists() else "?"
        return [
            Finding(
                area="state",
                name=name,
                grade=Grade.FAIL,
                words=f"cannot be written by this user: {place} belongs to {owner}",
                fix=(
                    "Run this as the account that runs the daemon; if this is it: "
                    f"`sudo chown -R $USER {shlex.quote(str(place))}`."
                ),
                reason="not_writable",
            )
        ]
    there = "can be written" if place == state_dir else f"will be made in {place}"
    free = shutil.disk_usage(place).free
    room = f"{free >> 30} GiB free" if free >= 1 << 30 else f"{free >> 20} MiB free"
    if free >= ROOM_WARN_BYTES:
        return [Finding(area="state", name=name, grade=Grade.PASS, words=f"{there}, {room}")]
    return [
        Finding(
            area="state",
            name=name,
            grade=Grade.FAIL if free < ROOM_FAIL_BYTES else Grade.WARN,
            words=f"{there}, but only {room}",
            fix="Free some space, or set `state_dir` to another disk.",
            reason="disk_full",
        )
    ]


def examine_daemon(snapshot: Snapshot | None, now: float) -> Finding:
    """Whether a daemon writes to the state."""
    latest = snapshot.latest_at if snapshot is not None else None
    if latest is not None and now - latest <= STALE_S:
        return Finding(
            area="daemon", name="state", grade=Grade.PASS, words=f"observed something {now - latest:.0f} s ago"
        )
    what = "nothing was ever observed" if latest is None else f"the last observation is {_age(now - latest)} old"
    return Finding(
        area="daemon",
        name="state",
        grade=Grade.WARN,
        words=f"{what}: no daemon is writing here",
        fix="Start it: `inference-watchdog service install`, or `inference-watchdog run`.",
        reason="not_running",
    )


def examine_receivers(receivers: Sequence[ReceiverSettings], snapshot: Snapshot | None, now: float) -> list[Finding]:
    """Whether each receiver has proven that it works. Nothing is sent: only a person can say that it arrived."""
    views = {view.name: view for view in snapshot.receivers} if snapshot is not None else {}
    found = []
    for receiver in receivers:
        view = views.get(receiver.name)
        test = f"`inference-watchdog test-alert {receiver.name}`"
        grade, reason, seen, fix = Grade.PASS, "ok", True, ""
        if view is not None and view.failures > 0:
            grade, reason = Grade.FAIL, "delivery_failed"
            why = view.detail or "no reason given"
            words = f"{view.failures} deliveries failed in a row, {view.waiting} waiting: {why}"
            fix = f"Correct its address, then run {test}."
        elif view is None or view.delivered_at is None:
            grade, reason, seen = Grade.WARN, "unproven", False
            words = "its address has the right form, but nothing was ever delivered: cannot see whether it arrives"
            fix = f"Run {test} and look at the phone."
        elif now - view.delivered_at > PROVEN_WITHIN_S:
            grade, reason = Grade.WARN, "unproven"
            words, fix = f"the last proven delivery is {_age(now - view.delivered_at)} old", f"Run {test}."
        else:
            words = f"took a message {_age(now - view.delivered_at)} ago"
        found.append(
            Finding(area="receiver", name=receiver.name, grade=grade, words=words, fix=fix, reason=reason, seen=seen)
        )
    return found


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 172800 else f"{seconds / 86400:.0f} days"
