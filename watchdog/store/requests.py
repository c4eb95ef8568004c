"""What a command may write beside a running daemon: silences, acknowledgements, test alerts. The daemon notices."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace

from watchdog.errors import StoreError
from watchdog.model import Silence
from watchdog.store import reader
from watchdog.store.codec import dump
from watchdog.store.writes import Queued, enqueue
from watchdog.text import clean_line

# What people write beside an incident or a silence: one clean line, not empty, not endless.

LONGEST_REASON = 500
LONGEST_AUTHOR = 100


def reason_of(text: str) -> str:
    """`text` as it is kept. Raises `StoreError` for none, or more than 500 characters."""
    line = clean_line(text)
    if not line:
        raise StoreError("the reason is empty: say in a few words why, for those who read `status`")
    if len(line) > LONGEST_REASON:
        raise StoreError(f"the reason has {len(line)} characters; say it in at most {LONGEST_REASON}")
    return line


def author_of(text: str) -> str:
    """The name of who asks, as it is kept."""
    return clean_line(text)[:LONGEST_AUTHOR]


def add_silence(connection: sqlite3.Connection, silence: Silence) -> Silence:
    """Start or replace a silence; returns it as it is kept.

    Raises `StoreError` if it has no end after its start, matches nothing, or gives no reason.
    """
    if not silence.ends_at > silence.starts_at:
        raise StoreError("a silence needs an end after its start")
    if not silence.matcher:
        raise StoreError("a silence needs at least one label to match, for example server=NAME")
    for label, value in silence.matcher.items():
        if clean_line(value) != value:
            raise StoreError(f"the value of {label} holds characters that no name here has: {clean_line(value)}")
    kept = replace(silence, reason=reason_of(silence.reason), author=author_of(silence.author))
    connection.execute(
        "INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?)",
        (kept.id, dump(dict(kept.matcher)), kept.starts_at, kept.ends_at, kept.reason, kept.author),
    )
    return kept


def end_silence(connection: sqlite3.Connection, silence_id: str, now: float) -> None:
    """End a silence now. Raises `StoreError` if there is no such silence still running."""
    ended = connection.execute(
        "UPDATE silences SET ends_at = ? WHERE id = ? AND ends_at > ?", (now, silence_id, now)
    ).rowcount
    if not ended:
        raise StoreError(f"no running silence {silence_id}; `inference-watchdog status` lists them")


def acknowledge(connection: sqlite3.Connection, incident_id: str, now: float, reason: str, author: str) -> None:
    """Stop the reminders of an open incident until it ends. Raises `StoreError` if it is not open, or for no reason."""
    found = reader.incident(connection, incident_id)
    if found is None or found.closed_at is not None:
        raise StoreError(f"no open incident {incident_id}; `inference-watchdog status` lists them")
    connection.execute(
        "INSERT OR REPLACE INTO acknowledgements VALUES (?, ?, ?, ?)",
        (incident_id, now, reason_of(reason), author_of(author)),
    )


def queue(connection: sqlite3.Connection, messages: Iterable[Queued]) -> tuple[int, ...]:
    """Put messages into the outbox; returns their rows."""
    return tuple(enqueue(connection, message) for message in messages)
