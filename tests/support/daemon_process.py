"""The demo's rig and the real daemon as a subprocess, for end-to-end tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class DaemonProcess:
    """`inference-watchdog run` in a process of its own, with its log in a file."""

    def __init__(
        self,
        config: Path,
        state_dir: Path,
        log: Path,
        environment: dict[str, str] | None = None,
        *,
        inside: tuple[str, ...] = (),
        program: tuple[str, ...] = ("watchdog",),
    ) -> None:
        """`inside` is the command that runs it elsewhere, for example in a network namespace.

        `program` is the module that is the daemon's command line, and what stands before its own arguments.
        """
        self._program = program
        self.config, self.state_dir, self.log = config, state_dir, log
        self._inside = inside
        self._environment = {**os.environ, **(environment or {})}
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; its log is appended to."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*self._inside, sys.executable, "-m", *self._program, "run", "--config", str(self.config)),
                *("--state-dir", str(self.state_dir)),
                stdout=log,
                stderr=log,
                env=self._environment,
            )

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send `number` and wait for its end; returns the exit status."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 20)

    def events(self) -> list[dict[str, Any]]:
        """Its log lines so far."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def passes(self, server: str) -> int:
        """How often `server` began to give text; its log has what changes."""
        wanted = ("observation", f"generation/{server}", "pass")
        return sum((line.get("event"), line.get("check"), line.get("verdict")) == wanted for line in self.events())

    def saw(self, event: str, **fields: object) -> bool:
        """Whether the log has such an event."""
        return any(
            line.get("event") == event and all(line.get(name) == value for name, value in fields.items())
            for line in self.events()
        )


async def until(good: Callable[[], object], timeout_s: float = 60.0, what: str = "") -> None:
    """Return when `good()` holds; fails the test with `what` after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            while not good():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"did not happen within {timeout_s} s: {what}") from None
