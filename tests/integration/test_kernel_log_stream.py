"""The live stream beside the scan, against a scripted host that prints exactly what a test wants."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.support.kernel_log_checks import Ledger, check, condition, fatal, fatals, following, matcher, scan, until
from tests.support.scripted_ssh_hosts import BOOT, END, HEADER, HELLO, settings, ssh_host
from watchdog.checks.kernel_log import STREAM_GRACE_S, KernelLogCheck
from watchdog.clock import SystemClock
from watchdog.config import KernelLogSettings
from watchdog.journal import reading


def record(number: int, message: str = "") -> bytes:
    """Line `number` of the host's kernel as journalctl prints it."""
    stamp = 1_000_000 + number * 1000
    fields = {
        "__CURSOR": f"s=1;i={number:x};b={BOOT};m={stamp:x};t=0;x={number:x}",
        "_BOOT_ID": BOOT,
        "__REALTIME_TIMESTAMP": str(1_795_000_000_000_000 + stamp),
        "__MONOTONIC_TIMESTAMP": str(stamp),
        "_SOURCE_MONOTONIC_TIMESTAMP": str(stamp),
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": message or f"line {number}",
    }
    return json.dumps(fields).encode() + b"\n"


class Machine:
    """Its journal shows `shown` lines; the streams print what `live` holds for them, one after the other."""

    def __init__(self, *live: bytes, shown: int = 1, shown_later: int = 1) -> None:
        """From the first stream on the journal shows `shown_later` lines."""
        self.live = live
        self.shown, self.shown_later = shown, shown_later
        self.streams: list[tuple[object, str]] = []
        """The connection of each stream, and the cursor that it began at."""

    async def serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        words = (process.command or "").replace("'", "").split()
        if "hello" in words:
            process.stdout.write(HELLO)
        elif "journal" in words:
            cursor = words[-2]
            start = 1 if cursor == "-" else int(cursor.split(";")[1].partition("=")[2], 16)
            process.stdout.write(HEADER + b"".join(map(record, range(start, self.shown + 1))) + END)
        else:
            number = len(self.streams)
            self.streams.append((process.channel.get_connection(), words[words.index("follow") + 2]))
            self.shown = self.shown_later
            if number < len(self.live):
                process.stdout.write(HEADER + self.live[number])
                await process.wait_closed()
        process.exit(0)


async def test_a_line_of_the_stream_that_is_no_record_is_passed_over(tmp_path: Path) -> None:
    machine, ledger = Machine(b'garbage\n{"no": "place"}\n' + record(2, fatal(1))), Ledger()
    async with ssh_host(tmp_path, machine.serve) as host, following(check(host), ledger):
        await until(lambda: ledger.results, 10)
    assert ledger.found == fatals(1)
    assert len(machine.streams) == 1


async def test_a_full_stream_takes_nothing_more_and_catches_up_on_the_same_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LIVE_LIMIT", 3)
    full = b"".join(map(record, (2, 3, 4)))
    machine = Machine(full + record(5, fatal(1)), record(6, fatal(2)), shown_later=4)
    ledger = Ledger()
    async with ssh_host(tmp_path, machine.serve) as host, following(check(host), ledger):
        await until(lambda: ledger.results, 10)
    assert ledger.found == fatals(2), "line 5 was beyond the limit, and no page has shown it yet"
    (first, began_at), (second, went_on_at) = machine.streams
    assert first is second
    assert (began_at.split(";")[1], went_on_at.split(";")[1]) == ("i=1", "i=4")


class CountingClock(SystemClock):
    """The system's clock, which does not really wait for a stream to catch up."""

    def __init__(self) -> None:
        self.graces = self.rests = 0

    async def sleep(self, duration_s: float) -> None:
        if duration_s == STREAM_GRACE_S:
            self.graces += 1
        else:
            self.rests += 1
            await super().sleep(duration_s)


@pytest.mark.parametrize(
    ("live", "graces", "reason"),
    [((), 0, "command_failed"), ((record(2, fatal(1)),), 1, "silent_stream")],
    ids=["no stream", "an open one that brought less"],
)
async def test_only_an_open_stream_is_given_a_moment_to_bring_what_the_scan_found(
    tmp_path: Path, live: tuple[bytes, ...], graces: int, reason: str
) -> None:
    machine, ledger, clock = Machine(*live, shown_later=3), Ledger(), CountingClock()
    async with ssh_host(tmp_path, machine.serve) as host:
        watch = KernelLogCheck(host, matcher(), clock)
        async with following(watch, ledger):
            await until(lambda: ledger.results or clock.rests, 10)
            result = await scan(watch)
    assert condition(result).reason == "ok"
    assert [one.reason for one in result.observations if one.key == "follow/lab"] == [reason]
    assert clock.graces == graces


@pytest.mark.parametrize("wanted", [True, False])
def test_a_host_is_followed_live_if_its_configuration_says_so(tmp_path: Path, wanted: bool) -> None:
    host = replace(settings(tmp_path, 22), kernel_log=KernelLogSettings(follow=wanted))
    assert check(host).live is wanted
