"""Rules about the web part: a place to listen at, and a token where others can reach it."""

from __future__ import annotations

import ipaddress
import re

from watchdog.config import Secret
from watchdog.loading.problems import Problems
from watchdog.loading.records import Record

ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[0-9.]+|localhost)):(?P<port>[0-9]{1,5})", re.ASCII)
HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
EXAMPLE = "write it like 127.0.0.1:9877, or 0.0.0.0:9877 with a token for all of your network"
SHORTEST_TOKEN = 16


def check_web(root: Record, problems: Problems) -> None:
    """The address can be listened at, and nobody but this machine's users gets in without a token."""
    if not isinstance(root.values.get("web"), Record):
        return
    web = root.section("web")
    listen, token = web.get("listen"), web.get("token")
    loopback = None if listen is None else _is_loopback(listen)
    if listen is not None and loopback is None:
        problems.error(web.at("listen"), "is no address and port of this machine", EXAMPLE)
    if loopback is False and not web.given("token"):
        hint = "add `token: ${file:web.token}`, or listen at 127.0.0.1"
        problems.error(web.at("listen"), "can be reached from other machines, so it needs a `token`", hint)
    if isinstance(token, Secret) and len(token.reveal()) < SHORTEST_TOKEN:
        hint = f"use {SHORTEST_TOKEN} characters or more, for example from `openssl rand -hex 16`"
        problems.error(web.at("token"), "is too short: it could be guessed", hint)
    for number, name in enumerate(web.get("names") or ()):
        if isinstance(name, str) and HOST_NAME.fullmatch(name) is None:
            hint = "write it in small letters like mac.example.org, without http:// and port"
            problems.error(web.at(f"names[{number}]"), "is no host name", hint)


def _is_loopback(listen: str) -> bool | None:
    """Whether only this machine can reach `listen`; None if it is no address."""
    found = ADDRESS.fullmatch(listen)
    if found is None or int(found["port"]) > 65535:
        return None
    if found["four"] == "localhost":
        return True
    try:
        return ipaddress.ip_address(found["six"] or found["four"]).is_loopback
    except ValueError:
        return None
