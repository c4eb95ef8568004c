"""A session with a host that is no connection: the reader's answers are given beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable

from watchdog.journal.frame import Hello
from watchdog.ssh import ANSWER_LIMIT_BYTES, Answer, Session

BOOT = "b" * 32
HEADER = f"INFERENCE-WATCHDOG-READER 1 boot={BOOT} now=1795000000 uptime=5000.5 uid=0"


class ScriptedSession(Session):
    """Answers each request with the next of `answers`, and notes what was asked."""

    def __init__(self, *answers: tuple[str, Answer]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    @property
    def user(self) -> str:
        return "monitor"

    async def ask(
        self, request: str, take: Callable[[bytes], None], *, limit_bytes: int = ANSWER_LIMIT_BYTES, live: bool = False
    ) -> Answer:
        self.asked.append(request)
        text, answer = self._answers.pop(0)
        take(text.encode())
        return answer

    def proceed(self) -> None:
        """Nothing waits."""

    def without_deadline(self) -> None:
        """There is none."""


def framed(*lines: str, header: str = HEADER, rc: int = 0, why: str = "ok", stderr: str = "") -> tuple[str, Answer]:
    end = f"INFERENCE-WATCHDOG-READER END rc={rc} why={why}"
    return "\n".join((header, *lines, end, "")), Answer(rc, stderr)


def record(number: int, message: str = "a line of the journal") -> str:
    return json.dumps(
        {
            "__CURSOR": f"s=1;i={number}",
            "_BOOT_ID": BOOT,
            "__REALTIME_TIMESTAMP": "1795000000000000",
            "__MONOTONIC_TIMESTAMP": f"{5_000_000_000 + number}",
            "_TRANSPORT": "kernel",
            "MESSAGE": message,
            "SYSLOG_IDENTIFIER": "kernel",
        }
    )


def greeting(uid: int = 0, journalctl: str = "systemd 257", boots: tuple[str, ...] = (BOOT,)) -> Hello:
    return Hello(BOOT, 1_795_000_000.0, 5000.5, uid, frozenset({""}), journalctl, boots)
