"""Start to first probe, idle memory, idle CPU, memory after the first alert: the real daemon, one server and two hosts.

Intervals are as shipped.

    python -m benchmarks.idle --seconds 600

The server is a small chat server in another process; the hosts are real SSH servers of the demo rig, also there, so
that only the daemon's own cost is counted. Prints one line per budget and exits 1 if one is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

BUDGET_FIRST_PROBE_S = 1.5
BUDGET_RSS_MIB = 75.0
BUDGET_CPU_S_PER_DAY = 100.0  # with the passive look; 60 without it
BUDGET_RSS_AFTER_ALERT_MIB = 95.0


async def measure(seconds: float) -> dict[str, float]:
    """Run the daemon for `seconds`; returns the figures by their names."""
    with tempfile.TemporaryDirectory() as directory:
        rig = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "watchdog.demo.rig", directory, stdout=asyncio.subprocess.PIPE
        )
        assert rig.stdout is not None
        ready = json.loads(await rig.stdout.readline())
        started = time.time()
        daemon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "watchdog", "run", "--config", ready["config"], "--state-dir", directory),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )
        try:
            first = json.loads(await asyncio.wait_for(rig.stdout.readline(), 30))
            process = psutil.Process(daemon.pid)
            await asyncio.sleep(min(15.0, seconds / 4))
            begin, cpu_before = time.time(), sum(process.cpu_times()[:2])
            await asyncio.sleep(seconds)
            cpu_s = sum(process.cpu_times()[:2]) - cpu_before
            elapsed_s, rss = time.time() - begin, process.memory_info().rss
            told = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "watchdog", "test-alert"),
                *("--config", ready["config"], "--state-dir", directory),
                stdout=asyncio.subprocess.DEVNULL,
            )
            assert await told.wait() == 0, "the daemon could not send a test alert"
            return {
                "first_probe_s": first["at"] - started,
                "rss_mib": rss / 2**20,
                "cpu_s_per_day": cpu_s / elapsed_s * 86400,
                "rss_after_alert_mib": process.memory_info().rss / 2**20,
            }
        finally:
            daemon.terminate()
            await daemon.wait()
            rig.terminate()
            await rig.wait()


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="how long to watch the idle daemon")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.seconds))
    budgets = {
        "first_probe_s": BUDGET_FIRST_PROBE_S,
        "rss_mib": BUDGET_RSS_MIB,
        "cpu_s_per_day": BUDGET_CPU_S_PER_DAY,
        "rss_after_alert_mib": BUDGET_RSS_AFTER_ALERT_MIB,
    }
    for name, budget in budgets.items():
        mark = "ok" if figures[name] <= budget else "OVER BUDGET"
        print(f"{name:20} {figures[name]:8.2f}   budget {budget:6.1f}   {mark}")
    if options.json:
        options.json.write_text(json.dumps(figures))
    return int(any(figures[name] > budget for name, budget in budgets.items()))


if __name__ == "__main__":
    sys.exit(main())
