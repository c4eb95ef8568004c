"""What systemd is told: ready, reloading, stopping, and that the checks still make progress (sd_notify(3)).

One datagram per message on `$NOTIFY_SOCKET`; where that is not set (launchd, a terminal) nothing is sent. The
keep-alive is sent only while the checks make progress: a daemon whose event loop runs but whose checks are stuck is
restarted.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from watchdog.clock import Clock
from watchdog.model import CheckProgress

log = structlog.get_logger("service_manager")

FIRST_PASS_PATIENCE_S = 30.0
"""The daemon reports ready after this at the latest: a hung server must not hold up the boot of its watchdog."""
LOOK_S = 0.1
_COUNT = "failed-starts.json"
FEEDS_PER_LIMIT = 3.0
"""systemd advises to feed its watchdog at least twice within its time (sd_watchdog_enabled(3))."""


class ServiceManager:
    """Speaks to the systemd that started us, or to nobody."""

    def __init__(self, clock: Clock, environ: Mapping[str, str] = os.environ) -> None:
        """Take the notification socket and the keep-alive interval from `environ` (sd_notify(3))."""
        self._clock = clock
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._is_ready = False
        self.keep_alive_s = _keep_alive_s(environ)
        """Seconds between two keep-alive messages; None: systemd does not watch us."""

    def ready(self, status: str) -> None:
        """The start, or a reload, is complete; `status` is shown by `systemctl status`."""
        self._is_ready = True
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """A reload begins; `reloaded` must follow. The time is needed by systemd 253 and newer (Type=notify-reload)."""
        if self._is_ready:
            self._send("RELOADING=1", f"MONOTONIC_USEC={int(self._clock.monotonic() * 1e6)}")

    def reloaded(self, status: str) -> None:
        """The reload has ended, well or not. Before the first `ready` it is too early to say so."""
        if self._is_ready:
            self.ready(status)

    def stopping(self) -> None:
        self._send("STOPPING=1", "STATUS=Stopping.")

    async def attend(self, progress: CheckProgress, on_ready: Callable[[], str]) -> None:
        """Report ready after the first pass, then send keep-alive messages as long as there is progress.

        `on_ready` is called when the first pass is over and returns the status line. Returns only if systemd does not
        watch us.
        """
        await self._first_pass(progress)
        self.ready(on_ready())
        while self.keep_alive_s is not None:
            late = progress.overdue(self._clock.monotonic())
            if late:
                log.error("no_progress", checks=late, advice="The service manager will restart this daemon.")
            else:
                self._send("WATCHDOG=1")
            await self._clock.sleep(self.keep_alive_s)

    async def _first_pass(self, progress: CheckProgress) -> None:
        until = self._clock.monotonic() + FIRST_PASS_PATIENCE_S
        while waiting := progress.unfinished():
            if self._clock.monotonic() >= until:
                log.warning("first_pass_slow", still_running=waiting)
                return
            await self._clock.sleep(LOOK_S)

    def _send(self, *fields: str) -> None:
        """Send one message. A service manager that does not listen never stops us."""
        if not self._address:
            return
        # A leading @ stands for the NUL of Linux's abstract sockets.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(fields).encode(), address)
        except OSError as error:
            log.warning("service_manager_unreachable", message=fields[0], error=str(error))


def _keep_alive_s(environ: Mapping[str, str]) -> float | None:
    """Seconds between keep-alive messages, from `$WATCHDOG_USEC`; None if that is not meant for this process."""
    meant_for = environ.get("WATCHDOG_PID", "")
    limit = environ.get("WATCHDOG_USEC", "")
    if not limit.isascii() or not limit.isdigit() or int(limit) == 0 or meant_for not in ("", str(os.getpid())):
        return None
    return int(limit) / 1e6 / FEEDS_PER_LIMIT


@dataclass(frozen=True, slots=True)
class FailedStarts:
    """Counts starts that never became ready: `Restart=always` would hide them.

    (systemd runs OnFailure= only when it gives up restarting, see Restart= in systemd.service(5).) The count is one
    small file in the unit's RuntimeDirectory=, which outlives a restart and needs no disk. Writing raises OSError.
    """

    directory: Path | None
    notify_from: int = 3
    notify_again_s: float = 3600.0

    @classmethod
    def of_this_service(cls, environ: Mapping[str, str] = os.environ) -> FailedStarts:
        """The count of the unit we run in; of nothing where no service manager gives us a directory."""
        directory = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
        return cls(Path(directory) if directory else None)

    def note(self, ending: str) -> None:
        """Count one more, and how it ended."""
        count, _, told_at = self._read()
        self._write(count + 1, ending, told_at)

    def due(self, now: float) -> tuple[int, str] | None:
        """The count and how the last one ended, if it is time to notify somebody; else None. `now` is Unix seconds."""
        count, ending, told_at = self._read()
        return (count, ending) if count >= self.notify_from and not 0 <= now - told_at < self.notify_again_s else None

    def mark_notified(self, now: float) -> None:
        count, ending, _ = self._read()
        self._write(count, ending, now)

    def clear(self) -> None:
        with suppress(OSError):
            if self.directory is not None:
                (self.directory / _COUNT).unlink(missing_ok=True)

    def _write(self, count: int, ending: str, told_at: float) -> None:
        if self.directory is not None:
            (self.directory / _COUNT).write_text(json.dumps({"count": count, "ending": ending, "told_at": told_at}))

    def _read(self) -> tuple[int, str, float]:
        try:
            kept = json.loads((self.directory / _COUNT).read_text()) if self.directory else {}
            return int(kept["count"]), str(kept["ending"]), float(kept["told_at"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, "", 0.0
