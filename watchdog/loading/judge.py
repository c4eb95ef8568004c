"""Receiver URLs judged by apprise in a process of its own, so that the daemon does not carry apprise before its first
alert (19 MiB, 0.3 s; design §11). Run as a module it reads a JSON list of URLs and prints a JSON list of verdicts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from watchdog.errors import ConfigError
from watchdog.loading import Loaded, load

JUDGE_LIMIT_S = 60.0


def load_apart(path: str | Path) -> Loaded:
    """The same as `load`, without importing apprise into this process; raises ConfigError with all problems."""
    urls: list[str] = []

    def collect(url: str) -> str | None:
        urls.append(url)
        return None

    try:
        loaded = load(path, url_problem=collect)
    except ConfigError:
        verdicts = judge(urls)
        load(path, url_problem=verdicts.get)
        raise
    verdicts = judge(urls)
    return load(path, url_problem=verdicts.get) if any(verdicts.values()) else loaded


def judge(urls: list[str]) -> dict[str, str | None]:
    """What apprise has against each URL (None: nothing). The URLs go by standard input, where nobody sees them."""
    if not urls:
        return {}
    done = subprocess.run(
        [sys.executable, "-m", "watchdog.loading.judge"],
        input=json.dumps(urls),
        capture_output=True,
        text=True,
        check=False,
        timeout=JUDGE_LIMIT_S,
    )
    if done.returncode != 0:
        problem = "could not be checked: apprise does not start in this environment; run `inference-watchdog validate`"
        return dict.fromkeys(urls, problem)
    return dict(zip(urls, json.loads(done.stdout), strict=True))


if __name__ == "__main__":
    from watchdog.notify import url_problem

    print(json.dumps([url_problem(url) for url in json.load(sys.stdin)]))
