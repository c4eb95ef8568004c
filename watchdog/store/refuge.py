"""When the disk fails: the state goes on in a database in memory, and comes back when the disk does."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from watchdog.store.files import connect_new
from watchdog.store.schema import columns

_ROW_GAP = 1_000_000
"""Rows queued in memory get numbers far behind those on disk, where a command may have queued rows meanwhile."""
_CARRIED: dict[str, str] = {
    "keys": "1",
    "tracks": "1",
    "memory": "1",
    "receivers": "1",
    "silences": "1",
    "acknowledgements": "1",
    "incidents": "status = 'firing' OR id IN (SELECT incident FROM outbox WHERE state IN ('queued', 'leased'))",
    "outbox": "state IN ('queued', 'leased') OR incident IN (SELECT id FROM incidents WHERE status = 'firing')",
}
"""What the daemon needs to go on, by table: which rows."""


def take_refuge(disk: sqlite3.Connection | None) -> sqlite3.Connection:
    """A database in memory that holds what is still readable of `disk` and needed to go on."""
    memory = connect_new()
    if disk is None:
        return memory
    for table, wanted in _CARRIED.items():
        try:
            rows = disk.execute(f"SELECT * FROM {table} WHERE {wanted}").fetchall()  # noqa: S608 - our own names
        except sqlite3.Error:
            continue  # as much as can be read; what is lost here is still in the daemon's own memory or on the disk
        _put(memory, table, rows)
    last = memory.execute("SELECT max(row) FROM outbox").fetchone()[0] or 0
    memory.execute("DELETE FROM sqlite_sequence WHERE name = 'outbox'")
    memory.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox', ?)", (last + _ROW_GAP,))
    return memory


def come_back(memory: sqlite3.Connection, disk: sqlite3.Connection) -> None:
    """Write what happened in memory to `disk`, in one transaction. Raises `sqlite3.Error` if the disk still fails."""
    disk.execute("BEGIN IMMEDIATE")
    try:
        for table in ("tracks", "memory"):
            disk.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        renumbered = _keys(memory, disk)
        for table in _CARRIED:
            if table != "keys":
                _put(disk, table, memory.execute(f"SELECT * FROM {table}").fetchall())  # noqa: S608 - our own names
        for row in memory.execute("SELECT * FROM observations ORDER BY id"):
            _put(disk, "observations", [(None, renumbered[row[1]], *row[2:])])
        for row in memory.execute("SELECT * FROM blind_windows ORDER BY id"):
            _put(disk, "blind_windows", [(None, *row[1:])])
        disk.execute("COMMIT")
    except sqlite3.Error:
        if disk.in_transaction:
            disk.execute("ROLLBACK")
        raise


def _keys(memory: sqlite3.Connection, disk: sqlite3.Connection) -> dict[int, int]:
    """Key numbers in memory → key numbers on disk, where missing ones are added."""
    numbers = {}
    for number, key in memory.execute("SELECT id, key FROM keys"):
        disk.execute("INSERT OR IGNORE INTO keys (key) VALUES (?)", (key,))
        numbers[number] = disk.execute("SELECT id FROM keys WHERE key = ?", (key,)).fetchone()[0]
    return numbers


def _put(connection: sqlite3.Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    """Insert whole rows, replacing those with the same key."""
    marks = ",".join("?" * len(columns(connection, table)))
    with closing(connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)):  # noqa: S608
        pass
