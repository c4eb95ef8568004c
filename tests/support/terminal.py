"""A real terminal, as a newcomer sits at it: a shell in tmux, keys typed in, the screen read."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

COLUMNS, ROWS = 150, 50
PROMPT = "~ $ "


class Terminal:
    """A shell in a tmux of its own, with `home` as its home. Use as an async context manager."""

    def __init__(self, home: Path, **environment: str) -> None:
        """`environment` is added to a small, plain one."""
        self._socket = f"newcomer-{uuid.uuid4().hex[:12]}"
        self._environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PS1": PROMPT,
            "TERM": "screen",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            **environment,
        }
        self._home = home

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout

    async def __aenter__(self) -> Self:
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        shell = ["env", "-i", *variables, "/bin/sh", "-i"]
        self._tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(self._home), *shell)
        await self.wait_for(re.escape(PROMPT.rstrip()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    def screen(self) -> str:
        """Everything that was shown so far, wrapped lines joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip()

    def type(self, text: str) -> None:
        """Type `text` and press Enter."""
        if text:
            self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    async def wait_for(self, pattern: str, timeout_s: float = 30.0, *, after: int = 0) -> str:
        """The screen once `pattern` matches in what follows its first `after` characters."""
        for _ in range(int(timeout_s / 0.1)):
            screen = self.screen()
            if re.search(pattern, screen[after:], re.MULTILINE):
                return screen
            await asyncio.sleep(0.1)
        raise AssertionError(f"never saw {pattern!r}; the screen:\n{self.screen()}")

    async def answer(self, question: str, text: str) -> None:
        """Wait until `question` stands at the end of the screen, and type the answer."""
        await self.wait_for(rf"{question}[^\n]*:\Z")
        self.type(text)
        await asyncio.sleep(0.15)

    async def run(self, command: str, timeout_s: float = 60.0) -> tuple[str, int]:
        """Run `command` to its end; gives what it showed and its exit status."""
        before = len(self.screen())
        self.type(command)
        return await self.ended(before, timeout_s)

    async def ended(self, before: int, timeout_s: float = 60.0) -> tuple[str, int]:
        """Wait for the prompt behind what was started; gives what was shown after `before`, and the exit status."""
        await self.wait_for(rf"^{re.escape(PROMPT.rstrip())}\s*\Z", timeout_s, after=before)
        shown = self.screen()[before:]
        length = len(self.screen())
        self.type("echo status=$?")
        screen = await self.wait_for(r"^status=\d+", after=length)
        found = re.findall(r"^status=(\d+)", screen, re.MULTILINE)
        return shown, int(found[-1])
