"""Asks apprise about receiver URLs, in a process of its own.

apprise takes 0.3 s and 40 MiB, which a daemon should not pay before its first alert (design §11). Another process pays,
and the daemon imports its own modules meanwhile. Where apprise is loaded already, it is asked here.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from watchdog import apprise_process

Answers = Sequence[str | None]
"""For each URL: what is wrong with it, or None."""
Judge = Callable[[Sequence[str]], Callable[[], Answers]]
"""Starts judging URLs; what it gives waits for the answers."""


def judge_apart(urls: Sequence[str]) -> Callable[[], Answers]:
    """Start judging `urls` in a process of its own."""
    if not urls or "apprise" in sys.modules:
        return lambda: _judge_here(urls)
    return _ask(apprise_process.start(), urls)


@contextlib.contextmanager
def early_judge(process: subprocess.Popen[str] | None) -> Iterator[Judge]:
    """A judge whose `process` was started before there was a question.

    For one question; later ones, and the end of a process nobody asked, are taken care of.
    """
    waiting = [process] if process is not None else []

    def judge(urls: Sequence[str]) -> Callable[[], Answers]:
        return _ask(waiting.pop(), urls) if waiting and urls else judge_apart(urls)

    try:
        yield judge
    finally:
        for unasked in waiting:
            unasked.kill()
            unasked.communicate()


def _ask(process: subprocess.Popen[str] | None, urls: Sequence[str]) -> Callable[[], Answers]:
    if process is None:
        return lambda: _judge_here(urls)
    apprise_process.say(process, list(urls))
    return lambda: apprise_process.collect(process, urls)


def _judge_here(urls: Sequence[str]) -> Answers:
    from watchdog.notify import url_problem  # noqa: PLC0415 - see the module's docstring

    return [url_problem(url) for url in urls]
