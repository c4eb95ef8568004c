"""Where each target can be knocked at, and after how long without a result a check is late."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from watchdog.config import Config, HostSettings
from watchdog.neighbourhood import Door

LATE_GRACE_S = 30.0
"""What a run's result may take on its way, on a busy machine, before its check counts as late."""
SCAN_SHARE = 0.8
"""A scan with much to read may take this share of its interval (`checks.kernel_log.OVERALL_SHARE`)."""
OTHER_RUN_S = 60.0
"""How long a run of any other kind of check may take, unless its interval is longer."""


def doors_of(config: Config) -> Mapping[str, Door]:
    """Check key → where its target is knocked at; what lies behind a jump host is knocked at there."""
    doors = {}
    for server in config.servers:
        parts = urlsplit(server.base_url)
        if parts.hostname:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            doors[f"generation/{server.name}"] = Door(parts.hostname, port)
    by_name = {host.name: host for host in config.hosts}
    for host in config.hosts:
        for kind in ("kernel_log", "follow", "vitals"):
            doors[f"{kind}/{host.name}"] = _door_of(host, by_name)
    return doors


def _door_of(host: HostSettings, by_name: Mapping[str, HostSettings]) -> Door:
    if host.jump is None:
        return Door(host.address, host.port)
    if host.jump in by_name:
        return Door(by_name[host.jump].address, by_name[host.jump].port)
    address = host.jump.rpartition("@")[2]
    name, colon, port = address.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.startswith("[")):
        return Door(name.strip("[]"), int(port))
    return Door(address.strip("[]"), 22)


def late_after_s(config: Config, intervals: Mapping[str, float]) -> Mapping[str, float]:
    """Check key → seconds from one completed run to the next after which it is late: interval, longest run, grace.

    `intervals` are those of the checks that run, in seconds.
    """
    longest = {f"generation/{server.name}": server.probe.timeout_s for server in config.servers}
    for host in config.hosts:
        log = host.kernel_log
        longest[f"kernel_log/{host.name}"] = max(log.timeout_s, SCAN_SHARE * log.interval_s)
    return {
        key: interval_s + longest.get(key, max(OTHER_RUN_S, interval_s)) + LATE_GRACE_S
        for key, interval_s in intervals.items()
    }
