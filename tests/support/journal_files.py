"""Real systemd journal files, made from the journal export format by systemd-journal-remote; no journald needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REMOTE = "/lib/systemd/systemd-journal-remote"
SECOND = 1_000_000
MISSED_ID = "e9bf28e6e834481bb6f48f548ad13606"
STOPPED_ID = "d93fb3c9c24d451a97cea615ce59c00b"
SESSION_ID = "8d45620c1a4348dbb17410da57c60c66"
STARTED_ID = "f77379a8490b408bbe5f6940505a777b"


def require(*programs: str, packages: str) -> None:
    """Skip, saying what to install, when a program is missing; fail instead where CI promises it."""
    missing = [program for program in programs if shutil.which(program) is None and not Path(program).exists()]
    if os.geteuid() != 0:
        missing.append("root")
    if not missing:
        return
    text = f"needs {', '.join(missing)}: run as root after `apt-get install {packages}`"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)


def require_journals() -> None:
    """Skip or fail unless journal files can be made and read here."""
    require("journalctl", REMOTE, packages="systemd-journal-remote")


def _field(name: str, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    plain = all(byte >= 32 or byte == 9 for byte in raw)
    try:
        raw.decode()
    except UnicodeDecodeError:
        plain = False
    if plain:
        return name.encode() + b"=" + raw + b"\n"
    return name.encode() + b"\n" + len(raw).to_bytes(8, "little") + raw + b"\n"


@dataclass(slots=True)
class Journal:
    """Entries in export format, in the order they are added. `wall_us` places stamp 0 of a boot in wall time."""

    machine_id: str
    wall_us: int = 1_795_000_000 * SECOND
    data: bytearray = field(default_factory=bytearray, repr=False)

    def kernel(
        self, boot: str, stamp_us: int, message: bytes | str, *, received_us: int | None = None, priority: int = 6
    ) -> None:
        """A line of the kernel's own."""
        self._entry(
            boot,
            received_us or stamp_us,
            message,
            _TRANSPORT="kernel",
            SYSLOG_IDENTIFIER="kernel",
            SYSLOG_FACILITY="0",
            PRIORITY=str(priority),
            _SOURCE_MONOTONIC_TIMESTAMP=str(stamp_us),
        )

    def userspace(self, boot: str, stamp_us: int, message: str) -> None:
        """A line that root wrote to /dev/kmsg."""
        self._entry(
            boot,
            stamp_us,
            message,
            _TRANSPORT="kernel",
            SYSLOG_FACILITY="1",
            PRIORITY="3",
            _SOURCE_MONOTONIC_TIMESTAMP=str(stamp_us),
        )

    def forged(self, boot: str, stamp_us: int, message: str) -> None:
        """What any user can do: `logger -t kernel`."""
        self._entry(boot, stamp_us, message, _TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel", PRIORITY="0", _UID="1000")

    def driver(self, boot: str, stamp_us: int, message: str, message_id: str) -> None:
        """A word of journald's own."""
        self._entry(
            boot, stamp_us, message, _TRANSPORT="driver", SYSLOG_IDENTIFIER="systemd-journald", MESSAGE_ID=message_id
        )

    def login(self, boot: str, stamp_us: int, user: str) -> None:
        """logind's note that a session of `user` began."""
        words = f"New session 7 of user {user}."
        self._entry(boot, stamp_us, words, _TRANSPORT="journal", _UID="0", USER_ID=user, MESSAGE_ID=SESSION_ID)

    def _entry(self, boot: str, received_us: int, message: bytes | str, **fields: str) -> None:
        self.data += b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n" % (
            self.wall_us + received_us,
            received_us,
            boot.encode(),
        )
        for name, value in fields.items():
            self.data += _field(name, value)
        self.data += _field("_MACHINE_ID", self.machine_id) + _field("_HOSTNAME", "lab") + _field("MESSAGE", message)
        self.data += b"\n"

    def write(self, path: Path) -> None:
        """Append to the journal file `path`, readable as the system's own are: by root and group systemd-journal.

        What was written leaves this object, so that it can be filled with what comes next.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([REMOTE, f"--output={path}", "-"], input=self.data, check=True, capture_output=True)
        self.data.clear()
        for file in path.parent.glob("*.journal"):  # a full one was set aside under another name
            file.chmod(0o640)
            shutil.chown(file, "root", "systemd-journal")
