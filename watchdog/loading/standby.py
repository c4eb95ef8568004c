"""Rules about standing by for another watchdog: an address of the web, with the path that says how it is."""

from __future__ import annotations

from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.loading.servers import web_url_parts

EXAMPLE = "write it like http://192.0.2.5:9877/healthz"


def check_standby(root: Record, problems: Problems) -> None:
    """`standby_of` is the /healthz of the first watchdog."""
    url = root.get("standby_of")
    if url is None:
        return
    parts, problem, _ = web_url_parts(url)
    if problem:
        problems.error(root.at("standby_of"), problem, EXAMPLE)
    elif parts is not None and parts.path in ("", "/"):
        problems.error(root.at("standby_of"), "has no path, so it would ask for a page and not for health", EXAMPLE)
    elif parts is not None and parts.password is not None:
        problems.error(root.at("standby_of"), "holds a password, which /healthz never asks for", EXAMPLE)
