"""Asks apprise about receiver URLs, in a process of its own.

apprise takes 0.3 s and 40 MiB, which a daemon should not pay before its first alert (design §11). Another process pays,
and the daemon imports its own modules meanwhile. Where apprise is loaded already, it is asked here.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Answers = Sequence[str | None]
"""For each URL: what is wrong with it, or None."""
Judge = Callable[[Sequence[str]], Callable[[], Answers]]
"""Starts judging URLs; what it gives waits for the answers."""

URLS = Path(__file__).parents[1] / "notify" / "urls.py"
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


def judge_apart(urls: Sequence[str]) -> Callable[[], Answers]:
    """Start judging `urls`. The URLs go through a pipe: arguments of a process are shown to everybody."""
    if not urls or "apprise" in sys.modules:
        return lambda: _judge_here(urls)
    return _ask(_start(), urls)


@contextlib.contextmanager
def early_judge() -> Iterator[Judge]:
    """A judge whose process is started at once, before there is a question: it loads apprise while we read YAML.

    For one question; later ones, and the end of a judge nobody asked, are taken care of.
    """
    waiting = [] if "apprise" in sys.modules else [_start()]

    def judge(urls: Sequence[str]) -> Callable[[], Answers]:
        return _ask(waiting.pop(), urls) if waiting and urls else judge_apart(urls)

    try:
        yield judge
    finally:
        for process in filter(None, waiting):
            process.kill()
            process.communicate()


def _start() -> subprocess.Popen[str] | None:
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
    _say(process, {"path": _absolute(sys.path), "file": str(URLS)})
    return process


def _ask(process: subprocess.Popen[str] | None, urls: Sequence[str]) -> Callable[[], Answers]:
    if process is None:
        return lambda: _judge_here(urls)
    _say(process, list(urls))
    return lambda: _collect(process, urls)


def _say(process: subprocess.Popen[str], words: object) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # a child that ended early has no answer, which is noticed later
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()


def _absolute(entries: Sequence[str]) -> list[str]:
    """Where modules are looked for, as it reads from another folder; "" is ours, and may be gone."""
    try:
        here = Path.cwd()
    except OSError:
        return [entry for entry in entries if Path(entry).is_absolute()]
    return [str(here / entry) for entry in entries]


def _collect(process: subprocess.Popen[str], urls: Sequence[str]) -> Answers:
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        output = ""
    if process.returncode == 0:
        answers: Answers = json.loads(output)
        return answers
    return ["could not be checked: apprise does not work in this installation; reinstall it"] * len(urls)


def _judge_here(urls: Sequence[str]) -> Answers:
    from watchdog.notify import url_problem  # noqa: PLC0415 - see the module's docstring

    return [url_problem(url) for url in urls]
