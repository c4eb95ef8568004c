"""Vitals on the live stream of a real sshd: what is left of a machine that freezes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.test_kernel_log_follow import log_line, processes, signal_sessions, streams
from tests.support.journal_files import SECOND
from tests.support.kernel_log_checks import Ledger, check, condition, fatal, fatals, following, scan, until
from tests.support.sshd import RealHost, real_host
from watchdog.checks.kernel_stream import _Lines
from watchdog.clock import SystemClock
from watchdog.config import KernelLogSettings, VitalsSettings

pytestmark = pytest.mark.real
HOSTS = int(os.environ.get("BLACK_BOX_HOSTS", "2"))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[RealHost]]:
    machines = []
    with ExitStack() as stack:
        for number in range(HOSTS):
            machine = stack.enter_context(real_host(tmp_path / f"lab{number}"))
            log = machine.journal(wall_us=int((time.time() - 300) * SECOND))
            log.kernel(machine.boot, 1 * SECOND, "Linux version 6.17")
            machine.plant(log)
            machines.append(machine)
        yield machines


async def _figures_when_frozen(host: RealHost, after_s: float) -> float:
    """Freeze everything that serves us on the host; how old are the last figures at that moment, in seconds?"""
    watch = check(host.settings())
    async with following(watch, Ledger()):
        await until(lambda: streams(host))
        await until(lambda: watch._log.box.points(time.time()))
        await asyncio.sleep(after_s)
        frozen = [*signal_sessions(host, signal.SIGSTOP)]
        frozen_at = time.time()
        try:
            await asyncio.sleep(1.0)
            last = watch._log.box.points(time.time())[-1]
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
    assert last.available_bytes is not None
    return frozen_at - last.at


async def test_the_last_figures_of_a_machine_that_freezes_are_at_most_five_seconds_old(hosts: list[RealHost]) -> None:
    rounds = 1 if HOSTS < 5 else 4
    ages = []
    for number in range(rounds):
        ages += await asyncio.gather(
            *(_figures_when_frozen(host, 3.0 + (number + place) % 5) for place, host in enumerate(hosts))
        )
    print(f"{len(ages)} freezes: figures {max(ages):.1f} s old at most")
    assert max(ages) <= 5.5


async def test_what_was_last_seen_stands_in_the_alert_of_a_host_that_falls_silent(hosts: list[RealHost]) -> None:
    host = hosts[0]
    watch = check(host.settings(kernel_log=KernelLogSettings(interval_s=600, timeout_s=4)))
    async with following(watch, Ledger()):
        await until(lambda: streams(host))
        await until(lambda: watch._log.box.points(time.time()))
    os.kill(host.pid, signal.SIGSTOP)  # its port accepts, and nobody speaks
    try:
        gone = condition(await scan(watch))
    finally:
        os.kill(host.pid, signal.SIGCONT)
    assert gone.reason == "silent"
    assert gone.last_seen
    assert gone.evidence[-1].text.startswith("last seen: ")
    assert "available" in gone.evidence[-1].text


async def test_no_vitals_come_where_they_are_switched_off(hosts: list[RealHost]) -> None:
    host = hosts[0]
    watch = check(host.settings(vitals=VitalsSettings(stream=False)))
    ledger = Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1))
        assert watch._log.box.points(time.time()) == ()


async def test_nothing_is_left_on_the_host_when_the_stream_ends(hosts: list[RealHost]) -> None:
    host = hosts[0]
    watch = check(host.settings())
    async with following(watch, Ledger()):
        await until(lambda: streams(host))
        await until(lambda: watch._log.box.points(time.time()))
        assert processes("sh", host.pid)
    await until(lambda: not [pid for session in host.sessions() for pid in processes("sleep", session)])
    await until(lambda: not streams(host))


async def test_a_kernel_line_that_vitals_cut_in_two_is_told(hosts: list[RealHost]) -> None:
    watch, news, boot = check(hosts[0].settings()), asyncio.Event(), hosts[0].boot
    await scan(watch)
    lines = _Lines(watch._log, SystemClock(), news)
    record = json.dumps(
        {
            "__CURSOR": f"s={1:032x};i=9;b={boot};m=1;t=1;x=1", "__REALTIME_TIMESTAMP": "1795000000000000",
            "__MONOTONIC_TIMESTAMP": "100000000", "_BOOT_ID": boot, "MESSAGE": fatal(7), "PRIORITY": "3",
            "SYSLOG_FACILITY": "0", "_TRANSPORT": "kernel", "_SOURCE_MONOTONIC_TIMESTAMP": "100000007",
        }
    ).encode()  # fmt: skip
    lines.take(record[:150])
    lines.take(b"vitals memory=1 avg10=0.00 avg10=0.00")
    assert not news.is_set()
    lines.take(record[150:])
    assert news.is_set()
