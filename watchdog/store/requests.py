"""What a command may write beside a running daemon: silences, acknowledgements, test alerts. The daemon notices."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from watchdog.errors import StoreError
from watchdog.model import Silence
from watchdog.store import reads
from watchdog.store.codec import dump
from watchdog.store.writes import Queued, enqueue


def add_silence(connection: sqlite3.Connection, silence: Silence) -> None:
    """Start or replace a silence. Raises `StoreError` if it has no end after its start, or matches nothing."""
    if not silence.ends_at > silence.starts_at:
        raise StoreError("a silence needs an end after its start")
    if not silence.matcher:
        raise StoreError("a silence needs at least one label to match, for example server=NAME")
    connection.execute(
        "INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?)",
        (silence.id, dump(dict(silence.matcher)), silence.starts_at, silence.ends_at, silence.reason, silence.author),
    )


def end_silence(connection: sqlite3.Connection, silence_id: str, now: float) -> None:
    """End a silence now. Raises `StoreError` if there is no such silence still running."""
    ended = connection.execute(
        "UPDATE silences SET ends_at = ? WHERE id = ? AND ends_at > ?", (now, silence_id, now)
    ).rowcount
    if not ended:
        raise StoreError(f"no running silence {silence_id}; `inference-watchdog status` lists them")


def acknowledge(connection: sqlite3.Connection, incident_id: str, now: float, reason: str, author: str) -> None:
    """Stop the reminders of an open incident until it ends. Raises `StoreError` if it is not open."""
    found = reads.incident(connection, incident_id)
    if found is None or found.closed_at is not None:
        raise StoreError(f"no open incident {incident_id}; `inference-watchdog status` lists them")
    connection.execute(
        "INSERT OR REPLACE INTO acknowledgements VALUES (?, ?, ?, ?)", (incident_id, now, reason, author)
    )


def queue(connection: sqlite3.Connection, messages: Iterable[Queued]) -> tuple[int, ...]:
    """Put messages into the outbox; returns their rows."""
    return tuple(enqueue(connection, message) for message in messages)
