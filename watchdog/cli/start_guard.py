"""What `run` itself does about starts that fail, where no unit of ours does it: under launchd, in a container, by hand.

Each start is counted before anything else is done and taken back once the daemon is ready, so a start that was killed
counts as well. A refused configuration is told at once, everything else at the third start in a row, once; when the
daemon runs again, who was told hears that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from watchdog.cli import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from watchdog.config import Config

_FILE = "failed-starts.json"
_TOLD_FROM = 3
_KILLED = "it was killed before it was ready"


@dataclass(frozen=True, slots=True)
class _Kept:
    """Failed starts in a row, how the last one ended, and who was told under which incident since when."""

    count: int = 0
    ending: str = ""
    incident: str = ""
    receivers: tuple[str, ...] = ()
    since: float = 0.0


class StartGuard:
    """One start of the daemon. Its count is a small file; where it cannot be kept, nothing is counted."""

    def __init__(self, file: Path | None, config_file: str | None) -> None:
        self._file = file
        self._config_file = config_file
        self._kept = self._read()
        self._settled = file is None

    @classmethod
    def of(cls, config_file: str | None, state_dir: str | None, environ: Mapping[str, str] = os.environ) -> Self:
        """The guard of this start; without effect where our systemd units count, or a person reads the terminal."""
        is_counted = "RUNTIME_DIRECTORY" in environ or sys.stderr.isatty()
        return cls(None if is_counted else _place(config_file, state_dir), config_file)

    def begin(self) -> None:
        """Count this start as failed until it is ready; tell of those before it."""
        if self._settled:
            return
        if self._kept.count >= _TOLD_FROM:
            self._tell()
        self._write(replace(self._kept, count=self._kept.count + 1, ending=_KILLED))

    def ended(self, code: int, why: str) -> None:
        """The start has ended before the daemon was ready. A requested stop is not a failure."""
        if self._settled:
            return
        self._settled = True
        if code == EXIT_OK:
            self._take_back()
            return
        self._write(replace(self._kept, ending=why))
        if code == EXIT_USAGE or self._kept.count >= _TOLD_FROM:
            self._tell()

    def dismiss(self) -> None:
        """Another daemon watches here: this start does not count."""
        if not self._settled:
            self._settled = True
            self._take_back()

    async def ready(self, config: Config) -> None:
        """The daemon runs: nothing is counted any more, and who was told of failed starts hears it."""
        if self._settled:
            return
        self._settled = True
        kept = replace(self._kept, count=0, ending="")
        self._write(kept)
        if kept.incident:
            from watchdog.cli.notify_failure import send_end

            receivers = [receiver for receiver in config.receivers if receiver.name in kept.receivers]
            if not await send_end(receivers, kept.incident, kept.since):
                return  # the next start tries again
        self._write(_Kept())

    def _take_back(self) -> None:
        self._write(replace(self._kept, count=max(0, self._kept.count - 1)))

    def _tell(self) -> None:
        """Tell every receiver that can be read, once. If none takes it, the next start tries again."""
        if self._kept.incident:
            return
        from watchdog.cli.notify_failure import tell_of_start
        from watchdog.clock import SystemClock

        now = SystemClock().wall()
        incident, receivers = asyncio.run(tell_of_start(self._config_file, self._kept.ending, self._kept.count, now))
        if receivers:
            self._write(replace(self._kept, incident=incident, receivers=receivers, since=now))

    def _write(self, kept: _Kept) -> None:
        self._kept = kept
        with suppress(OSError):
            if self._file is not None and kept == _Kept():
                self._file.unlink(missing_ok=True)
            elif self._file is not None:
                self._file.write_text(json.dumps(asdict(kept)))

    def _read(self) -> _Kept:
        try:
            raw: Any = json.loads(self._file.read_text()) if self._file else {}
            receivers = tuple(str(name) for name in raw.get("receivers", ()))
            return _Kept(
                int(raw.get("count", 0)), str(raw.get("ending", "")), str(raw.get("incident", "")), receivers,
                float(raw.get("since", 0.0)),
            )  # fmt: skip
        except (OSError, ValueError, TypeError, AttributeError):
            return _Kept()


def _place(config_file: str | None, state_dir: str | None) -> Path | None:
    """Where the count is kept: with the state; where that cannot be written, in a folder of our own; else nowhere."""
    from watchdog.cli.options import kept_state_dir

    own = Path(tempfile.gettempdir()) / f"inference-watchdog-{os.getuid()}"
    whose = str(Path(config_file or "").absolute())
    with suppress(click.UsageError):
        state = kept_state_dir(state_dir, config_file)
        whose = str(state.absolute())
        if state.is_dir() and os.access(state, os.W_OK | os.X_OK):
            return state / _FILE
    with suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
        if own.is_dir() and not own.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            # One file for each daemon: another one's failed starts are none of ours.
            return own / f"{hashlib.sha256(whose.encode()).hexdigest()[:16]}-{_FILE}"
    return None
