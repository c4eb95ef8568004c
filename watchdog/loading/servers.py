"""Rules about servers: addresses that can be asked, headers that can be sent, a probe that fits into its interval."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from watchdog.loading.files import check_file
from watchdog.loading.problems import Problems, shown
from watchdog.loading.records import Record
from watchdog.loading.references import References
from watchdog.loading.schedules import check_schedule

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
OURS = {
    "model": "set `model` of the server",
    "messages": "the prompt is ours",
    "stream": "set `probe.stream`",
    "max_tokens": "set `probe.max_tokens`",
    "max_completion_tokens": "set `probe.max_tokens`; the other name is tried where a server asks for it",
}
"""Parts of the request body that `extra_body` may not change: the verdict rests on them (design §2, invariant 10)."""
FRAMING = ("content-length", "transfer-encoding", "content-type", "host", "connection")
MANY_TOKENS = 64


def check_servers(root: Record, problems: Problems, references: References) -> None:
    """All rules about each server on its own."""
    for server in root.sections("servers"):
        _check_base_url(server, problems)
        _check_metrics_url(server, problems)
        _check_tls(server, problems, references)
        _check_headers(server, problems)
        for key in server.get("extra_body") or {}:
            if key in OURS:
                problems.error(server.at("extra_body"), f"`{key}` cannot be set here", OURS[key])
        probe = server.section("probe")
        check_schedule(probe, "a server that hangs is asked", problems)
        if (probe.get("max_tokens") or 0) > MANY_TOKENS:
            problems.warn(probe.at("max_tokens"), "is a lot for a probe: it keeps the server busy", "5 proves as much")


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
    """The parts of an http(s) URL that is shown in logs, so it may hold no credentials; None after noting problems."""
    url, place = record.get(field), record.at(field)
    if url is None:
        return None
    parts, problem, hint = web_url_parts(url)
    if not problem and parts is not None:
        if parts.username is not None or parts.password is not None:
            problem, hint = "holds a user or password, and this URL is shown in alerts", "use api_key or headers"
        elif field == "base_url" and (parts.query or parts.fragment):
            problem, hint = "holds a ? or #, and /chat/completions is appended to it", "end it with /v1"
    if problem:
        problems.error(place, problem, hint)
        return None
    return parts


def web_url_parts(url: str) -> tuple[SplitResult | None, str, str]:
    """The parts of an http(s) URL, what is wrong with it (never quoting it), and what to do."""
    if re.search(r"[\s\\<>\"{}^`|]", url):
        return None, "holds a character that no URL has (a space, a quote, a bracket)", ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, "is no usable URL", "write it like http://192.0.2.10:8000/v1"
    if parts.scheme not in ("http", "https"):
        hint = "write it like http://192.0.2.10:8000/v1"
        return None, "must start with http:// or https://", hint
    if not parts.hostname or parts.hostname.startswith("-") or port == 0:
        return None, "has no usable host", "write it like http://192.0.2.10:8000/v1"
    return parts, "", ""


def _check_tls(server: Record, problems: Problems, references: References) -> None:
    check_file(server, "ca_file", references, problems)
    if server.get("verify_tls") is False:
        if server.get("ca_file") is not None:
            problems.error(server.at("verify_tls"), "is false, so ca_file would have no use", "remove one of the two")
        else:
            problems.warn(server.at("verify_tls"), "anybody on the network can answer for this server", "give ca_file")


def _check_headers(server: Record, problems: Problems) -> None:
    for name in server.get("headers") or {}:
        place = server.at(f"headers.{name}")
        if HEADER_NAME.fullmatch(name) is None:
            problems.error(place, "this is no HTTP header name")
        elif name.lower() in FRAMING:
            problems.error(place, f"{shown(name)} is set by the request itself", "remove it")
        elif name.lower() == "authorization" and server.get("api_key") is not None:
            problems.error(place, "api_key sets this header too", "remove one of the two")
