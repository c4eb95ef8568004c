"""When the disk fails: the state goes on in a database in memory, and comes back when the disk does."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

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


def open_memory_fallback(disk: sqlite3.Connection | None) -> sqlite3.Connection:
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


def restore_to_disk(memory: sqlite3.Connection, disk: sqlite3.Connection) -> None:
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


_SLOT_BYTES = 64 << 10
_HEADER = struct.Struct(">QII")  # number, length and checksum of what follows
_TOLD = {
    "incidents": "SELECT * FROM incidents ORDER BY status = 'firing' DESC, opened_at DESC LIMIT :most",
    "outbox": "SELECT * FROM outbox WHERE incident IN (SELECT id FROM incidents"
    " ORDER BY status = 'firing' DESC, opened_at DESC LIMIT :most)",
}


class Reserve:
    """A file whose blocks are taken while there is room: what was told can be kept there when the disk is full.

    A daemon that is killed while its state is in memory would leave receivers with alerts that never end. In two
    halves, so that one of them is whole at any moment.
    """

    def __init__(self, path: Path) -> None:
        """Take the room at `path`, if there is any; without it, all this does nothing."""
        self._path = path
        self._number = 0
        self._kept = b""
        with suppress(OSError):
            if not path.exists() or path.stat().st_size != 2 * _SLOT_BYTES:
                self._make()

    def _make(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.write(file, bytes(2 * _SLOT_BYTES)) != 2 * _SLOT_BYTES:
                self._path.unlink()
        except OSError:
            self._path.unlink()
        finally:
            os.close(file)

    def keep(self, memory: sqlite3.Connection) -> None:
        """Write the incidents and messages of a database in memory, as many as there is room for."""
        most = 1000
        while len(packed := zlib.compress(_packed(memory, most))) > _SLOT_BYTES - _HEADER.size and most > 1:
            most //= 2
        if packed != self._kept:
            self._number += 1
            self._write(self._number % 2, _HEADER.pack(self._number, len(packed), zlib.crc32(packed)) + packed)
            self._kept = packed

    def clear(self) -> None:
        """Everything is on the disk."""
        if self._number:
            self._number, self._kept = 0, b""
            for slot in range(2):
                self._write(slot, bytes(_HEADER.size))

    def restore(self, connection: sqlite3.Connection) -> bool:
        """Put what was kept by a daemon that was killed into `connection`; whether there was anything."""
        kept = self._read()
        if kept is None:
            return False
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table in _TOLD:
                names = kept[table]["columns"]
                if set(names) <= set(columns(connection, table)):
                    marks = ",".join("?" * len(names))
                    sql = f"INSERT OR REPLACE INTO {table} ({','.join(names)}) VALUES ({marks})"  # noqa: S608 - our own
                    connection.executemany(sql, kept[table]["rows"]).close()
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return True

    def _read(self) -> dict[str, Any] | None:
        newest, found = 0, None
        with suppress(OSError):
            data = self._path.read_bytes()
            for slot in range(2):
                half = data[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES]
                number, length, checksum = _HEADER.unpack_from(half.ljust(_HEADER.size, b"\0"))
                packed = half[_HEADER.size : _HEADER.size + length]
                if number > newest and length and zlib.crc32(packed) == checksum:
                    self._number, newest, found = number, number, packed
        return None if found is None else json.loads(zlib.decompress(found))

    def _write(self, slot: int, data: bytes) -> None:
        with suppress(OSError):  # never made for want of room, or gone with the directory
            file = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.pwrite(file, data, slot * _SLOT_BYTES)
            finally:
                os.close(file)


def _packed(memory: sqlite3.Connection, most: int) -> bytes:
    kept = {}
    for table, sql in _TOLD.items():
        rows = memory.execute(sql, {"most": most}).fetchall()
        kept[table] = {"columns": columns(memory, table), "rows": rows}
    return json.dumps(kept, ensure_ascii=False).encode()
