"""A fleet on one core: 500 chat servers every 15 s and 200 SSH hosts, scanned as shipped.

    python -m benchmarks.fleet [--servers 500] [--hosts 200] [--seconds 120]

The daemon has a core of its own, everything else shares another. The hosts are one real sshd with a real journal under
200 names, of which 100 are followed live: a user may have 128 live readers. That machine is not measured; what it is
too slow for at the start, when all names are asked at once, is printed and not judged. Then 30 % of the servers hang:
nothing may change for the others. Lateness is measured at the chat servers.

Exits 1 if a budget is broken, 3 if it cannot be measured here (root, sshd and two cores are needed).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.processes import FakeServers, folder, serving, watchdog, webhook
from benchmarks.scale import HUNG_SHARE, OURS, Comparison, Figures, configuration
from tests.support.sshd import SSHD, RealHost, real_host

LATE_BUDGET_S, RSS_BUDGET_MIB = 1.0, 200.0
INTERVAL_S = 15
FOLLOWED = 100
CHECKS_OF_A_HOST = ("kernel_log", "follow", "vitals")


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was measured: both windows, and how many hosts had each of their checks pass."""

    windows: dict[str, Figures]
    passed: dict[str, int]


def fleet_configuration(fake: FakeServers, servers: list[str], machine: RealHost, hosts: int, hook: str) -> str:
    """The chat servers as `scale` has them, and one machine under many names, with intervals as shipped."""
    rows = [
        f"  - {{name: h{number}, address: 127.0.0.1, port: {machine.port}, user: watch, "
        f"identity_file: {machine.key}, known_hosts: {machine.known_hosts}, "
        f"kernel_log: {{follow: {str(number < FOLLOWED).lower()}}}}}\n"
        for number in range(hosts)
    ]
    return configuration(fake, servers, INTERVAL_S, hook) + f"hosts:\n{''.join(rows)}"


def observed(log: Path) -> dict[str, int]:
    """From the daemon's log: hosts that passed each kind of check. Prints what did not pass."""
    passed: dict[str, set[str]] = {kind: set() for kind in CHECKS_OF_A_HOST}
    failed: Counter[str] = Counter()
    for line in log.read_bytes().splitlines():
        record = json.loads(line) if line.startswith(b"{") else {}
        kind, _, host = str(record.get("check", "")).partition("/")
        if kind in passed and record.get("event") == "observation":
            if record["verdict"] == "pass":
                passed[kind].add(host)
            else:
                failed[f"{kind}: {record['reason']}"] += 1
    for what, count in failed.items():
        print(f"not passed at the start: {what} × {count}")
    return {kind: len(names) for kind, names in passed.items()}


async def measure(options: argparse.Namespace, directory: Path) -> Fleet:
    """Run the fleet: settle, one window with all servers well, one with some that hang."""
    os.sched_setaffinity(0, {1})  # what is started from here on inherits it
    servers = [f"e{number}" for number in range(options.servers)]
    hung = [name for number, name in enumerate(servers) if number % 10 < 10 * HUNG_SHARE]
    well = [name for name in servers if name not in set(hung)]
    limits = ("MaxStartups 1000", "MaxSessions 100")
    with real_host(directory / "machine", *limits) as machine:
        journal = machine.journal(wall_us=int((time.time() - 100) * 1e6))
        journal.kernel(machine.boot, 1_000_000, "Linux version 6.17")
        machine.plant(journal)
        async with serving() as fake, webhook() as hook, contextlib.AsyncExitStack() as running:
            config = fleet_configuration(fake, servers, machine, options.hosts, f"json://{hook}")
            daemon = await running.enter_async_context(watchdog(config, directory))
            os.sched_setaffinity(daemon.pid, {0})
            compared = Comparison(fake, {OURS: [daemon.pid]}, INTERVAL_S)
            await asyncio.sleep(options.settle)
            windows = {"healthy": (await compared.window(options.seconds, well))[OURS]}
            await fake.put_into("hang", *hung)
            await asyncio.sleep(INTERVAL_S)
            windows["hung"] = (await compared.window(options.seconds, well))[OURS]
            passed = observed(directory / "watchdog.log")
    return Fleet(windows, passed)


def report(fleet: Fleet, hosts: int) -> int:
    """Print the figures and judge them; 0 within the budgets, 1 outside."""
    read = fleet.passed["kernel_log"]
    broken = [f"the kernel logs of {read} of {hosts} hosts were read"] * (read < hosts)
    for name, row in fleet.windows.items():
        print(
            f"{name:8} CPU {row.cpu_s_per_hour:5.0f} s/h  RSS {row.rss_mib:6.1f} MiB  probes {row.probes} of "
            f"{row.expected} due  late p99 {row.late_p99_s:.3f} s, at most {row.late_max_s:.2f} s"
        )
        broken += [f"{name}: p99 lateness {row.late_p99_s:.2f} s"] * (not row.late_p99_s <= LATE_BUDGET_S)
        broken += [f"{name}: {row.probes} probes of {row.expected}"] * (row.probes < 0.98 * row.expected)
        broken += [f"{name}: {row.rss_mib:.0f} MiB"] * (row.rss_mib > RSS_BUDGET_MIB)
    print(f"hosts that passed: {fleet.passed}")
    for line in broken:
        print(f"OVER BUDGET: {line}")
    return int(bool(broken))


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--settle", type=float, default=100, help="seconds before the first window")
    parser.add_argument("--seconds", type=float, default=120, help="length of each of the two windows")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which(SSHD) is None or (os.cpu_count() or 1) < 2:
        print("fleet: NOT MEASURED, needs root, openssh-server and two cores", file=sys.stderr)
        return 3
    with folder() as directory:
        directory.chmod(0o755)  # the machine's users read below it
        fleet = asyncio.run(measure(options, directory))
    if options.json:
        options.json.write_text(json.dumps(asdict(fleet)))
    return report(fleet, options.hosts)


if __name__ == "__main__":
    sys.exit(main())
