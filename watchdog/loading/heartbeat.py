"""Rules about the heartbeat: an address that can be used, and a deadline within its interval."""

from __future__ import annotations

from watchdog.config import Secret
from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.loading.schedules import check_schedule
from watchdog.loading.servers import web_url_parts


def check_heartbeat(root: Record, problems: Problems) -> None:
    """The URL is one of the web, and one beat is over before the next."""
    if not isinstance(root.values.get("heartbeat"), Record):
        return
    heartbeat = root.section("heartbeat")
    url = heartbeat.get("url")
    if isinstance(url, Secret):
        _, problem, _ = web_url_parts(url.reveal())
        if problem:
            problems.error(heartbeat.at("url"), problem, "write it like https://hc-ping.com/your-uuid")
    check_schedule(heartbeat, "it is sent", problems, why="one heartbeat is over before the next is sent")
