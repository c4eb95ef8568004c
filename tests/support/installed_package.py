"""inference-watchdog installed from its package in a container, beside a chat server, a phone and a real sshd."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.journal_files import Journal
from tests.support.sshd import free_port, make_key
from tests.support.systemd_container import CHECKOUT, PYTHON, Container
from watchdog.demo.hosts import BOOT_LINES, USER

UNIT = "inference-watchdog.service"
CONFIG = "/etc/inference-watchdog/config.yaml"
STATE = "/var/lib/inference-watchdog"
RIG = "/srv/rig"
QUICKER = "[Service]\nWatchdogSec=5\nRestartSec=500ms\n"
"""Shorter waits only; nothing of the sandbox."""
SSHD_OPTIONS = ("UsePAM no", "PasswordAuthentication no", "PidFile none", "LogLevel ERROR")


@dataclass
class Installed:
    """The container and what stands in it. Files of the rig lie in `RIG`."""

    inside: Container
    directory: Path
    chat_port: int = 0
    phone_port: int = 0
    ssh_port: int = field(default_factory=free_port)

    def set_up(self, deb: Path) -> str:
        """Install the package, start the rig and sshd, write a configuration; returns what dpkg said."""
        self.inside.write(f"/etc/systemd/system/{UNIT}.d/quicker.conf", QUICKER)
        said = self.install(deb)
        self.inside.run("mkdir", "-p", RIG)
        self.inside.start(
            *("env", f"PYTHONPATH={CHECKOUT}", PYTHON, "-m", "tests.support.container_servers", RIG),
            log=self.directory / "rig.log",
        )
        self._start_sshd()
        self.inside.wait((self.inside.root / RIG.lstrip("/") / "ports").exists, what="the rig")
        self.chat_port, self.phone_port = map(int, self.inside.run("cat", f"{RIG}/ports").split())
        return said

    def install(self, deb: Path) -> str:
        """Install or upgrade to `deb`; returns what dpkg said."""
        self.inside.copy(deb, f"/srv/{deb.name}")
        return self.inside.run("dpkg", "--install", f"/srv/{deb.name}")

    def _start_sshd(self) -> None:
        """A real sshd whose account may do nothing but run the packaged reader on a journal with kernel lines."""
        key, host_key = make_key(self.directory / "ssh_key"), make_key(self.directory / "host_key")
        self.inside.write("/etc/inference-watchdog/credentials/ssh_key", key.read_text(), 0o600)
        self.inside.write("/srv/host_key", host_key.read_text(), 0o600)
        public = " ".join(host_key.with_suffix(".pub").read_text().split()[:2])
        self.inside.write("/etc/inference-watchdog/known_hosts", f"[127.0.0.1]:{self.ssh_port} {public}\n")
        self.inside.run(
            "sh", "/usr/share/inference-watchdog/host/install.sh", key.with_suffix(".pub").read_text().strip()
        )
        self.inside.run("usermod", "--password", "*", USER)  # without PAM, sshd refuses the locked accounts of useradd
        journal = Journal(self.inside.machine_id)
        for number, line in enumerate(BOOT_LINES):
            journal.kernel(self.inside.boot, 1000 + number, line)
        planted = self.directory / "planted.journal"
        journal.write(planted)
        target = f"/var/log/journal/{self.inside.machine_id}/planted.journal"
        self.inside.copy(planted, target)
        self.inside.run("chown", "root:systemd-journal", target)
        self.inside.run("mkdir", "-p", "/run/sshd")
        options = [word for option in SSHD_OPTIONS for word in ("-o", option)]
        self.inside.start(
            *("/usr/sbin/sshd", "-D", "-f", "/dev/null", "-h", "/srv/host_key", "-p", str(self.ssh_port), *options),
            log=self.directory / "sshd.log",
        )

    def configure(self, *, servers: str = "servers", url_path: str = "alerts") -> None:
        """Write the configuration; another word for `servers` breaks it."""
        self.inside.write("/etc/inference-watchdog/credentials/phone_url", self._phone(url_path), 0o600)
        lines = [
            f"{servers}:",
            "  - name: deepseek",
            f"    base_url: http://127.0.0.1:{self.chat_port}/v1",
            "    hosts: [head]",
            "    probe: {interval: 1s, timeout: 0.8s}",
            "hosts:",
            "  - name: head",
            "    address: 127.0.0.1",
            f"    port: {self.ssh_port}",
            f"    user: {USER}",
            "    identity: ${credential:secret_ssh_key}",
            "    known_hosts: known_hosts",
            "    forced_command: true",
            "    kernel_log: {interval: 5s, timeout: 4s}",
            "receivers:",
            "  - name: phone",
            "    url: ${credential:secret_phone_url}",
        ]
        self.inside.write(CONFIG, "\n".join(lines) + "\n")

    def _phone(self, path: str) -> str:
        return f"json://127.0.0.1:{self.phone_port}/{path}\n"

    def chat(self, mode: str) -> None:
        """Let the chat server behave otherwise."""
        self.inside.write(f"{RIG}/mode", mode)

    def alerts(self, start: str = "") -> list[tuple[str, str]]:
        """Title and message of every alert so far whose title starts with `start`."""
        file = self.inside.root / RIG.lstrip("/") / "alerts"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(title, text) for title, text in map(json.loads, lines) if title.startswith(start)]

    def main_pid(self) -> int:
        """The daemon's process id, as the container counts; 0: none."""
        return int(self.inside.show(UNIT, "MainPID") or 0)

    def is_active(self) -> bool:
        """Whether systemd calls it active."""
        return self.inside.show(UNIT, "ActiveState") == "active"

    def checks(self) -> dict[str, dict[str, Any]]:
        """The rows of `status --json`, by check."""
        done = subprocess.run(
            self.inside.command("inference-watchdog", "status", "--json", "--state-dir", STATE),
            capture_output=True,
            text=True,
            check=False,
        )
        rows = json.loads(done.stdout)["checks"] if done.stdout.startswith("{") else []
        return {row["check"]: row for row in rows}

    def started_well(self) -> bool:
        """Whether it is active and every check has passed."""
        rows = self.checks()
        return self.is_active() and len(rows) >= 2 and all(row["last_good_at"] for row in rows.values())
