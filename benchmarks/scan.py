"""`scan` against GNU grep: the same 200 MB log, the same patterns, in one run; prints speed, ratio and peak memory.

Run `python -m benchmarks.scan [--megabytes 200] [--rounds 5]`. Exits 1 if scan is slower than 0.8 times grep
(design §11), or if it finds a line that grep does not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from watchdog.kernlog.rules import Rule
from watchdog.model import Severity
from watchdog.rulebook import packaged_rules

BUDGET = 0.8
HIT_EVERY = 1000


def routine_lines(dice: random.Random) -> list[Callable[[], str]]:
    """Makers of the lines that fill kernel logs of machines with containers and a firewall."""

    def hexes(count: int) -> str:
        return "".join(dice.choices("0123456789abcdef", k=count))

    def number(low: int, high: int) -> int:
        return dice.randint(low, high)

    def address() -> str:
        return f"192.0.2.{number(1, 254)}"

    return [
        lambda: (
            f"[UFW BLOCK] IN=eth0 OUT= MAC={hexes(28)} SRC={address()} DST={address()} LEN={number(40, 1500)} TOS=0x00 "
            f"PREC=0x00 TTL={number(30, 250)} ID={number(1, 65000)} DF PROTO=TCP SPT={number(1024, 65535)} "
            f"DPT={number(1, 9999)} WINDOW={number(1000, 65535)} RES=0x00 SYN URGP=0"
        ),
        lambda: (
            f"audit: type=1400 audit({number(10**9, 2 * 10**9)}.{number(100, 999)}:{number(1, 9999)}): "
            f'apparmor="DENIED" operation="open" profile="snap.prometheus" name="/proc/{number(1, 99999)}/stat" '
            f'pid={number(1, 99999)} comm="node_exporter" requested_mask="r" denied_mask="r" fsuid=0 ouid=0'
        ),
        lambda: f"docker0: port {number(1, 9)}(veth{hexes(7)}) entered {dice.choice(('blocking', 'disabled'))} state",
        lambda: f"veth{hexes(7)}: entered promiscuous mode",
        lambda: f"eth0: renamed from veth{hexes(7)}",
        lambda: f"IPv6: ADDRCONF(NETDEV_CHANGE): veth{hexes(7)}: link becomes ready",
        lambda: f"br-{hexes(12)}: port {number(1, 9)}(veth{hexes(7)}) entered forwarding state",
        lambda: f"usb {number(1, 4)}-{number(1, 9)}: new high-speed USB device number {number(2, 99)} using xhci_hcd",
        lambda: (
            f"perf: interrupt took too long ({number(2500, 9000)} > 2500), lowering kernel.perf_event_max_sample_rate"
        ),
        lambda: f"EXT4-fs (nvme0n1p{number(1, 3)}): mounted filesystem {hexes(8)} r/w with ordered data mode.",
        lambda: f"NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.{number(10, 99)}.05  Release Build",
        lambda: f"mlx5_core 0000:01:00.{number(0, 1)} enp1s0f{number(0, 1)}np0: Link up",
        lambda: f"TCP: request_sock_TCP: Possible SYN flooding on port {number(1, 65535)}. Sending cookies.",
        lambda: f"kauditd_printk_skb: {number(1, 999)} callbacks suppressed",
    ]


WEIGHTS = (30, 14, 12, 6, 6, 6, 6, 2, 2, 2, 1, 1, 1, 4)


def log_lines(rules: tuple[Rule, ...]) -> Iterator[str]:
    """An endless log, the same at every run: routine, and one line in a thousand that a rule knows."""
    dice = random.Random(11)
    makers = routine_lines(dice)
    hits = [sample for rule in rules for sample in rule.matches]
    micros = 0
    while True:
        for maker in dice.choices(makers, WEIGHTS, k=1000):
            message = dice.choice(hits) if dice.randrange(HIT_EVERY) == 0 else maker()
            micros += 53_000
            second, rest = divmod(micros, 1_000_000)
            clock = (
                f"{1 + second // 86400 % 28:02d}T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
            )
            yield f"2026-11-{clock}.{rest:06d}+00:00 host01 kernel: [{second:>8d}.{rest:06d}] {message}\n"


def write_log(path: Path, rules: tuple[Rule, ...], size: int) -> None:
    """Fill `path` with `size` bytes, or a line more."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        written = 0
        for line in log_lines(rules):
            written += file.write(line)
            if written >= size:
                return


def as_extended(pattern: str) -> str:
    """A rule's pattern for `grep -E`, without `^` and `$`: in a log file something stands around the message."""
    swap = {"(?:": "(", "^": "", "$": "", "\\d": "[0-9]", "\\t": "\t"}

    def converted(match: re.Match[str]) -> str:
        if match[0].startswith("["):
            return match[0].replace("\\d", "0-9").replace("\\w", "0-9A-Za-z_").replace("\\", "")
        return swap.get(match[0], match[0])

    return re.sub(r"\[\^?\]?[^\]]*\]|\\.|[\^$]|\(\?:", converted, pattern)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program: wall seconds, CPU seconds, peak resident KiB."""

    wall_s: float
    cpu_s: float
    peak_kib: int


def run(command: list[str], output: Path, environment: dict[str, str]) -> Run:
    """Run `command` with its output in a file; raises SystemExit when it fails outright."""
    started = time.perf_counter()
    peak_kib = 0
    with output.open("wb") as file:
        actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1)]
        child = os.posix_spawn(command[0], command, environment, file_actions=actions)
        # Not ru_maxrss: for a spawned process that begins with the parent's own size.
        while (ended := os.wait4(child, os.WNOHANG))[0] == 0:
            peak_kib = max(peak_kib, peak_of(child))
            time.sleep(0.005)
    _, status, usage = ended
    wall_s = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) not in (0, 2):
        raise SystemExit(f"{command[0]} failed with status {os.waitstatus_to_exitcode(status)}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, peak_kib)


def peak_of(process: int) -> int:
    """The highest resident KiB of a running process so far; 0 where /proc does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text("ascii")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found[1]) if found else 0


def main() -> int:
    """Generate, run both in turn, print a table; 0 within the budget, 1 outside, 3 where there is no grep."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--megabytes", type=int, default=200)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    grep = shutil.which("grep")
    if grep is None:
        print("scan: NOT MEASURED, there is no grep here", file=sys.stderr)
        return 3
    rules = tuple(rule for rule in packaged_rules() if rule.severity not in (None, Severity.INFO))
    with tempfile.TemporaryDirectory() as folder:
        log, patterns = Path(folder, "kern.log"), Path(folder, "patterns")
        ours, theirs = Path(folder, "scan.out"), Path(folder, "grep.out")
        write_log(log, rules, given.megabytes * 1_000_000)
        patterns.write_text("".join(as_extended(rule.pattern) + "\n" for rule in rules))
        with log.open("rb") as file:  # both read from the page cache
            while file.read(1 << 20):
                pass
        scan_command = [sys.executable, "-m", "watchdog", "scan", "--json", str(log)]
        grep_command = [grep, "-n", "-E", "-f", str(patterns), str(log)]
        runs = [
            (run(scan_command, ours, dict(os.environ)), run(grep_command, theirs, dict(os.environ) | {"LC_ALL": "C"}))
            for _ in range(given.rounds)
        ]
        found = {json.loads(line)["line_number"] for line in ours.read_bytes().splitlines()}
        grepped = {int(line.partition(b":")[0]) for line in theirs.read_bytes().splitlines()}
    return report(runs, given.megabytes, len(found), len(grepped), len(found - grepped))


def report(runs: list[tuple[Run, Run]], megabytes: int, found: int, grepped: int, missed_by_grep: int) -> int:
    """Print the table; 1 when slower than the budget or when grep does not confirm a finding."""
    print(f"{'':6} {'wall s':>8} {'CPU s':>8} {'MB/s':>8} {'peak MiB':>9} {'lines':>7}")
    for name, column, lines in (("scan", 0, found), ("grep", 1, grepped)):
        wall_s = statistics.median(pair[column].wall_s for pair in runs)
        cpu_s = statistics.median(pair[column].cpu_s for pair in runs)
        peak = max(pair[column].peak_kib for pair in runs) / 1024
        print(f"{name:6} {wall_s:8.2f} {cpu_s:8.2f} {megabytes / wall_s:8.0f} {peak:9.1f} {lines:7}")
    ratio = statistics.median(theirs.wall_s / ours.wall_s for ours, theirs in runs)
    print(f"scan runs at {ratio:.2f} times the speed of grep -E (budget {BUDGET}), whole processes, {len(runs)} rounds")
    if missed_by_grep:
        print(f"FAILED: {missed_by_grep} lines that scan reports are not among grep's")
    return 0 if ratio >= BUDGET and not missed_by_grep else 1


if __name__ == "__main__":
    sys.exit(main())
