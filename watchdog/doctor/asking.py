"""Asking this machine's own tools for facts: short, read-only questions with a deadline."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

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
