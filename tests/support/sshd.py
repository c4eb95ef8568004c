"""A real OpenSSH server on loopback that sees its own journal, boot id and users: a pretended machine in a namespace.

It runs in private mount and process namespaces: nothing of this machine's journal, accounts or boot id is touched, and
its reader sees no other machine's journald or journalctl.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tests.support.journal_files import SECOND, Journal, require
from watchdog.config import HostSettings, KernelLogSettings

SSHD = "/usr/sbin/sshd"
READER = Path(__file__).parents[2] / "watchdog" / "host" / "reader.sh"
USERS = {"watch": "systemd-journal", "plain": None, "owner": None}
PASSPHRASE = "correct horse"

_NAMESPACE = """
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /var/log
mkdir -p /var/log/journal
mount --bind "$1/journal" /var/log/journal
for name in passwd group shadow machine-id; do mount --bind "$1/etc/$name" "/etc/$name"; done
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lab
mount --bind "$1/lab" /run/lab
if [ "$3" != 0 ]; then
    cp /usr/bin/date /run/lab/date.real
    printf '#!/bin/sh\n[ "$*" != +%%s ] || exec /run/lab/date.real -d "%s seconds" +%%s\n' "$3" >/run/lab/date
    printf 'exec /run/lab/date.real "$@"\n' >>/run/lab/date
    chmod 755 /run/lab/date
    mount --bind /run/lab/date /usr/bin/date
fi
if [ "$2" = journald ]; then
    mkdir -p /run/systemd/journal /run/systemd/journald.conf.d
    install -d -o root -g systemd-journal -m 2755 /run/log/journal
    printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=24M\n' >/run/systemd/journald.conf.d/lab.conf
    /lib/systemd/systemd-journald &
    until [ -S /run/systemd/journal/socket ]; do sleep 0.1; done
fi
exec /usr/sbin/sshd -D -e -f "$1/sshd_config"
"""


def require_sshd() -> None:
    """Skip or fail unless real servers with real journals can be run here."""
    require(
        SSHD,
        "ssh-keygen",
        "unshare",
        "journalctl",
        "/lib/systemd/systemd-journal-remote",
        packages="openssh-server systemd-journal-remote",
    )


def free_port() -> int:
    """A loopback port that nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(path: Path, passphrase: str = "") -> Path:
    """A new ed25519 key pair at `path` and `path`.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return path


class RealHost:
    """One pretended machine. `boot` is the boot id it claims; journals are written with `plant`."""

    def __init__(self, root: Path, *options: str, journald: bool = False, clock_offset_s: int = 0) -> None:
        """Lay out its files under `root`; `options` are extra lines of sshd's configuration.

        With `journald` it runs a journald of its own on this machine's real /dev/kmsg. Its clock is `clock_offset_s`
        ahead of this machine's.
        """
        self._journald = journald
        self._clock_offset_s = clock_offset_s
        self.root = root
        self.port = free_port()
        self.machine_id = uuid.uuid4().hex
        self.boot = uuid.uuid4().hex
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        for place in ("journal", "etc", "lab/home"):
            (root / place).mkdir(parents=True)
        (root / "journal").chmod(0o755)
        (root / "journal" / self.machine_id).mkdir()
        self._accounts()
        self.host_key = make_key(root / "host_key")
        self.key = make_key(root / "id")
        self.locked_key = make_key(root / "id_locked", PASSPHRASE)
        self.forced_key = make_key(root / "id_forced")
        self.known_hosts = root / "known_hosts"
        self.trust(self.host_key)
        self._configure()
        self.set_boot(self.boot)

    def _accounts(self) -> None:
        etc = self.root / "etc"
        passwd, group, shadow = (Path("/etc", name).read_text() for name in ("passwd", "group", "shadow"))
        for number, (user, member_of) in enumerate(USERS.items(), start=4201):
            passwd += f"{user}:x:{number}:{number}::/run/lab/home:/bin/bash\n"
            group += f"{user}:x:{number}:\n"
            shadow += f"{user}:*:19000::::::\n"
            if member_of:
                lines = group.splitlines()
                group = "\n".join(line + user if line.startswith(f"{member_of}:") else line for line in lines) + "\n"
        for name, text in (("passwd", passwd), ("group", group), ("shadow", shadow), ("machine-id", self.machine_id)):
            (etc / name).write_text(text.rstrip("\n") + "\n")
        (etc / "shadow").chmod(0o600)

    def _configure(self) -> None:
        lab = self.root / "lab"
        shutil.copy(READER, lab / "reader")
        (lab / "reader").chmod(0o755)
        keys = [path.with_suffix(".pub").read_text() for path in (self.key, self.locked_key)]
        keys.append(f'restrict,command="/run/lab/reader" {self.forced_key.with_suffix(".pub").read_text()}')
        (lab / "authorized_keys").write_text("".join(keys))
        match = next((at for at, line in enumerate(self._options) if line.startswith("Match ")), len(self._options))
        lines = [
            *self._options[:match],  # the first value of a word counts, and a Match lasts to the end
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.host_key}",
            "PidFile none",
            "AuthorizedKeysFile /run/lab/authorized_keys",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "StrictModes no",
            "LogLevel ERROR",
            *self._options[match:],
        ]
        (self.root / "sshd_config").write_text("\n".join(lines) + "\n")

    def trust(self, key: Path | None) -> None:
        """Make `key` the one host key known for this machine; None for no key at all."""
        known = "" if key is None else " ".join(key.with_suffix(".pub").read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {known}\n" if known else "")

    def set_boot(self, boot: str) -> None:
        """Let the machine claim to run boot `boot` (32 hex digits)."""
        self.boot = boot
        (self.root / "boot_id").write_text(f"{uuid.UUID(boot)}\n")

    def journal(self, *, wall_us: int = 1_795_000_000 * SECOND) -> Journal:
        """An empty journal of this machine, to be filled and planted."""
        return Journal(self.machine_id, wall_us)

    def plant(self, journal: Journal, name: str = "system") -> Path:
        """Put `journal` where journalctl looks; returns the file."""
        path = self.root / "journal" / self.machine_id / f"{name}.journal"
        journal.write(path)
        return path

    def settings(self, **changes: object) -> HostSettings:
        """How the watchdog is told to read this machine."""
        host = HostSettings(
            name="lab",
            address="127.0.0.1",
            port=self.port,
            user="watch",
            identity_file=str(self.key),
            known_hosts=str(self.known_hosts),
            kernel_log=KernelLogSettings(interval_s=600, timeout_s=20),
        )
        return replace(host, **changes)  # type: ignore[arg-type]  # test code names fields as it needs them

    @property
    def pid(self) -> int:
        """The listening sshd's process id; it is the first process of its namespace."""
        assert self._process is not None
        (pid,) = _children(self._process.pid)
        return pid

    def start(self) -> None:
        """Start sshd and wait until it listens."""
        with (self.root / "sshd.log").open("ab") as log:
            command = [
                "unshare",
                "--mount-proc",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                _NAMESPACE,
                "sh",
                str(self.root),
                "journald" if self._journald else "",
                str(self._clock_offset_s),
            ]
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("sshd did not start: " + (self.root / "sshd.log").read_text()[-500:])

    def sessions(self) -> list[int]:
        """The processes serving open connections."""
        return _children(self.pid)

    def stop(self) -> None:
        """End the machine: everything in its process namespace ends with the first process."""
        if self._process is None:
            return
        for pid in _children(self._process.pid) if self._process.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(timeout=10)
        self._process = None


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def real_host(root: Path, *options: str, journald: bool = False, clock_offset_s: int = 0) -> Iterator[RealHost]:
    """A running `RealHost`, stopped at the end."""
    require_sshd()
    host = RealHost(root, *options, journald=journald, clock_offset_s=clock_offset_s)
    try:
        host.start()
        yield host
    finally:
        host.stop()
