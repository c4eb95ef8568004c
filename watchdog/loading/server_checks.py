"""Checks of servers, and of the sections `alerting`, `heartbeat`, `web` and `standby_of`."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from watchdog.config import Secret
from watchdog.loading.problems import Problems, Record, shown
from watchdog.loading.references import read_setting
from watchdog.loading.scalars import written_duration

# Web: an address to listen on, and a token where other machines can reach it.

ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[0-9.]+|localhost)):(?P<port>[0-9]{1,5})", re.ASCII)
HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_LISTEN_EXAMPLE = "write it like 127.0.0.1:9877, or 0.0.0.0:9877 with a token for all of your network"
SHORTEST_TOKEN = 16


def check_web(root: Record, problems: Problems) -> None:
    """The address can be listened on, and other machines need a token."""
    if not isinstance(root.values.get("web"), Record):
        return
    web = root.section("web")
    listen, token = web.get("listen"), web.get("token")
    loopback = None if listen is None else _is_loopback(listen)
    if listen is not None and loopback is None:
        problems.error(web.at("listen"), "is not an address and port of this machine", _LISTEN_EXAMPLE)
    if loopback is False and not web.given("token"):
        hint = "add `token: ${file:web.token}`, or listen on 127.0.0.1"
        problems.error(web.at("listen"), "is reachable from other machines, so it needs a `token`", hint)
    if isinstance(token, Secret) and len(token.reveal()) < SHORTEST_TOKEN:
        hint = f"use {SHORTEST_TOKEN} characters or more, for example from `openssl rand -hex 16`"
        problems.error(web.at("token"), "is too short and could be guessed", hint)
    for number, name in enumerate(web.get("names") or ()):
        if isinstance(name, str) and HOST_NAME.fullmatch(name) is None:
            hint = "write it in lower case like mac.example.org, without http:// and port"
            problems.error(web.at(f"names[{number}]"), "is not a valid host name", hint)


def _is_loopback(listen: str) -> bool | None:
    """Whether only this machine can reach `listen`; None if it is not an address."""
    found = ADDRESS.fullmatch(listen)
    if found is None or int(found["port"]) > 65535:
        return None
    if found["four"] == "localhost":
        return True
    try:
        return ipaddress.ip_address(found["six"] or found["four"]).is_loopback
    except ValueError:
        return None


# Times: a check must finish within its interval, and flapping must be detectable.

SHORT_INTERVAL_S = 10.0


NO_OVERLAP = "runs of one check never overlap"


def check_schedule(section: Record, effect: str, problems: Problems, *, why: str = NO_OVERLAP) -> None:
    """`timeout` is within `interval`, because `why`; a short interval is only a warning.

    `effect` is what happens less often where the default timeout is longer than the interval.
    """
    interval_s, timeout_s = section.get("interval_s"), section.get("timeout_s")
    if interval_s is None or timeout_s is None:
        return
    if timeout_s > interval_s:
        every, within = written_duration(interval_s), written_duration(timeout_s)
        if section.given("timeout_s"):
            problem = f"timeout {within} is longer than interval {every}, but {why}"
            problems.error(section.at("timeout_s"), problem, f"use at most {every}, or a longer interval")
        else:
            problem = f"the default timeout {within} is longer than interval {every}: {effect} only every {within}"
            problems.warn(section.at("interval_s"), problem, f"set timeout to {every} or less")
    if interval_s < SHORT_INTERVAL_S:
        every = written_duration(interval_s)
        problems.warn(section.at("interval_s"), f"{every} is very short: fine for a test, but a load on a server", "")


def check_alerting(root: Record, problems: Problems) -> None:
    """Report settings under which flapping could never be detected."""
    alerting = root.section("alerting")
    window, failures = alerting.get("flap_window"), alerting.get("flap_failures")
    if window is not None and failures is not None and failures > window:
        where = "flap_failures" if alerting.given("flap_failures") else "flap_window"
        problem = f"flap_failures {failures} cannot be reached within flap_window {window}: flapping is never detected"
        problems.error(alerting.at(where), problem, f"use at most {window} for flap_failures")


HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
RESERVED = {
    "model": "set `model` of the server",
    "messages": "the prompt is fixed",
    "stream": "set `probe.stream`",
    "max_tokens": "set `probe.max_tokens`",
    "max_completion_tokens": "set `probe.max_tokens`; the other name is tried where a server asks for it",
}
"""Parts of the request body that `extra_body` may not change: the verdict rests on them (design §2, invariant 10)."""
FRAMING = ("content-length", "transfer-encoding", "content-type", "host", "connection")
MANY_TOKENS = 64


def check_servers(root: Record, problems: Problems) -> None:
    """Report what is wrong with a server by itself."""
    for server in root.sections("servers"):
        _check_base_url(server, problems)
        _check_metrics_url(server, problems)
        _check_tls(server, problems)
        _check_headers(server, problems)
        for key in server.get("extra_body") or {}:
            if key in RESERVED:
                problems.error(server.at("extra_body"), f"`{key}` cannot be set here", RESERVED[key])
        probe = server.section("probe")
        check_schedule(probe, "a hanging server is probed", problems)
        if (probe.get("max_tokens") or 0) > MANY_TOKENS:
            problems.warn(probe.at("max_tokens"), "is a lot for a probe and keeps the server busy", "5 prove as much")


def _check_base_url(server: Record, problems: Problems) -> None:
    parts = split_web_url(server, "base_url", problems)
    if parts is None:
        return
    place, path = server.at("base_url"), parts.path.rstrip("/")
    if path.endswith("/chat/completions"):
        problems.warn(place, "ends in /chat/completions, which is appended to it", "stop at /v1")
    elif not re.search(r"/v\d+$", path):
        problems.warn(place, "does not end in /v1, where most servers have their API", "add /v1 unless yours differs")


def _check_metrics_url(server: Record, problems: Problems) -> None:
    if server.get("metrics_url") is not None:
        split_web_url(server, "metrics_url", problems)


def split_web_url(record: Record, field: str, problems: Problems) -> SplitResult | None:
    """The parts of an http(s) URL that may appear in logs, so without credentials; None after noting problems."""
    url, place = record.get(field), record.at(field)
    if url is None:
        return None
    parts, problem, hint = web_url_parts(url)
    if not problem and parts is not None:
        if parts.username is not None or parts.password is not None:
            problem, hint = (
                "contains a user name or password, and this URL is shown in alerts",
                "use api_key or headers",
            )
        elif field == "base_url" and (parts.query or parts.fragment):
            problem, hint = "contains ? or #, but /chat/completions is appended to it", "end it with /v1"
    if problem:
        problems.error(place, problem, hint)
        return None
    return parts


def web_url_parts(url: str) -> tuple[SplitResult | None, str, str]:
    """The parts of an http(s) URL, what is wrong with it (never quoting it), and what to do."""
    if re.search(r"[\s\\<>\"{}^`|]", url):
        return None, "contains a character that is not allowed in a URL (a space, a quote, a bracket)", ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, "is not a valid URL", "write it like http://192.0.2.10:8000/v1"
    if parts.scheme not in ("http", "https"):
        hint = "write it like http://192.0.2.10:8000/v1"
        return None, "must start with http:// or https://", hint
    if not parts.hostname or parts.hostname.startswith("-") or port == 0:
        return None, "has no valid host", "write it like http://192.0.2.10:8000/v1"
    return parts, "", ""


def _check_tls(server: Record, problems: Problems) -> None:
    read_setting(server.get("ca_file"), server.at("ca_file"), problems)
    if server.get("verify_tls") is False:
        if server.get("ca_file") is not None:
            problems.error(
                server.at("verify_tls"), "is false, so ca_file would have no effect", "remove one of the two"
            )
        else:
            problems.warn(server.at("verify_tls"), "anyone on the network can pose as this server", "give ca_file")


def _check_headers(server: Record, problems: Problems) -> None:
    for name in server.get("headers") or {}:
        place = server.at(f"headers.{name}")
        if HEADER_NAME.fullmatch(name) is None:
            problems.error(place, "this is not an HTTP header name")
        elif name.lower() in FRAMING:
            problems.error(place, f"{shown(name)} is set by the program itself", "remove it")
        elif name.lower() == "authorization" and server.get("api_key") is not None:
            problems.error(place, "is set by api_key too", "remove one of the two")


# Heartbeat: a valid URL, and a timeout within its interval.


def check_heartbeat(root: Record, problems: Problems) -> None:
    """The URL is an http(s) one, and each heartbeat finishes before the next."""
    if not isinstance(root.values.get("heartbeat"), Record):
        return
    heartbeat = root.section("heartbeat")
    url = heartbeat.get("url")
    if isinstance(url, Secret):
        _, problem, _ = web_url_parts(url.reveal())
        if problem:
            problems.error(heartbeat.at("url"), problem, "write it like https://hc-ping.com/your-uuid")
    check_schedule(heartbeat, "it is sent", problems, why="each heartbeat must finish before the next is sent")


# Standby: the /healthz URL of the first watchdog.

_STANDBY_EXAMPLE = "write it like http://192.0.2.5:9877/healthz"


def check_standby(root: Record, problems: Problems) -> None:
    """`standby_of` is a URL with a path."""
    url = root.get("standby_of")
    if url is None:
        return
    parts, problem, _ = web_url_parts(url)
    if problem:
        problems.error(root.at("standby_of"), problem, _STANDBY_EXAMPLE)
    elif parts is not None and parts.path in ("", "/"):
        problems.error(
            root.at("standby_of"),
            "has no path, so it would fetch the status page instead of /healthz",
            _STANDBY_EXAMPLE,
        )
    elif parts is not None and parts.password is not None:
        problems.error(root.at("standby_of"), "contains a password, which /healthz never asks for", _STANDBY_EXAMPLE)
    elif parts is not None and _is_own_page(root, parts):
        problems.error(
            root.at("standby_of"),
            "is this watchdog's own page (`web.listen`): nobody would speak in an outage",
            "name the first watchdog's page; there leave `standby_of` out",
        )


def _is_own_page(root: Record, parts: SplitResult) -> bool:
    """Whether the address is the one that our own page listens at."""
    web = root.get("web")
    listen = web.get("listen") if isinstance(web, Record) else None
    if not isinstance(listen, str):
        return False
    host, _, port = listen.rpartition(":")
    ours = {host.strip("[]").lower(), "localhost", "127.0.0.1", "::1"}
    own_port = parts.port or (443 if parts.scheme == "https" else 80)
    return port == str(own_port) and (parts.hostname or "") in ours
