"""Checks of receivers: one address each, which apprise accepts; and secrets only in files closed to others."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from watchdog.config import Secret
from watchdog.loading.problems import Problems, Record
from watchdog.loading.references import chmod
from watchdog.loading.server_checks import web_url_parts

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
    """What is wrong with each of `urls`, or None, asked of apprise in a process of its own.

    apprise takes 0.3 s and 40 MiB, which a daemon should not pay before its first alert. Where it is loaded already, it
    is asked here.
    """
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
    from watchdog.notify import url_problem  # noqa: PLC0415 - see check_urls

    return [url_problem(url) for url in urls]


def _absolute(entries: Sequence[str]) -> list[str]:
    """Where modules are looked for, as it reads from another folder; "" is ours, and may be gone."""
    try:
        here = Path.cwd()
    except OSError:
        return [entry for entry in entries if Path(entry).is_absolute()]
    return [str(here / entry) for entry in entries]


NO_KEYS = ("EMPTY", "none", "dummy", "not-needed", "sk-no-key-required", "no-key", "token-abc123")
"""What people write as api_key where the server does not check it: nothing to hide."""
SELF_HOSTED = re.compile(r"(?:https?|jsons?|xmls?|forms?|mailtos?|mqtts?|r?syslog)://")
"""Schemes whose URL is an ordinary address; in most others host and path are the token itself."""
SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|passw", re.IGNORECASE)
LONG_PART = 7
LONG = 16
"""A path segment or query value of this length may well be a token."""


def check_receivers(root: Record, problems: Problems) -> None:
    """Each receiver has exactly one kind of address, and each Alertmanager address can be used."""
    for receiver in root.sections("receivers"):
        given = [name for name in ("url", "alertmanager") if receiver.given(name)]
        if len(given) != 1:
            where = receiver.at("alertmanager") if given else receiver.place
            problems.error(where, "needs `url` or `alertmanager`, and not both", "url takes any apprise URL")
        for number, address in enumerate(receiver.get("alertmanager") or ()):
            problem = _address_problem(address.reveal()) if isinstance(address, Secret) else None
            if problem:
                hint = "write it like http://192.0.2.20:9093"
                problems.error(receiver.at(f"alertmanager[{number}]"), problem, hint)


def _address_problem(url: str) -> str | None:
    _, problem, _ = web_url_parts(url)
    if problem:
        return problem
    from watchdog.notify.urls import address_problem  # noqa: PLC0415 - only who has such a receiver pays for it

    return address_problem(url)


def check_receiver_urls(root: Record, problems: Problems, check_urls: UrlCheck) -> None:
    """Report every receiver URL that apprise does not accept."""
    asked = [(receiver, url) for receiver in root.sections("receivers") if (url := receiver.get("url")) is not None]
    answers = check_urls([url.reveal() for _, url in asked])
    for (receiver, url), problem in zip(asked, answers, strict=True):
        if problem:
            hint = "see https://appriseit.com/services/"
            problems.error(receiver.at("url"), without_url(problem, url.reveal()), hint)


def without_url(problem: str, url: str) -> str:
    """`problem`, unless it quotes a long part of the URL, which may be secret."""
    _, scheme, rest = url.partition("://")
    parts = [part for part in re.split(r"[/@:?&=#,\s]+", rest if scheme else url) if len(part) >= LONG_PART]
    return "apprise does not accept this URL" if any(part in problem for part in parts) else problem


def check_file_mode(root: Record, mode: int | None, problems: Problems) -> None:
    """A configuration that contains secrets itself is not readable by everyone. `mode` None: it is not a file."""
    if mode is None or not mode & stat.S_IRWXO:
        return
    records = [
        *root.sections("servers"),
        *root.sections("hosts"),
        *root.sections("receivers"),
        root.section("heartbeat"),
        root.section("web"),
    ]
    for record in records:
        for name, text in record.literals.items():
            if _is_secret(name, text):
                problems.error(
                    record.at(name),
                    f"a secret, in a file that everyone on this machine can read (mode {stat.S_IMODE(mode):04o})",
                    f"{chmod(Path(problems.file))}; or use ${{env:NAME}} or ${{file:/path}}",
                )
                return


def _is_secret(name: str, text: str) -> bool:
    if name == "api_key":
        return text not in NO_KEYS
    if name.startswith("headers."):
        return SECRET_HEADER.search(name.removeprefix("headers.")) is not None
    if name == "url" or name.startswith("alertmanager"):
        return may_hold_token(text)
    return True


def may_hold_token(url: str) -> bool:
    """Whether a receiver's URL may hold a password or token, judged by its form."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return True
    if SELF_HOSTED.match(url) is None or password is not None:
        return True
    values = [
        value
        for key, value in parse_qsl(parts.query)
        if key in ("pass", "token") or key.startswith(("+", "-", ":", " "))
    ]
    return bool(values) or any(len(part) >= LONG for part in parts.path.split("/"))
