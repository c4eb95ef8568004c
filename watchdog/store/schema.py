"""The tables of the state database, version by version."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from watchdog.errors import StateVersionError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE keys (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
    CREATE TABLE observations (
        id INTEGER PRIMARY KEY, key INTEGER NOT NULL, at REAL NOT NULL, verdict INTEGER NOT NULL, reason TEXT NOT NULL,
        duration_s REAL NOT NULL, summary TEXT NOT NULL, measurements TEXT
    );
    CREATE INDEX observations_by_key ON observations (key, id);
    CREATE TABLE tracks (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE incidents (
        id TEXT PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL, severity TEXT NOT NULL, opened_at REAL NOT NULL,
        closed_at REAL, body TEXT NOT NULL
    );
    CREATE INDEX incidents_open ON incidents (id) WHERE status = 'firing';
    CREATE TABLE outbox (
        row INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT NOT NULL, incident TEXT NOT NULL, kind TEXT NOT NULL,
        severity TEXT NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL, created_at REAL NOT NULL,
        state TEXT NOT NULL DEFAULT 'queued', attempt INTEGER NOT NULL DEFAULT 0, due_at REAL NOT NULL,
        leased_at REAL, done_at REAL, newest_when_done INTEGER,
        why TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '', duration_s REAL
    );
    CREATE INDEX outbox_waiting ON outbox (receiver, row) WHERE state IN ('queued', 'leased');
    CREATE INDEX outbox_by_incident ON outbox (incident, receiver);
    CREATE TABLE memory (check_key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE receivers (
        name TEXT PRIMARY KEY, delivered_at REAL, failed_at REAL, failures INTEGER NOT NULL DEFAULT 0,
        detail TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID;
    CREATE TABLE silences (
        id TEXT PRIMARY KEY, matcher TEXT NOT NULL, starts_at REAL NOT NULL, ends_at REAL NOT NULL,
        reason TEXT NOT NULL, author TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE acknowledgements (
        incident TEXT PRIMARY KEY, at REAL NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE blind_windows (
        id INTEGER PRIMARY KEY, began_at REAL NOT NULL, ended_at REAL NOT NULL, reason TEXT NOT NULL
    );
    """,
    """
    ALTER TABLE outbox ADD COLUMN receipt TEXT NOT NULL DEFAULT '';
    CREATE INDEX outbox_receipts ON outbox (receiver) WHERE receipt != '';
    """,
    "ALTER TABLE receivers ADD COLUMN proven_address TEXT NOT NULL DEFAULT '';",
    """
    ALTER TABLE outbox ADD COLUMN group_id TEXT NOT NULL DEFAULT '';
    CREATE INDEX outbox_groups ON outbox (group_id, receiver) WHERE group_id != '';
    """,
    "ALTER TABLE observations ADD COLUMN weight INTEGER NOT NULL DEFAULT 1;",
)
"""One script per version; the database's `user_version` says how many have run. Never change one that was released."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to the present version, each step in its own transaction.

    Raises `StateVersionError` if the database was written by a newer version of this program.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise StateVersionError(
            f"the state database has version {version}, this program supports {len(MIGRATIONS)}: it was written "
            "by a newer inference-watchdog; upgrade, or choose another --state-dir"
        )
    for number in range(version, len(MIGRATIONS)):
        script = f"BEGIN IMMEDIATE; {MIGRATIONS[number]} PRAGMA user_version = {number + 1}; COMMIT;"
        try:
            connection.executescript(script)
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The column names of one of our own tables."""
    with closing(connection.execute(f"SELECT * FROM {table} LIMIT 0")) as cursor:  # noqa: S608 - our own names
        return tuple(str(column[0]) for column in cursor.description)


def in_present_form(connection: sqlite3.Connection) -> sqlite3.Connection:
    """`connection`; of a database that an older version wrote a copy in memory, brought up to date.

    The daemon does that to the file itself when it starts; a command that only looks must not.
    """
    if int(connection.execute("PRAGMA user_version").fetchone()[0]) >= len(MIGRATIONS):
        return connection
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with closing(connection):
        connection.backup(copy)
    migrate(copy)
    return copy
