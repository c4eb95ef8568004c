"""The outbox rows: lease, acknowledge, retry, give up. `policy.queue_decision` has the rules; this is their SQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from watchdog.model import Delivery, DeliveryState, Incident, NotificationKind, Outcome, Severity
from watchdog.policy import (
    Grouping,
    QueueDecision,
    Waiting,
    group_id,
    held_until,
    queue_decision,
    sent_together,
    share_key,
    topic_of,
)
from watchdog.store.codec import incident_from_text
from watchdog.store.writes import depths

_LOOKAHEAD = 500
"""Rows of one queue that are looked at for one lease."""
_NOTHING_SENT: Mapping[Hashable, float] = MappingProxyType({})
_HOME = (
    "(SELECT CASE WHEN group_id != '' THEN group_id ELSE incident END FROM outbox WHERE incident = o.incident"
    " AND receiver = o.receiver AND row < o.row AND attempt > 0 AND kind IN ('FIRING', 'NEW', 'STILL FIRING')"
    " ORDER BY row LIMIT 1)"
)
"""Under which id the receiver was told first of a row's incident."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What to send next, or None and then when to look again (Unix seconds; None: when something is queued).

    `gave_up` holds rows that were given up on the way; `depth` is how many rows are undelivered. `share_key` is that
    of the delivery: whatever follows with the same one within a few seconds is gathered.
    """

    delivery: Delivery | None
    next_due_at: float | None
    gave_up: tuple[Delivery, ...]
    depth: int
    share_key: Hashable | None = None


def release(connection: sqlite3.Connection, receiver: str) -> int:
    """Queue again what a crash left leased; returns how many rows that were. Their attempt stays counted."""
    return connection.execute(
        "UPDATE outbox SET state = 'queued', why = 'crash' WHERE receiver = ? AND state = 'leased'", (receiver,)
    ).rowcount


def lease(
    connection: sqlite3.Connection,
    receiver: str,
    now: float,
    expire_s: float,
    grouping: Grouping = Grouping.NONE,
    sent_at: Mapping[Hashable, float] = _NOTHING_SENT,
) -> Lease:
    """Lease the next rows of `receiver` that may be sent as one message; what says nothing any more is dropped.

    `sent_at` is when the last message with each share key left.
    """
    queue = _queue(connection, receiver, keyed=grouping is Grouping.KEYED)
    siblings: dict[str, list[Waiting]] = {}
    for waiting in queue:
        siblings.setdefault(waiting.incident_id, []).append(waiting)
    gave_up: list[Delivery] = []
    due: list[float] = []
    ready: list[Waiting] = []
    for waiting in queue:
        key = share_key(waiting, grouping)
        if ready and key != share_key(ready[0], grouping):
            continue
        same = siblings[waiting.incident_id]
        decision = _decision(connection, waiting, same, receiver, now, expire_s)
        if decision.drops or decision is QueueDecision.GAVE_UP:
            if decision is QueueDecision.GAVE_UP:
                gave_up.append(_delivery(connection, waiting.row))
            state = DeliveryState.DROPPED if decision.drops else DeliveryState.DEAD
            _finish(connection, waiting.row, state, decision.value, now)
            same.remove(waiting)  # a row behind it may be free now
        elif decision is QueueDecision.SEND:
            held = None if key is None else held_until(waiting, sent_at.get(key), grouping, now)
            if held is None:
                ready.append(waiting)
                if key is None:
                    break
            else:
                due.append(held)
        elif decision is QueueDecision.NOT_DUE:
            due.append(waiting.due_at)
    if not ready:
        return Lease(None, min(due, default=None), tuple(gave_up), _depth(connection, receiver))
    together = sent_together(ready[0], ready, grouping)
    return Lease(
        _leased(connection, together, now),
        None,
        tuple(gave_up),
        _depth(connection, receiver),
        share_key(together[0], grouping),
    )


def _queue(connection: sqlite3.Connection, receiver: str, *, keyed: bool) -> list[Waiting]:
    """The undelivered rows at the head of a receiver's queue; their `home` only for a receiver with keys."""
    home = _HOME if keyed else "''"
    rows = connection.execute(
        "SELECT row, incident, kind, created_at, attempt, due_at, severity,"  # noqa: S608 - our own text
        f" (SELECT key FROM incidents WHERE id = o.incident), group_id, {home}"
        " FROM outbox o WHERE receiver = ? AND state IN ('queued', 'leased') ORDER BY row LIMIT ?",
        (receiver, _LOOKAHEAD),
    )
    return [
        Waiting(
            row=row,
            incident_id=incident,
            kind=NotificationKind(kind),
            created_at=created_at,
            attempt=attempt,
            due_at=due_at,
            severity=Severity(severity),
            topic=topic_of(key) if key else "",
            group_id=group,
            home=known_as or "",
        )
        for row, incident, kind, created_at, attempt, due_at, severity, key, group, known_as in rows
    ]


def _decision(
    connection: sqlite3.Connection,
    waiting: Waiting,
    siblings: Sequence[Waiting],
    receiver: str,
    now: float,
    expire_s: float,
) -> QueueDecision:
    triggered = _triggered(connection, waiting, receiver)
    is_open = waiting.kind.is_end and _group_is_open(connection, waiting, receiver)
    return queue_decision(waiting, siblings, triggered, now, expire_s, group_open=is_open)


def _group_is_open(connection: sqlite3.Connection, waiting: Waiting, receiver: str) -> bool:
    """Whether others of the group that `receiver` knows this incident by have no end yet."""
    if waiting.home in ("", waiting.incident_id):
        return False
    found = connection.execute(
        "SELECT 1 FROM outbox o WHERE group_id = ? AND receiver = ? AND kind IN ('FIRING', 'NEW') AND NOT EXISTS"
        " (SELECT 1 FROM outbox WHERE incident = o.incident AND receiver = o.receiver"
        " AND kind IN ('RESOLVED', 'QUIET')) LIMIT 1",
        (waiting.home, receiver),
    ).fetchone()
    return found is not None


def _leased(connection: sqlite3.Connection, together: Sequence[Waiting], now: float) -> Delivery:
    """Lease these rows as one message, under one id that they keep."""
    first = together[0]
    group = first.group_id
    if not group and len(together) > 1:
        known = first.home if first.home != first.incident_id else ""
        group = known or group_id(first.incident_id)
    elif not group and first.home != first.incident_id:
        group = first.home  # told as part of a group, it goes on under the group's id
    for waiting in together:
        connection.execute(
            "UPDATE outbox SET state = 'leased', attempt = attempt + 1, leased_at = ?, group_id = ? WHERE row = ?",
            (now, group, waiting.row),
        )
    members = tuple(_delivery(connection, waiting.row) for waiting in together)
    return members[0] if len(members) == 1 else replace(members[0], members=members)


def _depth(connection: sqlite3.Connection, receiver: str) -> int:
    return depths(connection, {receiver})[receiver]


def _triggered(connection: sqlite3.Connection, waiting: Waiting, receiver: str) -> int | None:
    """The newest row there was when `receiver` was told of the row's incident; None if it never was.

    A reminder tells of it as a trigger does: that one may have been given up on. A quieter one does not count:
    the incident has been raised since.
    """
    if waiting.kind.is_trigger:
        return None
    least = 0 if waiting.kind.is_end else waiting.severity.rank
    loud = json.dumps([one.value for one in Severity if one.rank >= least])
    found = connection.execute(
        "SELECT max(newest_when_done) FROM outbox WHERE incident = ? AND receiver = ? AND state = 'delivered'"
        " AND kind IN ('FIRING', 'NEW', 'STILL FIRING') AND severity IN (SELECT value FROM json_each(?))",
        (waiting.incident_id, receiver, loud),
    ).fetchone()
    return None if found is None or found[0] is None else int(found[0])


def _finish(connection: sqlite3.Connection, row: int, state: DeliveryState, why: str, now: float) -> None:
    connection.execute("UPDATE outbox SET state = ?, why = ?, done_at = ? WHERE row = ?", (state.value, why, now, row))


def _delivery(connection: sqlite3.Connection, row: int) -> Delivery:
    found = connection.execute(
        "SELECT row, receiver, incident, kind, severity, title, body, created_at, attempt,"
        " (SELECT body FROM incidents WHERE id = outbox.incident), group_id FROM outbox WHERE row = ?",
        (row,),
    ).fetchone()
    number, receiver, incident_id, kind, severity, title, body, created_at, attempt, incident, group = found
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
        group_id=group,
    )


def acknowledge(
    connection: sqlite3.Connection, delivery: Delivery, outcome: Outcome, now: float, address: str = ""
) -> None:
    """The receiver has it: close its rows, remember the proof."""
    for member in delivery.each:
        connection.execute(
            "UPDATE outbox SET state = 'delivered', done_at = ?, why = 'delivered', detail = '', duration_s = ?,"
            " receipt = ?, newest_when_done = (SELECT max(row) FROM outbox) WHERE row = ?",
            (now, outcome.duration_s, outcome.receipt if member.row == delivery.row else "", member.row),
        )
    connection.execute(
        "INSERT INTO receivers (name, delivered_at, proven_address) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
        " SET delivered_at = excluded.delivered_at, proven_address = excluded.proven_address, failures = 0,"
        " detail = ''",
        (delivery.receiver, now, address),
    )


def receipts(connection: sqlite3.Connection, receiver: str) -> tuple[tuple[int, str, str], ...]:
    """Row, incident (or group) and receipt of every page at `receiver` that waits for an answer, oldest first."""
    found = connection.execute(
        "SELECT row, CASE WHEN group_id != '' THEN group_id ELSE incident END, receipt FROM outbox"
        " WHERE receiver = ? AND receipt != '' ORDER BY row",
        (receiver,),
    )
    return tuple((int(row), str(incident), str(receipt)) for row, incident, receipt in found)


def groups(connection: sqlite3.Connection, receiver: str) -> dict[str, tuple[str, ...]]:
    """Every group that was sent to `receiver` and has open incidents: its id, and theirs."""
    found: dict[str, tuple[str, ...]] = {}
    for group, incident in connection.execute(
        "SELECT DISTINCT group_id, incident FROM outbox JOIN incidents ON incidents.id = incident"
        " WHERE group_id != '' AND receiver = ? AND kind IN ('FIRING', 'NEW') AND status = 'firing' ORDER BY row",
        (receiver,),
    ):
        found[group] = (*found.get(group, ()), incident)
    return found


def settle_receipt(connection: sqlite3.Connection, row: int) -> None:
    """The page of this row needs no answer any more."""
    connection.execute("UPDATE outbox SET receipt = '' WHERE row = ?", (row,))


def postpone(connection: sqlite3.Connection, delivery: Delivery, outcome: Outcome, due_at: float, now: float) -> None:
    """The attempt failed: queue its rows again for `due_at`, remember why."""
    for member in delivery.each:
        connection.execute(
            "UPDATE outbox SET state = 'queued', due_at = ?, why = ?, detail = ?, duration_s = ? WHERE row = ?",
            (due_at, outcome.reason.value, outcome.detail, outcome.duration_s, member.row),
        )
    connection.execute(
        "INSERT INTO receivers (name, failed_at, failures, detail) VALUES (?, ?, 1, ?) ON CONFLICT (name) DO UPDATE"
        " SET failed_at = excluded.failed_at, failures = failures + 1, detail = excluded.detail",
        (delivery.receiver, now, outcome.detail),
    )


def abandon(connection: sqlite3.Connection, delivery: Delivery, outcome: Outcome, now: float) -> None:
    """The receiver will never take it: close its rows."""
    for member in delivery.each:
        _finish(connection, member.row, DeliveryState.DEAD, outcome.reason.value, now)


def retry_now(connection: sqlite3.Connection, receiver: str, now: float) -> None:
    """The receiver is back: everything that waits for it is due now."""
    connection.execute("UPDATE outbox SET due_at = ? WHERE receiver = ? AND state = 'queued'", (now, receiver))


def follow_clock(connection: sqlite3.Connection, step_s: float, set_at: float) -> None:
    """Our clock was set by `step_s` seconds when it said `set_at`."""
    connection.execute(
        "UPDATE outbox SET created_at = created_at + :step, due_at = due_at + :step, leased_at = leased_at + :step"
        " WHERE state IN ('queued', 'leased') AND created_at <= :set_at",
        {"step": step_s, "set_at": set_at},
    )


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
