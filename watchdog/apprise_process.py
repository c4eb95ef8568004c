"""A process of its own that loads apprise and answers one question: what is wrong with these receiver URLs?

It is light to import, so that `run` can start it before anything else: the two then load at the same time.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

URLS = Path(__file__).parent / "notify" / "urls.py"
# By its path: importing the package would load the HTTP client too, which judges nothing.
PROGRAM = """
import json, runpy, sys
start = json.loads(sys.stdin.readline())
sys.path[:] = start["path"]
url_problem = runpy.run_path(start["file"])["url_problem"]
import apprise
urls = json.loads(sys.stdin.readline() or "[]")
json.dump([url_problem(url) for url in urls], sys.stdout)
"""
PATIENCE_S = 20.0


def start() -> subprocess.Popen[str] | None:
    """The process, on its way to load apprise; None where there is no room for one more."""
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-I", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",  # our own may be gone (a removed folder), which breaks apprise's import
        )
    except OSError:
        return None
    say(process, {"path": _absolute(sys.path), "file": str(URLS)})
    return process


def say(process: subprocess.Popen[str], words: object) -> None:
    """Send one line of JSON: first where to look, then the URLs. A pipe, as arguments are shown to everybody."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # a child that ended early has no answer, which is noticed later
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()


def collect(process: subprocess.Popen[str], urls: Sequence[str]) -> Sequence[str | None]:
    """Wait for the answers: for each URL what is wrong with it, or None."""
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        output = ""
    if process.returncode == 0:
        answers: Sequence[str | None] = json.loads(output)
        return answers
    return ["could not be checked: apprise does not work in this installation; reinstall it"] * len(urls)


def _absolute(entries: Sequence[str]) -> list[str]:
    """Where modules are looked for, as it reads from another folder; "" is ours, and may be gone."""
    try:
        here = Path.cwd()
    except OSError:
        return [entry for entry in entries if Path(entry).is_absolute()]
    return [str(here / entry) for entry in entries]
