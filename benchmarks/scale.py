"""A thousand servers every 15 s, beside blackbox exporter + Prometheus + Alertmanager on the same fake servers.

    python -m benchmarks.scale [--servers 1000] [--interval 15] [--seconds 90] [--alone]

Both run at the same time, in one run. Ours streams, takes every reply apart and stores every result; theirs asks for
plain replies. Then 30 % of the servers hang: nothing may change for the others. Lateness is measured at the fake
servers: how far a probe is off its rhythm. Exits 1 if a budget is broken, 3 if the peer is not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import prometheus_stack
from benchmarks.processes import FakeServers, cost_of, folder, serving, watchdog, webhook

OURS = "ours"
HUNG_SHARE = 0.3
CPU_BUDGET, RSS_BUDGET, LATE_BUDGET_S = 1.0, 0.5, 1.0
TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """One side in one window. `late_p99_s` and `probes` are those of the servers that are well."""

    cpu_s_per_hour: float
    rss_mib: float
    probes: int
    expected: int
    late_p99_s: float
    late_max_s: float


def configuration(fake: FakeServers, servers: list[str], interval_s: int, webhook: str) -> str:
    """Our configuration for the fake servers."""
    rows = [
        f"  - {{name: {name}, base_url: '{fake.base_url(OURS, name)}', model: tiny, "
        f"probe: {{interval: {interval_s}s, timeout: {TIMEOUT_S}s}}}}\n"
        for name in servers
    ]
    return f"servers:\n{''.join(rows)}receivers:\n  - {{name: hook, url: '{webhook}'}}\n"


def lateness(arrivals: list[float], interval_s: float) -> list[float]:
    """How late each probe of one server came, against the rhythm of its most punctual one."""
    offsets = [at - position * interval_s for position, at in enumerate(arrivals)]
    return [offset - min(offsets) for offset in offsets]


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of `values` lie."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else float("nan")


class Comparison:
    """Both sides, and what they cost in a window of time."""

    def __init__(self, fake: FakeServers, sides: dict[str, list[int]], interval_s: int) -> None:
        """`sides` maps a group of the fake servers to the processes behind it."""
        self.fake, self.sides, self.interval_s = fake, sides, interval_s

    async def window(self, seconds: float, well: list[str]) -> dict[str, Figures]:
        """Watch for `seconds`; lateness and probes are counted for the servers `well`."""
        await self.fake.get("/arrivals")
        clock = asyncio.get_running_loop().time
        began, before = clock(), {side: cost_of(pids) for side, pids in self.sides.items()}
        peaks = dict.fromkeys(self.sides, 0.0)
        while clock() - began < seconds:
            await asyncio.sleep(min(2.0, seconds / 10))
            for side, pids in self.sides.items():
                peaks[side] = max(peaks[side], cost_of(pids).rss_mib)
        after = {side: cost_of(pids) for side, pids in self.sides.items()}
        elapsed = clock() - began
        arrivals: dict[str, list[float]] = await self.fake.get("/arrivals")
        found = {}
        for side in self.sides:
            rows = [arrivals.get(f"{side}/{server}", []) for server in well]
            late = [value for row in rows for value in lateness(row, self.interval_s)]
            found[side] = Figures(
                cpu_s_per_hour=(after[side].cpu_s - before[side].cpu_s) / elapsed * 3600,
                rss_mib=peaks[side],
                probes=sum(map(len, rows)),
                expected=round(len(well) * elapsed / self.interval_s),
                late_p99_s=percentile(late, 0.99),
                late_max_s=max(late, default=float("nan")),
            )
        return found


async def measure(options: argparse.Namespace, directory: Path) -> dict[str, dict[str, Figures]]:
    """`healthy` and `hung` → side → figures."""
    servers = [f"e{number}" for number in range(options.servers)]
    hung = [name for number, name in enumerate(servers) if number % 10 < 10 * HUNG_SHARE]
    well = [name for name in servers if name not in set(hung)]
    async with serving() as fake, webhook() as hook, contextlib.AsyncExitStack() as sides:
        ours = directory / OURS
        ours.mkdir()
        config = configuration(fake, servers, options.interval, f"json://{hook}")
        running = {OURS: [(await sides.enter_async_context(watchdog(config, ours))).pid]}
        if not options.alone:
            theirs = prometheus_stack.running(
                fake, servers, options.interval, f"http://{hook}", directory / prometheus_stack.GROUP
            )
            running[prometheus_stack.GROUP] = (await sides.enter_async_context(theirs)).pids
        compared = Comparison(fake, running, options.interval)
        await asyncio.sleep(2 * options.interval)
        found = {"healthy": await compared.window(options.seconds, well)}
        if options.hung:
            await fake.put_into("hang", *hung)
            await asyncio.sleep(options.interval)
            found["hung"] = await compared.window(options.seconds, well)
        if options.keep_log:
            options.keep_log.write_bytes((ours / "watchdog.log").read_bytes())
        return found


def report(found: dict[str, dict[str, Figures]]) -> int:
    """Print the figures and judge them; 0 within the budgets, 1 outside."""
    print(f"{'':18} {'CPU s/h':>8} {'RSS MiB':>8} {'probes':>7} {'due':>6} {'late p99 s':>10} {'max':>6}")
    broken = []
    for window, sides in found.items():
        for side, row in sides.items():
            print(
                f"{window:8} {side:9} {row.cpu_s_per_hour:8.0f} {row.rss_mib:8.1f} {row.probes:7} {row.expected:6} "
                f"{row.late_p99_s:10.3f} {row.late_max_s:6.2f}"
            )
        ours, theirs = sides[OURS], sides.get(prometheus_stack.GROUP)
        if not ours.late_p99_s <= LATE_BUDGET_S:
            broken.append(f"{window}: p99 lateness {ours.late_p99_s:.2f} s, budget {LATE_BUDGET_S:.1f} s")
        if ours.probes < 0.98 * ours.expected:
            broken.append(f"{window}: {ours.probes} probes reached the servers that are well, {ours.expected} were due")
        if theirs is None or window != "healthy":
            continue
        cpu, rss = ours.cpu_s_per_hour / theirs.cpu_s_per_hour, ours.rss_mib / theirs.rss_mib
        print(f"ratio: CPU {cpu:.2f} (budget {CPU_BUDGET}), RSS {rss:.2f} (budget {RSS_BUDGET})")
        broken += [f"CPU {cpu:.2f} times theirs"] * (cpu > CPU_BUDGET)
        broken += [f"RSS {rss:.2f} times theirs"] * (rss > RSS_BUDGET)
    for line in broken:
        print(f"OVER BUDGET: {line}")
    return int(bool(broken))


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--interval", type=int, default=15, help="seconds between two probes of one server")
    parser.add_argument("--seconds", type=float, default=90, help="length of each of the two windows")
    parser.add_argument("--alone", action="store_true", help="without the peer: only lateness is judged")
    parser.add_argument("--no-hung", dest="hung", action="store_false", help="leave the second window out")
    parser.add_argument("--keep-log", type=Path, help="copy the daemon's log there")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    absent = [] if options.alone else prometheus_stack.missing()
    if absent:
        print(f"scale: NOT MEASURED, these are not installed: {', '.join(absent)}", file=sys.stderr)
        return 3
    with folder() as directory:
        found = asyncio.run(measure(options, directory))
    if options.json:
        options.json.write_text(json.dumps({w: {s: asdict(f) for s, f in row.items()} for w, row in found.items()}))
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
