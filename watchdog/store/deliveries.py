"""The outbox rows: lease, acknowledge, retry, give up. `policy.queue_decision` has the rules; this is their SQL."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from watchdog.model import Delivery, DeliveryState, Incident, NotificationKind, Outcome, Severity
from watchdog.policy import QueueDecision, Waiting, queue_decision
from watchdog.store.codec import incident_from_text
from watchdog.store.writes import depths

_LOOKAHEAD = 500
"""Rows of one queue that are looked at for one lease."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What to send next, or None and then when to look again (Unix seconds; None: when something is queued).

    `gave_up` holds rows that were given up on the way; `depth` is how many rows are undelivered.
    """

    delivery: Delivery | None
    next_due_at: float | None
    gave_up: tuple[Delivery, ...]
    depth: int


def release(connection: sqlite3.Connection, receiver: str) -> int:
    """Queue again what a crash left leased; returns how many rows that were. Their attempt stays counted."""
    return connection.execute(
        "UPDATE outbox SET state = 'queued', why = 'crash' WHERE receiver = ? AND state = 'leased'", (receiver,)
    ).rowcount


def lease(connection: sqlite3.Connection, receiver: str, now: float, expire_s: float) -> Lease:
    """Lease the next row of `receiver` that may be sent; rows that say nothing any more are dropped on the way."""
    queue = [
        Waiting(row, incident, NotificationKind(kind), created_at, attempt, due_at)
        for row, incident, kind, created_at, attempt, due_at in connection.execute(
            "SELECT row, incident, kind, created_at, attempt, due_at FROM outbox"
            " WHERE receiver = ? AND state IN ('queued', 'leased') ORDER BY row LIMIT ?",
            (receiver, _LOOKAHEAD),
        )
    ]
    siblings: dict[str, list[Waiting]] = {}
    for waiting in queue:
        siblings.setdefault(waiting.incident_id, []).append(waiting)
    gave_up: list[Delivery] = []
    due: list[float] = []
    for waiting in queue:
        same = siblings[waiting.incident_id]
        decision = queue_decision(waiting, same, _triggered(connection, waiting, receiver), now, expire_s)
        if decision.drops or decision is QueueDecision.GAVE_UP:
            if decision is QueueDecision.GAVE_UP:
                gave_up.append(_delivery(connection, waiting.row))
            state = DeliveryState.DROPPED if decision.drops else DeliveryState.DEAD
            _finish(connection, waiting.row, state, decision.value, now)
            same.remove(waiting)  # a row behind it may be free now
        elif decision is QueueDecision.SEND:
            connection.execute(
                "UPDATE outbox SET state = 'leased', attempt = attempt + 1, leased_at = ? WHERE row = ?",
                (now, waiting.row),
            )
            return Lease(_delivery(connection, waiting.row), None, tuple(gave_up), _depth(connection, receiver))
        elif decision is QueueDecision.NOT_DUE:
            due.append(waiting.due_at)
    return Lease(None, min(due, default=None), tuple(gave_up), _depth(connection, receiver))


def _depth(connection: sqlite3.Connection, receiver: str) -> int:
    return depths(connection, {receiver})[receiver]


def _triggered(connection: sqlite3.Connection, waiting: Waiting, receiver: str) -> int | None:
    """The newest row there was when `receiver` was told of the row's incident; None if it never was.

    A reminder tells of it as a trigger does: that one may have been given up on.
    """
    if waiting.kind.is_trigger:
        return None
    found = connection.execute(
        "SELECT max(newest_when_done) FROM outbox WHERE incident = ? AND receiver = ? AND state = 'delivered'"
        " AND kind IN ('FIRING', 'NEW', 'STILL FIRING')",
        (waiting.incident_id, receiver),
    ).fetchone()
    return None if found is None or found[0] is None else int(found[0])


def _finish(connection: sqlite3.Connection, row: int, state: DeliveryState, why: str, now: float) -> None:
    connection.execute("UPDATE outbox SET state = ?, why = ?, done_at = ? WHERE row = ?", (state.value, why, now, row))


def _delivery(connection: sqlite3.Connection, row: int) -> Delivery:
    found = connection.execute(
        "SELECT row, receiver, incident, kind, severity, title, body, created_at, attempt,"
        " (SELECT body FROM incidents WHERE id = outbox.incident) FROM outbox WHERE row = ?",
        (row,),
    ).fetchone()
    number, receiver, incident_id, kind, severity, title, body, created_at, attempt, incident = found
    return Delivery(
        row=number,
        receiver=receiver,
        incident_id=incident_id,
        kind=NotificationKind(kind),
        severity=Severity(severity),
        title=title,
        body=body,
        created_at=created_at,
        attempt=attempt,
        incident=None if incident is None else incident_from_text(incident),
    )


def acknowledge(
    connection: sqlite3.Connection, delivery: Delivery, outcome: Outcome, now: float, address: str = ""
) -> None:
    """The receiver has it: close the row, remember the proof."""
    connection.execute(
        "UPDATE outbox SET state = 'delivered', done_at = ?, why = 'delivered', detail = '', duration_s = ?,"
        " receipt = ?, newest_when_done = (SELECT max(row) FROM outbox) WHERE row = ?",
        (now, outcome.duration_s, outcome.receipt, delivery.row),
    )
    connection.execute(
        "INSERT INTO receivers (name, delivered_at, proven_address) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
        " SET delivered_at = excluded.delivered_at, proven_address = excluded.proven_address, failures = 0,"
        " detail = ''",
        (delivery.receiver, now, address),
    )


def receipts(connection: sqlite3.Connection, receiver: str) -> tuple[tuple[int, str, str], ...]:
    """Row, incident and receipt of every page at `receiver` that still waits for an answer there, oldest first."""
    found = connection.execute(
        "SELECT row, incident, receipt FROM outbox WHERE receiver = ? AND receipt != '' ORDER BY row", (receiver,)
    )
    return tuple((int(row), str(incident), str(receipt)) for row, incident, receipt in found)


def settle_receipt(connection: sqlite3.Connection, row: int) -> None:
    """The page of this row needs no answer any more."""
    connection.execute("UPDATE outbox SET receipt = '' WHERE row = ?", (row,))


def postpone(connection: sqlite3.Connection, delivery: Delivery, outcome: Outcome, due_at: float, now: float) -> None:
    """The attempt failed: queue the row again for `due_at`, remember why."""
    connection.execute(
        "UPDATE outbox SET state = 'queued', due_at = ?, why = ?, detail = ?, duration_s = ? WHERE row = ?",
        (due_at, outcome.reason.value, outcome.detail, outcome.duration_s, delivery.row),
    )
    connection.execute(
        "INSERT INTO receivers (name, failed_at, failures, detail) VALUES (?, ?, 1, ?) ON CONFLICT (name) DO UPDATE"
        " SET failed_at = excluded.failed_at, failures = failures + 1, detail = excluded.detail",
        (delivery.receiver, now, outcome.detail),
    )


def abandon(connection: sqlite3.Connection, delivery: Delivery, outcome: Outcome, now: float) -> None:
    """The receiver will never take it: close the row."""
    _finish(connection, delivery.row, DeliveryState.DEAD, outcome.reason.value, now)


def retry_now(connection: sqlite3.Connection, receiver: str, now: float) -> None:
    """The receiver is back: everything that waits for it is due now."""
    connection.execute("UPDATE outbox SET due_at = ? WHERE receiver = ? AND state = 'queued'", (now, receiver))


def forget_receivers(connection: sqlite3.Connection, known: set[str], now: float) -> int:
    """Drop the undelivered rows of receivers that left the configuration; returns how many rows."""
    gone = set(depths(connection)) - known
    dropped = 0
    for receiver in gone:
        dropped += connection.execute(
            "UPDATE outbox SET state = 'dropped', why = 'receiver_removed', done_at = ?"
            " WHERE receiver = ? AND state IN ('queued', 'leased')",
            (now, receiver),
        ).rowcount
    return dropped


def firing_at(connection: sqlite3.Connection, receiver: str) -> tuple[Incident, ...]:
    """Open incidents whose trigger was delivered to `receiver`, oldest first."""
    rows = connection.execute(
        "SELECT body FROM incidents WHERE status = 'firing' AND EXISTS"
        " (SELECT 1 FROM outbox WHERE incident = incidents.id AND receiver = ? AND state = 'delivered'"
        " AND kind IN ('FIRING', 'NEW')) ORDER BY id",
        (receiver,),
    )
    return tuple(incident_from_text(row[0]) for row in rows)
