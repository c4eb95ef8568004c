"""A kernel that logs without end: worked off in pages, nothing lost, nothing held."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.support.kernel_log_checks import check, condition, fatal, fatals, found, scan
from tests.support.memory_growth import growth
from tests.support.scripted_ssh_hosts import BOOT, END, HEADER, HELLO, ssh_host
from tests.support.sshd import RealHost, real_host
from watchdog.config import KernelLogSettings

LINES = int(os.environ.get("FLOOD_LINES", "120000"))


def message(number: int) -> str:
    """Line `number` of the flood; the last one is the one that matters."""
    return fatal(1) if number == LINES else f"labdrv 0000:41:00.0: filler line {number:07d} lorem ipsum dolor"


def record(number: int) -> bytes:
    """Line `number` as journalctl prints it."""
    stamp = 1_000_000 + number * 10
    return (
        f'{{"__CURSOR":"s=1;i={number:x};b={BOOT};m={stamp:x};t=0;x=0","_BOOT_ID":"{BOOT}",'
        f'"__REALTIME_TIMESTAMP":"{1_795_000_000_000_000 + stamp}","__MONOTONIC_TIMESTAMP":"{stamp}",'
        f'"_SOURCE_MONOTONIC_TIMESTAMP":"{stamp}","_TRANSPORT":"kernel","SYSLOG_FACILITY":"0",'
        f'"SYSLOG_IDENTIFIER":"kernel","PRIORITY":"6","MESSAGE":"{message(number)}"}}\n'
    ).encode()


async def flooded(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Answer as the reader would on a machine with `LINES` lines."""
    words = (process.command or "").replace("'", "").split()
    if "hello" in words:
        process.stdout.write(HELLO)
    else:
        cursor, most = words[-2], int(words[-1])
        start = 1 if cursor == "-" else int(cursor.split(";")[1].partition("=")[2], 16)
        process.stdout.write(HEADER)
        for at in range(start, min(start + most, LINES + 1), 500):
            process.stdout.write(b"".join(map(record, range(at, min(at + 500, start + most, LINES + 1)))))
            await process.stdout.drain()
            await asyncio.sleep(0)
        process.stdout.write(END)
    process.exit(0)


def filled(machine: RealHost) -> None:
    """Give the machine a journal of `LINES` lines; the last one is the one that matters."""
    journal = machine.journal(wall_us=int((time.time() - 100) * 1e6))
    for number in range(1, LINES + 1):
        journal.kernel(machine.boot, 1_000_000 + number * 10, message(number))
        if number % 100_000 == 0 or number == LINES:
            machine.plant(journal)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600 if LINES > 200_000 else 120)
async def test_a_flood_in_a_real_journal_is_worked_off_in_pages_with_flat_memory(tmp_path: Path) -> None:
    with real_host(tmp_path / "lab") as machine:
        filled(machine)
        watch = check(replace(machine.settings(), kernel_log=KernelLogSettings(interval_s=600, timeout_s=60)))
        started = time.monotonic()
        result, grown = await growth(scan(watch))
        took = time.monotonic() - started
        print(f"flood of {LINES} lines: {LINES / took:,.0f} lines a second, {grown:.1f} MiB more memory at most")
        assert condition(result).reason == "ok"
        assert condition(result).measurements["lines"] == LINES
        assert found(result) == fatals(1)
        assert found(await scan(watch)) == {}
    assert grown < 32


async def test_a_flood_that_outruns_the_scan_is_said_and_the_next_scan_goes_on(tmp_path: Path) -> None:
    async with ssh_host(tmp_path, flooded) as host:
        hasty = replace(host, kernel_log=KernelLogSettings(interval_s=1.0, timeout_s=0.8))
        watch = check(hasty)
        first = await scan(watch)
        assert condition(first).reason in {"behind", "timeout"}
        lines = condition(first).measurements["lines"]
        second = await scan(watch)
        assert condition(second).measurements["lines"] > 0
        assert 0 < lines < LINES
