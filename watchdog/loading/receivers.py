"""Rules about receivers: one address each, one that the delivery library takes, and secrets only in closed files."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from watchdog.config import Secret
from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.loading.references import chmod
from watchdog.loading.servers import web_url_parts

UrlProblem = Callable[[str], str | None]
"""Says what is wrong with an apprise URL, or None."""

NO_KEYS = ("EMPTY", "none", "dummy", "not-needed", "sk-no-key-required", "no-key", "token-abc123")
"""What people write as api_key where the server checks none: nothing to hide."""
SELF_HOSTED = re.compile(r"(?:https?|jsons?|xmls?|forms?|mailtos?|mqtts?|r?syslog)://")
"""Schemes whose URL is an address of one's own; in most others host and path are the token itself."""
TELLING_HEADER = re.compile(r"auth|key|token|secret|cookie|passw", re.IGNORECASE)
LONG = 16
"""A path segment or query value of this length may well be a token."""


def check_receivers(root: Record, problems: Problems, url_problem: UrlProblem) -> None:
    """Each receiver has exactly one kind of address, and a usable one."""
    for receiver in root.sections("receivers"):
        given = [name for name in ("url", "alertmanager") if receiver.given(name)]
        if len(given) != 1:
            where = receiver.at("alertmanager") if given else receiver.place
            problems.error(where, "needs `url` or `alertmanager`, and not both", "url takes any apprise URL")
        _check_url(receiver, problems, url_problem)
        for number, address in enumerate(receiver.get("alertmanager") or ()):
            if isinstance(address, Secret):
                _, problem, _ = web_url_parts(address.reveal())
                if problem:
                    hint = "write it like http://192.0.2.20:9093"
                    problems.error(receiver.at(f"alertmanager[{number}]"), problem, hint)


def _check_url(receiver: Record, problems: Problems, url_problem: UrlProblem) -> None:
    url = receiver.get("url")
    if url is None:
        return
    problem = url_problem(url.reveal())
    if problem:
        problems.error(receiver.at("url"), without_url(problem, url.reveal()), "see https://appriseit.com/services/")


def without_url(problem: str, url: str) -> str:
    """`problem`, unless it quotes a part of the URL that may be secret."""
    rest = url.partition("://")[2] or url
    parts = [part for part in re.split(r"[/@:?&=#,\s]+", rest) if len(part) > 3]
    return "apprise does not accept this URL" if any(part in problem for part in parts) else problem


def check_file_mode(root: Record, mode: int | None, problems: Problems) -> None:
    """A configuration that holds secrets itself is not open to everybody. `mode` None = there is no file."""
    if mode is None or not mode & stat.S_IRWXO:
        return
    records = [*root.sections("servers"), *root.sections("hosts"), *root.sections("receivers")]
    for record in records:
        for name, text in record.literals.items():
            if _is_secret(name, text):
                problems.error(
                    record.at(name),
                    f"a secret, in a file that everybody on this machine can read (mode {stat.S_IMODE(mode):04o})",
                    f"{chmod(Path(problems.file))}; or use ${{env:NAME}} or ${{file:/path}}",
                )
                return


def _is_secret(name: str, text: str) -> bool:
    if name == "api_key":
        return text not in NO_KEYS
    if name.startswith("headers."):
        return TELLING_HEADER.search(name.removeprefix("headers.")) is not None
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
