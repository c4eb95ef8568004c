"""What one examination found."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How good or bad a finding is, mildest first."""

    PASS = "pass"  # noqa: S105 - a grade, not a password
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: what was examined, how it is, and what to do about it.

    `seen` is false where nothing bad was found only because it cannot be verified from here. A finding that is not a
    pass always has a `fix`.
    """

    area: str
    name: str
    grade: Grade
    words: str
    fix: str = ""
    reason: str = "ok"
    seen: bool = True

    @classmethod
    def ok(cls, area: str, name: str, words: str) -> Finding:
        return cls(area, name, Grade.PASS, words)

    @classmethod
    def unseen(cls, area: str, name: str, why: str, reason: str = "unseen") -> Finding:
        """Neither good nor bad: it cannot be verified from here."""
        return cls(area, name, Grade.PASS, f"cannot tell: {why}", reason=reason, seen=False)

    @classmethod
    def warn(cls, area: str, name: str, words: str, *, fix: str, reason: str) -> Finding:
        return cls(area, name, Grade.WARN, words, fix, reason)

    @classmethod
    def fail(cls, area: str, name: str, words: str, *, fix: str, reason: str) -> Finding:
        return cls(area, name, Grade.FAIL, words, fix, reason)

    def as_json(self) -> dict[str, str | bool]:
        """The fields of `doctor --json`."""
        return {
            "area": self.area,
            "name": self.name,
            "grade": self.grade.value,
            "reason": self.reason,
            "seen": self.seen,
            "words": self.words,
            "fix": self.fix,
        }


# Questions to this machine's own tools: short, read-only, with a deadline.

LIMIT_S = 10.0
Ask = Callable[..., str | None]
"""Takes a command's words; returns what it printed, whatever its exit status, or None where it cannot be run."""


def ask_machine(*words: str) -> str | None:
    """What a read-only command of this machine printed on stdout; None if there is no answer."""
    program = shutil.which(words[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed words of ours, no shell
            [program, *words[1:]], capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout


def properties(text: str | None) -> dict[str, str]:
    """Name → value of `Name=value` lines, as `systemctl show` and `timedatectl show` print them."""
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {name: value for name, equals, value in pairs if equals}
