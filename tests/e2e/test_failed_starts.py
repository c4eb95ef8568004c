"""Starts that fail where no unit of ours counts them: `run` itself tells, once, and says when it runs again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.daemon_process import DaemonProcess, until
from watchdog.demo.rig import Alert, ChatServer, Phone


class Machine:
    """A Mac's launchd without the Mac: `run` again and again on one state directory, no terminal."""

    def __init__(self, folder: Path, llm: str) -> None:
        self.alerts: list[Alert] = []
        self.phone = Phone(self.alerts.append)
        self.config, self.state, self.log = folder / "config.yaml", folder / "state", folder / "log"
        self.state.mkdir(mode=0o700)
        self._llm = llm

    @property
    def good(self) -> str:
        server = f"servers:\n  - {{name: llm, base_url: '{self._llm}', probe: {{interval: 10s}}}}\n"
        return f"{server}receivers:\n  - name: phone\n    url: {self.phone.url}\n"

    def write(self, text: str) -> None:
        self.config.write_text(text)
        self.config.chmod(0o600)

    async def start(self, expected: int) -> None:
        words = [sys.executable, "-m", "watchdog", "run", "--config", str(self.config), "--state-dir", str(self.state)]
        environ = {name: value for name, value in os.environ.items() if name != "RUNTIME_DIRECTORY"}
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, check=False, env=environ, timeout=60
        )
        assert done.returncode == expected, done.stderr

    @property
    def counted(self) -> int:
        file = self.state / "failed-starts.json"
        return int(json.loads(file.read_text() or "{}").get("count", 0)) if file.exists() else 0

    @property
    def titles(self) -> list[str]:
        return [alert.title for alert in self.alerts]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    llm = ChatServer()
    await llm.start()
    made = Machine(tmp_path, llm.base_url)
    await made.phone.start()
    yield made
    await made.phone.stop()
    await llm.stop()


async def runs_again(machine: Machine) -> None:
    daemon = DaemonProcess(machine.config, machine.state, machine.log)
    await daemon.start()
    await until(lambda: machine.titles[-1:] and machine.titles[-1].startswith("RESOLVED"), what="the end", timeout_s=20)
    assert await daemon.kill(signal.SIGTERM) == 0


async def test_a_refused_configuration_is_told_once_and_ended_when_it_runs_again(machine: Machine) -> None:
    machine.write(machine.good.replace("servers:", "servrs:"))
    for _ in range(4):
        await machine.start(64)
    assert len(machine.alerts) == 1
    assert machine.titles[0].startswith("FIRING inference-watchdog cannot start: ")
    assert "did you mean servers?" in machine.alerts[0].message
    machine.write(machine.good)
    await runs_again(machine)
    assert [title.split()[0] for title in machine.titles] == ["FIRING", "RESOLVED"]
    first, last = (alert.message.splitlines()[-1].split(" · ")[0] for alert in machine.alerts)
    assert first == last, "one incident"
    assert list(machine.state.glob("failed-starts*")) == []


async def test_any_other_start_that_fails_is_told_at_the_third_in_a_row(machine: Machine) -> None:
    machine.write(machine.good)
    (machine.state / "state.db").mkdir()
    for told in (0, 0, 1, 1):
        await machine.start(75)
        assert len(machine.alerts) == told
    assert machine.titles[0].startswith("FIRING inference-watchdog keeps failing: ")
    (machine.state / "state.db").rmdir()
    await runs_again(machine)


async def test_starts_that_were_killed_count_and_a_stop_that_was_asked_for_does_not(machine: Machine) -> None:
    machine.write(machine.good)
    for number, counted in ((signal.SIGTERM, 1), (signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGKILL, 3)):
        daemon = DaemonProcess(machine.config, machine.state, machine.log)
        await daemon.start()
        await until(lambda: machine.counted == counted, what="the count")  # noqa: B023 - awaited at once
        await daemon.kill(number)
    assert machine.alerts == []
    await runs_again(machine)
    assert machine.titles[0].startswith("FIRING inference-watchdog keeps failing: it was killed before it was ready")


async def test_a_second_daemon_by_mistake_tells_nobody(machine: Machine) -> None:
    machine.write(machine.good)
    daemon = DaemonProcess(machine.config, machine.state, machine.log)
    await daemon.start()
    await until(lambda: daemon.saw("started"), what="the start")
    await machine.start(64)
    await daemon.kill(signal.SIGTERM)
    assert machine.alerts == []
