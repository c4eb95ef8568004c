"""One thread owns the database. Jobs that wait while a commit runs are done together in the next transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from watchdog.errors import StoreError
from watchdog.store.in_memory import Reserve, open_memory_fallback, restore_to_disk

T = TypeVar("T")
_log = structlog.get_logger(__name__)
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the state is kept in memory only: the text is for people."""

    text: str


@dataclass(slots=True)
class _Job:
    """Work for the thread, and what came of it."""

    work: Callable[[sqlite3.Connection], Any]
    durable: bool
    answer: Callable[[_Job], None]
    result: Any = None
    error: Exception | None = None


@dataclass(slots=True)
class _Inbox:
    """Jobs on their way to the thread."""

    jobs: list[_Job] = field(default_factory=list)
    hurry: bool = False
    closing: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)


class Writer:
    """Runs jobs one after another on its own thread, several in one transaction.

    If the disk fails, it moves the state to a database in memory and does the job there: no caller ever waits for a
    disk to be repaired. `mend` moves it back. A job that fails by itself fails alone, with `StoreError`.
    """

    def __init__(
        self, disk: sqlite3.Connection | None, trouble: Trouble | None, linger_s: float, reserve: Reserve
    ) -> None:
        """Start the thread on `disk`, which with a `trouble` is only read once: then the state is kept in memory.

        A job that nobody waits for waits up to `linger_s` for company. `reserve` keeps what is told meanwhile.
        """
        self._disk = disk
        self._memory = open_memory_fallback(disk) if trouble is not None else None
        self._reserve = reserve
        self.trouble = trouble
        self._linger_s = linger_s
        self._inbox = _Inbox()
        self._synchronous = ""
        self.moves = 0
        self._left: list[sqlite3.Connection] = []
        self._restore()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def _restore(self) -> None:
        """Take over what a daemon that was killed kept in the reserve."""
        try:
            if self._memory is None and self._disk is not None and self._reserve.restore(self._disk):
                self._reserve.clear()
        except sqlite3.Error as error:
            self._move_to_memory(error)
        if self._memory is not None:
            self._reserve.restore(self._memory)

    async def do(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        """Run `work(connection)` in a transaction and return its result once that is committed.

        `durable`: on the disk itself before returning, so that it survives a power cut, not only a crash of ours.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def answer(job: _Job) -> None:
            with suppress(RuntimeError):  # the asker's loop is closed: nobody waits any more, the thread must live on
                loop.call_soon_threadsafe(_answer, future, job)

        self._put(_Job(work, durable, answer), hurry=True)
        return await future

    def do_soon(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run `work(connection)` with the next transaction and do not wait for it."""
        self._put(_Job(work, False, _log_fault), hurry=False)

    def do_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same for code outside an event loop: blocks until it is committed."""
        done = threading.Event()
        job = _Job(work, False, lambda _job: done.set())
        self._put(job, hurry=True)
        done.wait()
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def _put(self, job: _Job, *, hurry: bool) -> None:
        inbox = self._inbox
        with inbox.changed:
            if inbox.closing:
                raise StoreError("the state database is closed")
            inbox.jobs.append(job)
            hurried = hurry or len(inbox.jobs) >= _BATCH
            if len(inbox.jobs) == 1 or (hurried and not inbox.hurry):
                inbox.changed.notify()  # only when it changes what the thread does: waking it costs more than a job
            inbox.hurry = inbox.hurry or hurried

    def close(self) -> None:
        """Finish the jobs that wait, then close the database. Blocks for a moment."""
        with self._inbox.changed:
            self._inbox.closing = True
            self._inbox.changed.notify()
        self._thread.join()

    def _gather(self) -> list[_Job]:
        """Wait for work; empty means: close."""
        inbox = self._inbox
        with inbox.changed:
            inbox.changed.wait_for(lambda: inbox.jobs or inbox.closing)
            if not inbox.hurry and not inbox.closing:
                inbox.changed.wait_for(lambda: inbox.hurry or inbox.closing, timeout=self._linger_s)
            jobs, inbox.jobs = inbox.jobs[:_BATCH], inbox.jobs[_BATCH:]
            inbox.hurry = bool(inbox.jobs)
            return jobs

    def _run(self) -> None:
        while jobs := self._gather():
            self._commit(jobs)
            if self._memory is not None:
                self._reserve.keep(self._memory)
            for job in jobs:
                job.answer(job)
            while self._left:
                self._left.pop().close()
        for connection in (self._disk, self._memory):
            if connection is not None:
                connection.close()

    def _commit(self, jobs: list[_Job]) -> None:
        """Do `jobs` in one transaction; one by one if they do not go together."""
        if self._memory is None and self._disk is not None and len(jobs) > 1 and self._fit_together(self._disk, jobs):
            return
        for job in jobs:
            self._alone(job)

    def _fit_together(self, connection: sqlite3.Connection, jobs: list[_Job]) -> bool:
        try:
            self._together(connection, jobs)
        except Exception:  # noqa: BLE001 - which job it was, and whether the disk is to blame, shows one by one
            return False
        return True

    def _alone(self, job: _Job) -> None:
        """Do one job on disk, or in memory once the disk has failed; its own fault goes to who asked for it."""
        on_disk = self._memory is None
        connection = self._disk if self._memory is None else self._memory
        assert connection is not None  # noqa: S101 - there is always one of the two
        try:
            self._together(connection, [job])
        except sqlite3.Error as error:
            if on_disk and _is_disk_failure(error):
                self._move_to_memory(error)
                self._alone(job)
            else:
                job.error = _fault(error)
        except Exception as error:  # noqa: BLE001 - a bug in one job must not end the thread all jobs depend on
            job.error = _fault(error)

    def _together(self, connection: sqlite3.Connection, jobs: list[_Job]) -> None:
        self._sync("FULL" if any(job.durable for job in jobs) else "NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for job in jobs:
                job.result = job.work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _sync(self, level: str) -> None:
        if level != self._synchronous and self._memory is None and self._disk is not None:
            self._disk.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _move_to_memory(self, error: sqlite3.Error) -> None:
        self._memory = open_memory_fallback(self._disk)
        self.trouble = Trouble(str(error))
        self.moves += 1

    async def mend(self, reopen: Callable[[], sqlite3.Connection]) -> bool:
        """If the state is in memory, try to move it back to the disk; True if it is on the disk now."""
        if self.trouble is None:
            return True
        return await self.do(lambda _connection: self._mend(reopen))

    def _mend(self, reopen: Callable[[], sqlite3.Connection]) -> bool:
        # Runs as a job inside a transaction of the memory database, whose rows it reads; that transaction is then
        # committed to a database nobody uses any more.
        memory = self._memory
        if memory is None:
            return True
        try:
            fresh = reopen()
        except (sqlite3.Error, OSError) as error:
            self.trouble = Trouble(str(error))
            return False
        try:
            restore_to_disk(memory, fresh)
        except sqlite3.Error as error:
            self.trouble = Trouble(str(error))
            fresh.close()
            return False
        if self._disk is not None:
            self._disk.close()
        self._disk, self._memory, self.trouble, self._synchronous = fresh, None, None, ""
        self._left.append(memory)
        self._reserve.clear()
        self.moves += 1
        return True


def _answer(future: asyncio.Future[Any], job: _Job) -> None:
    if future.done():
        return  # its asker was cancelled meanwhile; the job is committed all the same
    if job.error is not None:
        future.set_exception(job.error)
    else:
        future.set_result(job.result)


def _log_fault(job: _Job) -> None:
    """For a job nobody waits for."""
    if job.error is not None:
        _log.error("a write was lost", error=str(job.error))


def _fault(error: Exception) -> StoreError:
    fault = StoreError(f"the state could not be written: {error}")
    fault.__cause__ = error
    return fault


def _is_disk_failure(error: sqlite3.Error) -> bool:
    """Whether the disk is to blame, not the statement: full, I/O, read-only, cannot open, locked, corrupt."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    )
