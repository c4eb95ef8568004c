"""Reading the state, beside a running daemon or inside it. Changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Self

from watchdog.model import Incident, Json, Silence
from watchdog.store import files, reads
from watchdog.store.codec import load
from watchdog.store.reads import BlindWindow, DeliveryView, Point, Snapshot
from watchdog.store.samples import Cost, Sample, cost, samples


class Reader:
    """Reads the state of a daemon, running or not.

    `Reader.open` is for `with`, whose end turns whatever SQLite complains about inside into a plain `StoreError`.
    """

    def __init__(self, connection: sqlite3.Connection, storage: str | None = None, *, path: Path | None = None) -> None:
        """Use `Reader.open` or `Store.read`; `storage` is why the state is in memory only, or None."""
        self._db = connection
        self._storage = storage
        self._path = path

    @classmethod
    def open(cls, state_dir: Path) -> Self:
        """For a command."""
        return cls(files.open_for_reading(state_dir), path=state_dir / files.DATABASE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._db.close()
        if isinstance(error, sqlite3.Error) and self._path is not None:
            raise files.told(error, self._path) from error

    def snapshot(self, now: float) -> Snapshot:
        """Everything that is now."""
        return reads.snapshot(self._db, now, self._storage)

    def history(self, key: str, since_at: float, until_at: float, limit: int = 100_000) -> tuple[Point, ...]:
        """Observations of `key`, oldest first."""
        return reads.history(self._db, key, since_at, until_at, limit)

    def incidents(self, since_at: float, until_at: float) -> tuple[Incident, ...]:
        """Incidents that were open at some time in between, oldest first."""
        return reads.incidents(self._db, since_at, until_at)

    def deliveries(self, incident_id: str | None = None, since_at: float = 0.0) -> tuple[DeliveryView, ...]:
        """What became of messages, in queue order."""
        return reads.deliveries(self._db, incident_id, since_at)

    def memory(self, check_key: str) -> Json | None:
        """What the last committed run of a check remembered; `PLAN` is what the daemon runs by."""
        row = self._db.execute("SELECT value FROM memory WHERE check_key = ?", (check_key,)).fetchone()
        return None if row is None else load(row[0])

    def samples(self, key: str, since_at: float, until_at: float) -> tuple[Sample, ...]:
        """The numbers of the observations of `key`, oldest first."""
        return samples(self._db, key, since_at, until_at)

    def cost(self, key: str, since_at: float, until_at: float) -> Cost:
        """What the probes of `key` asked of their server."""
        return cost(self._db, key, since_at, until_at)

    def keys(self) -> tuple[str, ...]:
        """Every key that was ever observed, by name."""
        return tuple(row[0] for row in self._db.execute("SELECT key FROM keys ORDER BY key"))

    def receivers(self) -> tuple[str, ...]:
        """Every receiver that ever took or refused a message, or has one waiting, by name."""
        found = self._db.execute("SELECT name FROM receivers UNION SELECT receiver FROM outbox ORDER BY 1")
        return tuple(row[0] for row in found)

    def blind_windows(self, since_at: float) -> tuple[BlindWindow, ...]:
        """Times without sight that were not over at `since_at`, oldest first."""
        return reads.blind_windows(self._db, since_at)

    def silences(self, since_at: float) -> tuple[Silence, ...]:
        """Silences that were not over at `since_at`, by their end."""
        return reads.silences(self._db, since_at)
