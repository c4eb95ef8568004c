"""Asks apprise what is wrong with receiver URLs, in a process of its own.

apprise takes 0.3 s and 40 MiB, which a daemon should not pay before its first alert. Where it is loaded already, it is
asked here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

Answers = Sequence[str | None]
"""For each URL: what is wrong with it, or None."""
UrlCheck = Callable[[Sequence[str]], Answers]

URLS = Path(__file__).parents[1] / "notify" / "urls.py"
# By its path: importing the package would load the HTTP client too, which checks nothing.
PROGRAM = """
import json, runpy, sys
asked = json.load(sys.stdin)
sys.path[:] = asked["path"]
url_problem = runpy.run_path(asked["file"])["url_problem"]
json.dump([url_problem(url) for url in asked["urls"]], sys.stdout)
"""
LIMIT_S = 20.0


def check_urls(urls: Sequence[str]) -> Answers:
    """What is wrong with each of `urls`, or None; apprise stays out of this process."""
    if not urls:
        return []
    if "apprise" in sys.modules:
        return _check_here(urls)
    # Through a pipe, as the arguments of a process are shown to everybody on the machine.
    asked = json.dumps({"path": _absolute(sys.path), "file": str(URLS), "urls": list(urls)})
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-I", "-c", PROGRAM],
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",  # our own may be gone (a removed folder), which breaks apprise's import
            timeout=LIMIT_S,
            check=True,
        )
        answers: Answers = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        return ["could not be checked: apprise does not work in this installation; reinstall it"] * len(urls)
    except OSError:  # no room for one more process
        return _check_here(urls)
    return answers


def _check_here(urls: Sequence[str]) -> Answers:
    from watchdog.notify import url_problem  # noqa: PLC0415 - see the module's docstring

    return [url_problem(url) for url in urls]


def _absolute(entries: Sequence[str]) -> list[str]:
    """Where modules are looked for, as it reads from another folder; "" is ours, and may be gone."""
    try:
        here = Path.cwd()
    except OSError:
        return [entry for entry in entries if Path(entry).is_absolute()]
    return [str(here / entry) for entry in entries]
