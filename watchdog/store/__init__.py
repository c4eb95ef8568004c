"""The state: SQLite behind one writer thread, in memory when the disk fails. No module outside knows a table.

`Store` is the daemon's; `Reader` and `Requests` are for commands beside a running daemon.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO, TypeVar

from watchdog.errors import StoreError
from watchdog.model import Delivery, Incident, Json, Outcome, Silence, TrackState
from watchdog.store import deliveries, files, reader, requests
from watchdog.store.codec import load
from watchdog.store.deliveries import Lease
from watchdog.store.reader import (
    Acknowledged,
    BlindWindow,
    DeliveryView,
    KeyView,
    Point,
    Reader,
    ReceiverView,
    Sample,
    Snapshot,
)
from watchdog.store.writer import Trouble, Writer
from watchdog.store.writes import Commit, Queued, apply, depths, tidy

__all__ = [
    "MAINTENANCE",
    "PLAN",
    "Acknowledged",
    "BlindWindow",
    "Commit",
    "DeliveryView",
    "KeyView",
    "Lease",
    "Point",
    "Queued",
    "Reader",
    "ReceiverView",
    "Requests",
    "Sample",
    "Snapshot",
    "Store",
    "Trouble",
    "Wishes",
]

PLAN = "self/plan"
"""The memory under which the daemon keeps which checks it runs, how often and with which thresholds."""

MAINTENANCE = "self/maintenance"
"""The memory under which the daemon keeps its maintenance windows, for `status`."""

T = TypeVar("T")
_LINGER_S = 1.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What people asked for beside us: silences that are not over, acknowledgements, and who has messages waiting.

    `acknowledged` maps an incident id to when it was acknowledged.
    """

    silences: tuple[Silence, ...]
    acknowledged: Mapping[str, float]
    receivers: tuple[str, ...]


class Store:
    """The daemon's state. Open it with `Store.open`; every write is one transaction.

    `trouble` is None, or why the state is kept in memory only; `set_aside` is the file a corrupt database was renamed
    to at start. Writes never fail because of the disk: they go to memory then, until `mend` succeeds.
    """

    def __init__(
        self, writer: Writer, state_dir: Path | None, lock: TextIO | None, set_aside: Path | None, now: float
    ) -> None:
        """Use `Store.open`."""
        self._writer = writer
        self._state_dir = state_dir
        self._lock = lock
        self._now = now
        self.set_aside = set_aside
        self._memories: dict[str, Json] = {
            key: load(text)
            for key, text in writer.do_now(lambda db: db.execute("SELECT check_key, value FROM memory").fetchall())
        }
        self._depths = writer.do_now(depths)
        self._seen: tuple[int, int, int] | None = None
        self._asked = 0

    @classmethod
    def open(cls, state_dir: Path, now: float, *, linger_s: float = _LINGER_S) -> Store:
        """Open the state in `state_dir`, made if missing. `now` in Unix seconds.

        Raises `StateLockedError` if another daemon has it, `StoreError` if a newer version wrote it, or if it is no
        folder or may not be written. If the disk fails (full, broken), the store works in memory and `trouble` says
        why. `linger_s` is how long a write that is in no hurry waits for others to share its transaction.
        """
        lock: TextIO | None = None
        try:
            lock = files.lock(state_dir)
            opened = files.open_database(state_dir, now)
        except StoreError:
            if lock is not None:
                lock.close()
            raise
        except (sqlite3.Error, OSError) as error:
            refused = files.refusal(state_dir, error)
            if refused is not None:
                if lock is not None:
                    lock.close()
                raise refused from error
            readable = files.open_if_readable(state_dir)
            return cls(Writer(readable, Trouble(str(error)), linger_s), state_dir, lock, None, now)
        return cls(Writer(opened.connection, None, linger_s), state_dir, lock, opened.set_aside, now)

    @classmethod
    def in_memory(cls) -> Store:
        """A store that lives as long as this object: for one-off commands."""
        return cls(Writer(files.connect_new(), None, 0.0), None, None, None, 0.0)

    @property
    def trouble(self) -> Trouble | None:
        """Why the state is in memory only, or None."""
        return self._writer.trouble

    def memory(self, check_key: str) -> Json | None:
        """What the last committed run of a check remembered."""
        return self._memories.get(check_key)

    def depth(self, receiver: str) -> int:
        """How many undelivered rows `receiver` has."""
        return self._depths.get(receiver, 0)

    def loaded(self) -> tuple[dict[str, TrackState], tuple[Incident, ...]]:
        """At start: every tracked key with its state, and the open incidents. Blocks for a moment."""
        return self._writer.do_now(lambda db: (reader.states(db), reader.open_incidents(db)))

    def last_incident_id(self) -> str:
        """The greatest incident id ever given, "" if none. Blocks for a moment."""
        rows = self._writer.do_now(lambda db: db.execute("SELECT max(id) FROM incidents").fetchone())
        return str(rows[0] or "")

    def note(self, commit: Commit) -> None:
        """Write what only says that all is well, with the next transaction; nobody waits for that.

        A thousand healthy servers cost one transaction a second this way, and a crash loses a second of "all is well".
        """
        self._writer.do_soon(lambda db: apply(db, commit))
        if commit.memory is not None:
            self._memories[commit.memory[0]] = commit.memory[1]

    async def commit(self, commit: Commit) -> None:
        """Write `commit` in one transaction, at once. What matters survives a power cut."""
        grown = await self._do(lambda db: apply(db, commit), durable=commit.matters)
        self._depths.update(grown)
        if commit.memory is not None:
            self._memories[commit.memory[0]] = commit.memory[1]

    async def lease(self, receiver: str, now: float, expire_s: float) -> Lease:
        """Lease the next row of `receiver`; rows older than `expire_s` are given up."""
        taken = await self._do(lambda db: deliveries.lease(db, receiver, now, expire_s))
        self._depths[receiver] = taken.depth
        return taken

    async def release(self, receiver: str) -> int:
        """At start: queue again what a crash left leased; returns how many rows."""
        return await self._do(lambda db: deliveries.release(db, receiver))

    async def acknowledge(self, delivery: Delivery, outcome: Outcome, now: float, *, hasten: bool) -> None:
        """`delivery` arrived. `hasten`: the receiver was away, all that waits for it is due now."""

        def work(db: sqlite3.Connection) -> None:
            deliveries.acknowledge(db, delivery, outcome, now)
            if hasten:
                deliveries.hasten(db, delivery.receiver, now)

        await self._do(work)

    async def postpone(self, delivery: Delivery, outcome: Outcome, due_at: float, now: float) -> None:
        """`delivery` failed; try again at `due_at`."""
        await self._do(lambda db: deliveries.postpone(db, delivery, outcome, due_at, now))

    async def forget_receivers(self, known: Iterable[str], now: float) -> int:
        """Drop undelivered rows of receivers that are not in `known`; returns how many."""
        names = set(known)
        dropped = await self._do(lambda db: deliveries.forget_receivers(db, names, now))
        self._depths = {name: depth for name, depth in self._depths.items() if name in names}
        return dropped

    async def firing_at(self, receiver: str) -> tuple[Incident, ...]:
        """Open incidents whose trigger was delivered to `receiver`."""
        return await self._do(lambda db: deliveries.firing_at(db, receiver))

    async def wishes(self, now: float) -> Wishes | None:
        """What commands have asked for, if one may have written since the last call; else None."""

        def work(db: sqlite3.Connection) -> Wishes | None:
            version = (self._writer.moves, db.execute("PRAGMA data_version").fetchone()[0], self._asked)
            if version == self._seen:
                return None
            self._seen = version
            return Wishes(reader.silences(db, now), reader.acknowledgements(db), deliveries.waiting(db))

        return await self._do(work)

    async def snapshot(self, now: float) -> Snapshot:
        """Everything that is now, also when the state is in memory."""
        trouble = self.trouble
        return await self._do(lambda db: reader.snapshot(db, now, trouble.text if trouble else None))

    async def deliveries(self, incident_id: str | None = None, since_at: float = 0.0) -> tuple[DeliveryView, ...]:
        """What became of messages; see `reads.deliveries`."""
        return await self._do(lambda db: reader.deliveries(db, incident_id, since_at))

    async def history(self, key: str, since_at: float, until_at: float, limit: int = 100_000) -> tuple[Point, ...]:
        """Observations of `key`, oldest first."""
        return await self._do(lambda db: reader.history(db, key, since_at, until_at, limit))

    async def incidents(self, since_at: float, until_at: float) -> tuple[Incident, ...]:
        """Incidents that were open at some time in between, oldest first."""
        return await self._do(lambda db: reader.incidents(db, since_at, until_at))

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Do a long reading beside the writer, on a thread of its own; in its place when the state is in memory."""
        state_dir, trouble = self._state_dir, self.trouble
        if state_dir is None or trouble is not None:
            return await self._do(lambda db: work(Reader(db, trouble.text if trouble else None)))

        def beside(directory: Path) -> T:
            with Reader.open(directory) as reader:
                return work(reader)

        return await asyncio.to_thread(beside, state_dir)

    async def request(self, work: Callable[[Requests], T]) -> T:
        """Do what a command would ask for: `await store.request(lambda ask: ask.add_silence(…))`."""
        self._asked += 1
        return await self._do(lambda db: work(Requests(db)))

    async def record_blind(self, began_at: float, ended_at: float, reason: str) -> None:
        """Note a time in which we saw nothing at all (sleep, no network)."""
        sql = "INSERT INTO blind_windows (began_at, ended_at, reason) VALUES (?, ?, ?)"
        await self._do(lambda db: db.execute(sql, (began_at, ended_at, reason)).rowcount)

    async def tidy(self, now: float, keep_observations_s: float, keep_incidents_s: float) -> bool:
        """Delete what is too old, some of it; True if there is more."""
        return await self._do(lambda db: tidy(db, now, keep_observations_s, keep_incidents_s))

    async def mend(self, now: float) -> bool:
        """If the state is in memory, try to bring it to the disk; True if it is on the disk."""
        state_dir = self._state_dir
        if state_dir is None or self.trouble is None:
            return self.trouble is None
        if self._lock is None:
            try:
                self._lock = files.lock(state_dir)
            except (OSError, StoreError):
                return False

        def reopen() -> sqlite3.Connection:
            opened = files.open_database(state_dir, now)
            self.set_aside = opened.set_aside or self.set_aside
            return opened.connection

        mended = await self._writer.mend(reopen)
        self._depths = await self._do(depths)
        return mended

    async def _do(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        return await self._writer.do(work, durable=durable)

    async def close(self) -> None:
        """Finish what waits and close the files; the lock goes last. What is only in memory gets its last chance."""
        if self.trouble is not None:
            await self.mend(self._now)
        await asyncio.to_thread(self._writer.close)
        if self._lock is not None:
            self._lock.close()


class Requests:
    """What a command may ask of the daemon. `Requests.open` works beside a running one.

    It is for `with`, whose end turns whatever SQLite complains about inside into `StoreError` in plain words.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        """Use `Requests.open`, or `Store.request`."""
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
            raise files.told(error, self._path) from error

    def add_silence(self, silence: Silence) -> Silence:
        """Start or replace a silence; returns it as it is kept."""
        return requests.add_silence(self._db, silence)

    def end_silence(self, silence_id: str, now: float) -> None:
        """End a silence now."""
        requests.end_silence(self._db, silence_id, now)

    def acknowledge(self, incident_id: str, now: float, reason: str, author: str) -> None:
        """Stop the reminders of an open incident."""
        requests.acknowledge(self._db, incident_id, now, reason, author)

    def queue(self, messages: Iterable[Queued]) -> tuple[int, ...]:
        """Queue messages (a test alert); returns their rows."""
        return requests.queue(self._db, messages)
