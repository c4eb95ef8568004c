"""A real systemd as pid 1 in a throw-away container: an overlay over this machine's own files, a network of its own.

All its mounts live in a namespace that ends with it; nothing of this machine is changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.journal_files import require

BOOT_LIMIT_S = 60.0
_TARGET = "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n"
_SCRIPT = """
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/tree"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/tree"
rm -f "$1/tree/etc/resolv.conf"
rm -rf "$1/tree/var/log/journal" "$1/tree/opt/inference-watchdog" "$1/tree/etc/inference-watchdog"
printf '%s\\n' "$2" >"$1/tree/etc/machine-id"
printf '%s' "$3" >"$1/tree/etc/systemd/system/lab.target"
exec systemd-nspawn --quiet --directory="$1/tree" --register=no --keep-unit --private-network --boot \
    --bind-ro="$4:/srv/checkout" --bind-ro="$5:/srv/venv" \
    --console=pipe --kill-signal=SIGKILL -- --unit=lab.target
"""
CHECKOUT, PYTHON = "/srv/checkout", "/srv/venv/bin/python"
"""Where the container sees our checkout and our interpreter, wherever they are out here (its own /tmp is empty)."""
ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8")


class Container:
    """The booted container."""

    def __init__(self, directory: Path) -> None:
        """Boot it; its mounts and console log go below `directory`."""
        self.machine_id = uuid.uuid4().hex
        self._console = directory / "console.log"
        self._started: list[subprocess.Popen[bytes]] = []
        (directory / "mounts").mkdir()
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh"]
        words += [str(directory / "mounts"), self.machine_id, _TARGET, str(Path(__file__).parents[2]), sys.prefix]
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.leader = self._wait_for_leader()
        self.wait(lambda: self.run("systemctl", "is-active", "lab.target", check=False) == "active", what="boot")

    @property
    def root(self) -> Path:
        """Its root directory as seen from here; symbolic links with absolute targets lead out of it."""
        return Path(f"/proc/{self.leader}/root")

    @property
    def boot(self) -> str:
        """Its boot id, 32 hex digits."""
        return self.run("cat", "/proc/sys/kernel/random/boot_id").replace("-", "")

    def command(self, *words: str) -> list[str]:
        """The words that run `words` in it, as root, with a bare environment."""
        enter = ["nsenter", f"--target={self.leader}", "--all", "--root"]
        # Not nsenter's own --wd: it is looked up out here, and leaves the process in a directory that is not there.
        return [*enter, "env", "-i", "--chdir=/", *ENVIRONMENT, *words]

    def run(self, *words: str, check: bool = True, stdin: str | None = None) -> str:
        """Run `words` in it and return what they print, both streams together."""
        done = subprocess.run(
            self.command(*words),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=90,
        )
        assert not check or done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout.strip()

    def start(self, *words: str, log: Path) -> None:
        """Start a process in it that ends with it at the latest."""
        with log.open("ab") as file:
            started = subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self._started.append(started)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file in it, owned by root."""
        self.run("mkdir", "-p", str(Path(path).parent))
        self.run("sh", "-c", 'umask 077; cat >"$1" && chmod "$2" "$1"', "sh", path, f"{mode:o}", stdin=text)

    def copy(self, source: Path, target: str) -> None:
        """Copy a file of this machine into it."""
        place = self.root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit)

    def wait(self, good: Callable[[], object], timeout_s: float = BOOT_LIMIT_S, what: str = "") -> None:
        """Return when `good()` holds; fails the test with `what` and the end of the console after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while not good():
            if time.monotonic() > until or self._process.poll() is not None:
                console = self._console.read_text(errors="replace")[-2000:]
                raise AssertionError(f"did not happen within {timeout_s} s: {what}\n{console}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it: the end of a pid namespace's first process ends all."""
        if self._process.poll() is None:
            os.kill(self.leader, signal.SIGKILL)
        for process in (self._process, *self._started):
            process.wait(timeout=20)

    def _wait_for_leader(self) -> int:
        until = time.monotonic() + BOOT_LIMIT_S
        while time.monotonic() < until and self._process.poll() is None:
            for pid in _descendants(self._process.pid):
                if _inner_pid(pid) == "1":
                    return pid
            time.sleep(0.05)
        self._process.kill()
        raise AssertionError("the container did not start:\n" + self._console.read_text(errors="replace")[-2000:])


def _descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _descendants(child)


def _inner_pid(pid: int) -> str:
    """The pid in the innermost namespace, for processes that are in more than ours; empty for the others."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
    pids = line.split()[1:]
    return pids[-1] if len(pids) > 1 else ""


@contextmanager
def container(directory: Path) -> Iterator[Container]:
    """A booted container; skipped loudly where that cannot be, failing in CI."""
    require("systemd-nspawn", "nsenter", "unshare", packages="systemd-container")
    booted = Container(directory)
    try:
        yield booted
    finally:
        booted.stop()
