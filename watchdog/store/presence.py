"""Whether a daemon holds a state directory, seen from beside it."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from watchdog.store.files import LOCK


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the state: its id, as it wrote it down (None: it could not), since when (Unix seconds)."""

    process: int | None
    since: float


def holder(state_dir: Path) -> Holder | None:
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
                return Holder(process, since)
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
