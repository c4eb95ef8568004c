"""A journal that is not written is never called clean, by the scan or for the stream beside it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncssh

from tests.support.kernel_log_checks import check, condition, scan
from tests.support.scripted_ssh_hosts import BOOT, END, HEADER, HELLO, Answered, scripted, ssh_host
from watchdog.checks import kernel_log
from watchdog.checks.reader_client import ask_hello
from watchdog.model import Verdict
from watchdog.ssh import reading

LINE = (
    b'{"__CURSOR":"s=1;i=1","_BOOT_ID":"' + BOOT.encode() + b'","__REALTIME_TIMESTAMP":"1795000000000000",'
    b'"__MONOTONIC_TIMESTAMP":"1000000","_SOURCE_MONOTONIC_TIMESTAMP":"1000000","_TRANSPORT":"kernel",'
    b'"SYSLOG_FACILITY":"0","SYSLOG_IDENTIFIER":"kernel","PRIORITY":"6","MESSAGE":"Linux version 6.17"}\n'
)


def greeting(journald: str, age_s: float) -> Answered:
    now = time.time()
    newest = f"journald={journald}\nnewest_us={int((now - age_s) * 1e6)} looked={int(now)}\n".encode()
    return Answered(HELLO.removesuffix(END) + newest + END)


async def test_a_scan_of_a_journal_that_is_not_written_fails_until_it_is_again(tmp_path: Path) -> None:
    answers = {"hello": greeting("running", 0.0), "journal": Answered(HEADER + LINE + END)}
    async with ssh_host(tmp_path, scripted(answers)) as host:
        watch = check(host)
        assert condition(await scan(watch)).verdict is Verdict.PASS
        answers["hello"] = greeting("running", 300.0)
        stale = condition(await scan(watch))
        assert (stale.verdict, stale.reason) == (Verdict.FAIL, "stale")
        assert "the journal is not being written" in stale.summary
        answers["hello"] = greeting("running", 0.0)
        assert condition(await scan(watch)).verdict is Verdict.PASS


async def test_the_live_stream_beside_a_stale_journal_proves_nothing(tmp_path: Path) -> None:
    answers = {"hello": greeting("stopped", 300.0), "journal": Answered(HEADER + LINE + END)}
    async with ssh_host(tmp_path, scripted(answers)) as host:
        watch = check(host)
        watch._log.stream.wanted = watch._log.stream.open = True
        watch._log.stream.last_us = 1_000_000
        reading, stream = (await scan(watch)).observations[:2]
    assert reading.reason == stream.reason == "stale"
    assert (stream.key, stream.verdict) == ("follow/lab", Verdict.FAIL)


async def test_where_the_journal_is_kept_is_told_by_the_scan(tmp_path: Path) -> None:
    answers = {"journal": Answered(HEADER + LINE + END)}

    def kept(*lines: str) -> Answered:
        return Answered(HELLO.removesuffix(END) + "".join(f"{line}\n" for line in lines).encode() + END)

    async with ssh_host(tmp_path, scripted(answers)) as host:
        watch = check(host)
        answers["hello"] = kept("storage=/run/log/journal readable=yes free_kib=70000")
        assert "kept in memory only)" in condition(await scan(watch)).summary
        answers["hello"] = kept("storage=/run/log/journal readable=yes free_kib=70000", "disk_free_kib=0")
        assert "kept in memory only, as its disk is full)" in condition(await scan(watch)).summary
        answers["hello"] = kept("storage=/var/log/journal readable=yes free_kib=70000", "disk_free_kib=70000")
        assert condition(await scan(watch)).summary.endswith("(journal)")
        answers["hello"] = kept("storage=/var/log/journal readable=no free_kib=70000")
        assert condition(await scan(watch)).reason == "no_permission"


async def test_a_record_that_comes_a_moment_after_the_login_is_waited_for(tmp_path: Path) -> None:
    first = [greeting("gone", 300.0)]

    class Changing(dict[str, Answered]):
        def __getitem__(self, word: str) -> Answered:
            if word == "hello":
                return first.pop() if first else greeting("running", 0.0)
            return Answered(HEADER + LINE + END)

    assert kernel_log.SECOND_LOOK_S <= 2
    async with ssh_host(tmp_path, scripted(Changing())) as host:
        assert condition(await scan(check(host))).verdict is Verdict.PASS


async def test_a_greeting_that_takes_long_is_no_clock_that_goes_wrong(tmp_path: Path) -> None:
    async def slow(process: asyncssh.SSHServerProcess[bytes]) -> None:
        first, rest = HELLO.split(b"boots_rc")
        process.stdout.write(first)
        await process.stdout.drain()
        await asyncio.sleep(1.0)
        process.stdout.write(b"boots_rc" + rest)
        process.exit(0)

    async with ssh_host(tmp_path, slow) as host, reading(host, 5.0) as session:
        greeting = await ask_hello(session)
    assert 0.9 <= greeting.now - 1795000000 < 3
    assert 0.9 <= greeting.uptime_s - 9 < 3
