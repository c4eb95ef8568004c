"""What a command may write beside a running daemon: silences, acknowledgements, test alerts. The daemon notices."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from watchdog.errors import StoreError
from watchdog.model import Silence
from watchdog.store import files
from watchdog.store.codec import dump
from watchdog.store.writes import Queued, enqueue
from watchdog.text import clean_line

LONGEST_REASON = 500
LONGEST_AUTHOR = 100


class Requests:
    """What a command may ask of the daemon. `Requests.open` works beside a running one.

    It is for `with`, whose end turns whatever SQLite complains about inside into `StoreError` in plain words.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def open(cls, state_dir: Path) -> Self:
        """For a command; raises `StoreError` in plain words."""
        return cls(files.open_for_request(state_dir), state_dir / files.DATABASE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._db.close()
        if isinstance(error, sqlite3.Error) and self._path is not None:
            raise files.unusable(error, self._path) from error

    def add_silence(self, silence: Silence) -> Silence:
        """Start or replace a silence; returns it as it is kept.

        Raises `StoreError` if it has no end after its start, matches nothing, or gives no reason.
        """
        if not silence.ends_at > silence.starts_at:
            raise StoreError("a silence must end after it starts")
        if not silence.matcher:
            raise StoreError("a silence needs at least one label to match, for example server=NAME")
        for label, value in silence.matcher.items():
            if clean_line(value) != value:
                raise StoreError(f"the value of {label} contains characters that no name has: {clean_line(value)}")
        kept = replace(silence, reason=_reason(silence.reason), author=_author(silence.author))
        self._db.execute(
            "INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?)",
            (kept.id, dump(dict(kept.matcher)), kept.starts_at, kept.ends_at, kept.reason, kept.author),
        )
        return kept

    def end_silence(self, silence_id: str, now: float) -> None:
        """End a silence now. Raises `StoreError` if there is no such silence still active."""
        ended = self._db.execute(
            "UPDATE silences SET ends_at = ? WHERE id = ? AND ends_at > ?", (now, silence_id, now)
        ).rowcount
        if not ended:
            raise StoreError(f"no active silence {silence_id}; `inference-watchdog status` lists them")

    def acknowledge(self, incident_id: str, now: float, reason: str, author: str) -> None:
        """Stop the reminders of an open incident until it ends; with the id of a group, of all that are open in it.

        Raises `StoreError` if none is open, or for no reason.
        """
        members = self._db.execute(
            "SELECT id FROM incidents WHERE status = 'firing'"
            " AND (id = ? OR id IN (SELECT incident FROM outbox WHERE group_id = ?))",
            (incident_id, incident_id),
        ).fetchall()
        if not members:
            raise StoreError(f"no open incident {incident_id}; `inference-watchdog status` lists them")
        for (member,) in members:
            self._db.execute(
                "INSERT OR REPLACE INTO acknowledgements VALUES (?, ?, ?, ?)",
                (member, now, _reason(reason), _author(author)),
            )

    def queue(self, messages: Iterable[Queued]) -> tuple[int, ...]:
        """Queue messages (a test alert); returns their rows."""
        return tuple(enqueue(self._db, message) for message in messages)


def _reason(text: str) -> str:
    """`text` as it is kept. Raises `StoreError` for none, or more than 500 characters."""
    line = clean_line(text)
    if not line:
        raise StoreError("the reason is empty: say in a few words why, for those who read `status`")
    if len(line) > LONGEST_REASON:
        raise StoreError(f"the reason has {len(line)} characters; the limit is {LONGEST_REASON}")
    return line


def _author(text: str) -> str:
    return clean_line(text)[:LONGEST_AUTHOR]
