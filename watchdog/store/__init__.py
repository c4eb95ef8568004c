"""The state: SQLite behind one writer thread, in memory when the disk fails. No module outside knows a table.

`Store` is the daemon's; `Reader` and `Requests` are for commands beside a running daemon.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from watchdog.errors import StoreError
from watchdog.model import Delivery, Incident, Json, Outcome, Silence, TrackState
from watchdog.policy import Grouping
from watchdog.store import deliveries, files
from watchdog.store.deliveries import Lease
from watchdog.store.in_memory import Reserve
from watchdog.store.reader import (
    BlindWindow,
    DeliveryView,
    Point,
    Reader,
    ReceiverView,
    Sample,
    Snapshot,
)
from watchdog.store.writer_thread import Trouble, Writer
from watchdog.store.writes import Commit, Queued, Requests, apply, depths, tidy

__all__ = [
    "INSTANCE",
    "MAINTENANCE",
    "NEXT_PROBES",
    "PLAN",
    "RECEIVERS",
    "BlindWindow",
    "Commit",
    "DeliveryView",
    "Point",
    "Queued",
    "Reader",
    "ReceiverView",
    "Requests",
    "Sample",
    "Snapshot",
    "Store",
]

INSTANCE = "self/instance"
"""Key of the id by which a watchdog knows its own page from that of another."""
PLAN = "self/plan"
"""The memory under which the daemon keeps which checks it runs, how often and with which thresholds."""

MAINTENANCE = "self/maintenance"
"""The memory under which the daemon keeps its maintenance windows, for `status`."""

NEXT_PROBES = "self/next_probes"
"""The memory under which the daemon keeps when it probes failing servers again, and why, for `status`."""

RECEIVERS = "self/receivers"
"""The memory under which the daemon keeps the hash of every receiver's address it delivers to, by name."""

T = TypeVar("T")
_LINGER_S = 1.0


@dataclass(frozen=True, slots=True)
class OperatorRequests:
    """What commands have asked for: silences that are not over, acknowledgements, and receivers with queued messages.

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
        self, writer: Writer, state_dir: Path, lock: files.Lock | None, set_aside: Path | None, now: float
    ) -> None:
        """Use `Store.open`."""
        self._writer = writer
        self._state_dir = state_dir
        self._lock = lock
        self._now = now
        self.set_aside = set_aside
        self._memories: dict[str, Json] = {
            key: json.loads(text)
            for key, text in writer.do_now(lambda db: db.execute("SELECT check_key, value FROM memory").fetchall())
        }
        self._depths = writer.do_now(depths)
        self._identity = files.identity(state_dir)
        self._seen: tuple[int, int, int] | None = None
        self._asked = 0

    @classmethod
    def open(cls, state_dir: Path, now: float, *, linger_s: float = _LINGER_S) -> Store:
        """Open the state in `state_dir`, made if missing. `now` in Unix seconds.

        Raises `StateLockedError` if another daemon has it, `StoreError` if a newer version wrote it, or if it is no
        folder or may not be written. If the disk fails (full, broken), the store works in memory and `trouble` says
        why. `linger_s` is how long a write that is in no hurry waits for others to share its transaction.
        """
        lock: files.Lock | None = None
        try:
            lock = files.lock(state_dir)
            opened = files.open_database(state_dir, now)
        except StoreError:
            if lock is not None:
                lock.close()
            raise
        except (sqlite3.Error, OSError) as error:
            refused = files.start_error(state_dir, error)
            if refused is not None:
                if lock is not None:
                    lock.close()
                raise refused from error
            readable = files.open_if_readable(state_dir)
            reserve = Reserve(state_dir / files.RESERVE)
            return cls(Writer(readable, Trouble(str(error)), linger_s, reserve), state_dir, lock, None, now)
        reserve = Reserve(state_dir / files.RESERVE)
        return cls(Writer(opened.connection, None, linger_s, reserve), state_dir, lock, opened.set_aside, now)

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
        return self._writer.do_now(lambda db: (Reader(db).states(), Reader(db).open_incidents()))

    def last_incident_id(self) -> str:
        """The greatest incident id ever given, "" if none. Blocks for a moment."""
        return self._writer.do_now(lambda db: Reader(db).last_incident_id())

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

    async def lease(
        self,
        receiver: str,
        now: float,
        expire_s: float,
        grouping: Grouping = Grouping.NONE,
        sent_at: Mapping[Hashable, float] | None = None,
    ) -> Lease:
        """Lease what `receiver` is sent next; rows older than `expire_s` are given up.

        `sent_at`: when the last message with each share key left, for what waits to be grouped.
        """
        sent = dict(sent_at or {})
        taken = await self._do(lambda db: deliveries.lease(db, receiver, now, expire_s, grouping, sent))
        self._depths[receiver] = taken.depth
        return taken

    async def release(self, receiver: str) -> int:
        """At start: queue again what a crash left leased; returns how many rows."""
        return await self._do(lambda db: deliveries.release(db, receiver))

    async def acknowledge(
        self, delivery: Delivery, outcome: Outcome, now: float, *, retry_now: bool, address: str = ""
    ) -> None:
        """`delivery` arrived. `retry_now`: the receiver was away, everything queued for it is due now.

        `address` is the hash of the address that took it (`ReceiverSettings.address_hash`).
        """

        def work(db: sqlite3.Connection) -> None:
            deliveries.acknowledge(db, delivery, outcome, now, address)
            if retry_now:
                deliveries.retry_now(db, delivery.receiver, now)

        await self._do(work)

    async def receipts(self, receiver: str) -> tuple[tuple[int, str, str], ...]:
        """Row, incident and receipt of every page at `receiver` that still waits for an answer there."""
        return await self._do(lambda db: deliveries.receipts(db, receiver))

    async def groups(self, receiver: str) -> dict[str, tuple[str, ...]]:
        """Every group that was sent to `receiver` and has open incidents: its id, and theirs."""
        return await self._do(lambda db: deliveries.groups(db, receiver))

    async def settle_receipt(self, row: int) -> None:
        """The page of this outbox row needs no answer any more."""
        await self._do(lambda db: deliveries.settle_receipt(db, row))

    async def postpone(self, delivery: Delivery, outcome: Outcome, due_at: float, now: float) -> None:
        """`delivery` failed; try again at `due_at`."""
        await self._do(lambda db: deliveries.postpone(db, delivery, outcome, due_at, now))

    async def abandon(self, delivery: Delivery, outcome: Outcome, now: float) -> None:
        """`delivery` is never taken: it is not tried again."""
        await self._do(lambda db: deliveries.abandon(db, delivery, outcome, now))

    async def forget_receivers(self, known: Iterable[str], now: float) -> int:
        """Drop undelivered rows of receivers that are not in `known`; returns how many."""
        names = set(known)
        dropped = await self._do(lambda db: deliveries.forget_receivers(db, names, now))
        self._depths = {name: depth for name, depth in self._depths.items() if name in names}
        return dropped

    async def firing_at(self, receiver: str) -> tuple[Incident, ...]:
        """Open incidents whose trigger was delivered to `receiver`."""
        return await self._do(lambda db: deliveries.firing_at(db, receiver))

    async def operator_requests(self, now: float) -> OperatorRequests | None:
        """What commands have asked for, if one may have written since the last call; else None."""

        def work(db: sqlite3.Connection) -> OperatorRequests | None:
            version = (self._writer.moves, db.execute("PRAGMA data_version").fetchone()[0], self._asked)
            if version == self._seen:
                return None
            self._seen = version
            reader = Reader(db)
            acknowledged = {incident_id: one.at for incident_id, one in reader.acknowledged().items()}
            return OperatorRequests(reader.silences(now), acknowledged, tuple(sorted(depths(db))))

        return await self._do(work)

    async def read_in_turn(self, work: Callable[[Reader], T]) -> T:
        """Do a short reading on the writer's thread, after everything that was handed to it before."""
        trouble = self.trouble
        return await self._do(lambda db: work(Reader(db, trouble.text if trouble else None)))

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Do a long reading beside the writer, on a thread of its own; in its turn when the state is in memory."""
        if self.trouble is not None:
            return await self.read_in_turn(work)

        def beside() -> T:
            with Reader.open(self._state_dir) as reader:
                return work(reader)

        return await asyncio.to_thread(beside)

    async def request(self, work: Callable[[Requests], T]) -> T:
        """Do what a command would ask for: `await store.request(lambda ask: ask.add_silence(…))`."""
        self._asked += 1
        return await self._do(lambda db: work(Requests(db)))

    async def record_blind(self, began_at: float, ended_at: float, reason: str) -> None:
        """Note a time in which we saw nothing at all (sleep, no network)."""
        sql = "INSERT INTO blind_windows (began_at, ended_at, reason) VALUES (?, ?, ?)"
        await self._do(lambda db: db.execute(sql, (began_at, ended_at, reason)).rowcount)

    async def follow_clock(self, step_s: float, set_at: float) -> None:
        """Our clock was set by `step_s` seconds when it said `set_at`: what is queued is as old and due as before."""
        await self._do(lambda db: deliveries.follow_clock(db, step_s, set_at))

    async def tidy(self, now: float, keep_observations_s: float, keep_incidents_s: float) -> bool:
        """Delete what is too old, some of it; True if there is more."""
        return await self._do(lambda db: tidy(db, now, keep_observations_s, keep_incidents_s))

    async def leave_lost_files(self) -> bool:
        """If the database was deleted or moved meanwhile, go on in memory, and `mend` writes it again from there.

        True if it was.
        """
        if self.trouble is not None or files.identity(self._state_dir) == self._identity:
            return False

        def move(_db: sqlite3.Connection) -> None:
            if self.trouble is None:
                raise files.lost_error()  # as any failure of the disk: the writer moves to memory and asks again

        await self._do(move)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        return True

    async def mend(self, now: float) -> bool:
        """If the state is in memory, try to bring it to the disk; True if it is on the disk."""
        if self.trouble is None:
            return True
        if self._lock is None:
            try:
                self._lock = files.lock(self._state_dir)
            except (OSError, StoreError):
                return False

        def reopen() -> sqlite3.Connection:
            opened = files.open_database(self._state_dir, now)
            self.set_aside = opened.set_aside or self.set_aside
            return opened.connection

        mended = await self._writer.mend(reopen)
        if mended:
            self._identity = files.identity(self._state_dir)
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
