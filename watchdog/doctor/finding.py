"""What one examination found."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How one thing stands, mildest first."""

    PASS = "pass"  # noqa: S105 - a grade, no password
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor: what was looked at, how it stands, and what to do about it.

    `seen` is false where nothing bad was found only because it cannot be seen from here; `words` then say so. A
    finding that is no pass always has a `fix`.
    """

    area: str
    name: str
    grade: Grade
    words: str
    fix: str = ""
    reason: str = "ok"
    seen: bool = True

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


# Asking this machine's own tools for facts: short, read-only questions with a deadline.

LIMIT_S = 10.0

Ask = Callable[..., str | None]
"""Takes a command's words; gives what it printed (whatever its exit status), or None where it cannot be run."""


def ask_machine(*words: str) -> str | None:
    """Run a read-only command of this machine and give what it printed on stdout; None if there is no answer."""
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
    """`Name=value` lines, as `systemctl show` and `timedatectl show` print them."""
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {name: value for name, equals, value in pairs if equals}
