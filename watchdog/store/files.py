"""The files of a state directory: opening, the lock against a second daemon, and setting a corrupt database aside."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from watchdog.errors import StateLockedError, StoreError
from watchdog.store.schema import in_present_form, migrate

DATABASE = "state.db"
LOCK = "lock"
RESERVE = "reserve"  # room that is taken ahead, for what must be kept while the disk is full
_BUSY_S = 5.0
_NO_PLACE = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL})
"""A path that names something else than a folder: no waiting makes it one."""
_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Lock:
    """The lock of a state directory, held until it is closed: a file in it, and the directory itself.

    Who removes the file removes half of it: the directory is still ours.
    """

    def __init__(self, directory: int, file: TextIO) -> None:
        self._directory, self._file = directory, file

    def close(self) -> None:
        self._file.close()
        os.close(self._directory)


def lock(state_dir: Path) -> Lock:
    """Take the lock of `state_dir`, made if missing.

    Raises `StateLockedError` if another process holds it, `StoreError` if others can put files into it, `OSError`.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _require_closed(directory, state_dir)
        _take(directory, state_dir)
        # Closed to others: who may open it could hold the lock in our place.
        file = open(state_dir / LOCK, "a+", encoding="ascii", opener=_private)  # noqa: SIM115 - held while we run
    except (OSError, StoreError):
        os.close(directory)
        raise
    held = Lock(directory, file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        held.close()
        raise (_locked(state_dir) if isinstance(error, BlockingIOError) else error) from None
    with suppress(OSError):  # a full disk must not keep us from running; the number is for people only
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
    return held


def _require_closed(directory: int, state_dir: Path) -> None:
    """Raise StoreError where others could replace our files by theirs, or by links to what only we may write."""
    found = os.fstat(directory)
    if found.st_mode & (stat.S_IWOTH if found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP):
        raise StoreError(
            f"others may write into the state directory {state_dir} (mode {stat.S_IMODE(found.st_mode):04o}): look at "
            f"what is in it, then `chmod 700 {state_dir}`, or choose another with --state-dir"
        )
    for name in (LOCK, RESERVE, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                raise StoreError(f"{state_dir / name} is a link or no file at all: remove it")


def _take(directory: int, state_dir: Path) -> None:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _locked(state_dir) from error
    except OSError:
        pass  # some network file systems lock no directories: the file is the lock then


def _locked(state_dir: Path) -> StateLockedError:
    holder = ""
    with suppress(OSError, UnicodeDecodeError):
        holder = (state_dir / LOCK).read_text(encoding="ascii").strip()
    return StateLockedError(
        f"another inference-watchdog (process {holder or 'unknown'}) is already running on {state_dir}; stop it first, "
        "or give this one its own --state-dir"
    )


def identity(state_dir: Path) -> tuple[int, int] | None:
    """Which file the database is now; None if there is none."""
    try:
        found = (state_dir / DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def lost_error() -> sqlite3.OperationalError:
    """What stands for a database that was deleted or moved while it is open: SQLite itself does not notice."""
    error = sqlite3.OperationalError("its file was deleted or moved")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED
    return error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def start_error(state_dir: Path, error: sqlite3.Error | OSError) -> StoreError | None:
    """Why a daemon must not start on `state_dir`, or None for a fault it can live with in memory, like a full disk."""
    if isinstance(error, sqlite3.Error):
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return None
        why = str(error)
    elif error.errno in _NO_PLACE:
        return StoreError(
            f"{error.filename or state_dir} is in the way: {state_dir} cannot be a directory; choose another"
        )
    elif error.errno not in _NOT_OURS:
        return None
    else:
        why = (error.strerror or "error").lower()
    return StoreError(
        f"the state directory {state_dir} is not writable: {why}; give it to the account that runs this, or choose "
        "another with --state-dir"
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """A database ready to use; `set_aside` names the file a corrupt one was renamed to."""

    connection: sqlite3.Connection
    set_aside: Path | None = None


def open_database(state_dir: Path, now: float) -> Opened:
    """Open or create the database, check it, and bring it to the present version.

    A database that fails its check is renamed, never deleted, and a new one takes its place. `now` (Unix seconds)
    names the renamed file. Raises `sqlite3.Error` or `OSError` if the disk cannot be used, `StoreError` if the database
    was written by a newer version.
    """
    path = state_dir / DATABASE
    try:
        return Opened(_checked(path))
    except sqlite3.DatabaseError as error:
        if not _is_corrupt(error):
            raise
    aside = _set_aside(path, now)
    return Opened(_checked(path), aside)


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return (code & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _checked(path: Path) -> sqlite3.Connection:
    """A connection to a database that passed its check."""
    _close_to_others(path)
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _tune(connection)
        _check(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection)
    except (sqlite3.Error, StoreError):
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    """Raises `sqlite3.DatabaseError` for a database that is damaged."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone() or ("no answer",)
    if found != "ok":
        raise sqlite3.DatabaseError(f"integrity check: {found}")


def _close_to_others(path: Path) -> None:
    """Make the database if it is missing, and take it and its companions from everybody else.

    SQLite gives the -wal and -shm files it makes the database's own mode, whatever the umask is.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).chmod(0o600)


def connect(path: Path | str) -> sqlite3.Connection:
    """A connection without implicit transactions, usable from the one thread that owns it after opening."""
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    _tune(connection)
    return connection


def connect_new() -> sqlite3.Connection:
    """A new database in memory."""
    connection = connect(":memory:")
    migrate(connection)
    return connection


def _tune(connection: sqlite3.Connection) -> None:
    """Little memory, and a journal that shrinks again after a burst."""
    connection.execute("PRAGMA cache_size = -2000")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA journal_size_limit = 4194304")


def _set_aside(path: Path, now: float) -> Path:
    """Rename the database and its companions; returns the new name of the database."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(aside.with_name(aside.name + suffix))
    return aside


def open_for_reading(state_dir: Path) -> sqlite3.Connection:
    """A read-only connection for a command, also while the daemon writes.

    Raises `StoreError` in plain words if there is nothing to read or it may not be read.
    """
    path = state_dir / DATABASE
    try:
        if not path.exists():
            raise StoreError(f"there is no state in {state_dir} yet: has `inference-watchdog run` been started there?")
        return in_present_form(_read_only(path))
    except (sqlite3.Error, OSError) as error:
        raise unusable(error, path) from error


def unusable(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """What a command says when the database in `path` fails it: which file, what is wrong, what to do."""
    if isinstance(error, sqlite3.DatabaseError) and _is_corrupt(error):
        return StoreError(
            f"the state database {path} is damaged ({error}). Restart the daemon: it renames the file and creates "
            "a new one"
        )
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
        return StoreError(f"the state database {path} is busy ({error}). Try again in a moment")
    return StoreError(f"the state database {path} cannot be used: {error}")


@contextmanager
def opened(open_: Callable[[Path], sqlite3.Connection], state_dir: Path) -> Iterator[sqlite3.Connection]:
    """What `open_` opens, closed at the end; whatever SQLite complains about inside becomes a plain `StoreError`."""
    connection = open_(state_dir)
    try:
        yield connection
    except sqlite3.Error as error:
        raise unusable(error, state_dir / DATABASE) from error
    finally:
        connection.close()


def open_if_readable(state_dir: Path) -> sqlite3.Connection | None:
    """A read-only connection to a database that cannot be written (full or read-only disk), or None."""
    try:
        return _read_only(state_dir / DATABASE)
    except (sqlite3.Error, OSError):
        return None


def _read_only(path: Path) -> sqlite3.Connection:
    # Without a running daemon and without the right to write beside it, a WAL database opens only as immutable.
    failure: sqlite3.Error | None = None
    for extra in ("", "&immutable=1"):
        address = f"{path.absolute().as_uri()}?mode=ro{extra}"
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("SELECT count(*) FROM keys").fetchone()
        except sqlite3.Error as error:
            connection.close()
            failure = failure or error
        else:
            return connection
    assert failure is not None  # noqa: S101 - both ways failed
    raise failure


def open_for_request(state_dir: Path) -> sqlite3.Connection:
    """A writing connection for a command that leaves a request (silence, acknowledge, test alert) for the daemon.

    The whole database is checked first, as the daemon does at its start: a request in a file that will be set aside
    would be lost without a word. Raises `StoreError` in plain words.
    """
    path = state_dir / DATABASE
    if not path.exists():
        raise StoreError(f"there is no state in {state_dir} yet: has `inference-watchdog run` been started there?")
    try:
        connection = connect(path)
        try:
            _check(connection)
            migrate(connection)
        except (sqlite3.Error, StoreError):
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise unusable(error, path) from error
    return connection


# Whether a daemon holds a state directory, seen from beside it.


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds the state: its id, as it wrote it down (None: it could not), since when (Unix seconds)."""

    process: int | None
    since: float


def lock_holder(state_dir: Path) -> LockHolder | None:
    """Who holds the lock of `state_dir`, or None if nobody does or it cannot be told.

    Looking takes a shared lock for a moment. A process that is known to be gone is not asked about, so that a daemon
    that starts in that moment is hardly ever in our way.
    """
    try:
        with (state_dir / LOCK).open(encoding="ascii", errors="replace") as file:
            written = file.read(32).strip()
            process = int(written) if written.isdecimal() else None
            if process is not None and not _exists(process):
                return None
            since = os.fstat(file.fileno()).st_mtime
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return LockHolder(process, since)
    except OSError:
        pass
    return None


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
