"""The live stream beside the scan, over a real sshd: quick, never twice, and never quietly dead."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.journal_files import MISSED_ID, SECOND, Journal
from tests.support.kernel_log_checks import (
    Ledger,
    check,
    condition,
    fatal,
    fatals,
    following,
    found,
    matcher,
    scan,
    until,
)
from tests.support.sshd import RealHost, real_host
from watchdog.checks import kernel_stream
from watchdog.checks.kernel_log import KernelLogCheck
from watchdog.clock import SystemClock
from watchdog.errors import StoreError
from watchdog.model import CheckResult, Observation, Verdict
from watchdog.ssh import session

pytestmark = pytest.mark.real


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    """A machine whose boot began five minutes ago."""
    with real_host(tmp_path / "lab") as machine:
        log = machine.journal(wall_us=int((time.time() - 300) * SECOND))
        log.kernel(machine.boot, 1 * SECOND, "Linux version 6.17")
        machine.plant(log)
        yield machine


def journal(host: RealHost) -> Journal:
    return host.journal(wall_us=int((time.time() - 300) * SECOND))


def log_line(host: RealHost, stamp_s: float, *messages: str) -> None:
    """Let the machine's kernel print `messages`."""
    log = journal(host)
    for number, message in enumerate(messages):
        log.kernel(host.boot, int(stamp_s * SECOND) + number, message)
    host.plant(log)


def stream_condition(result: CheckResult) -> Observation:
    return next(observation for observation in result.observations if observation.key == "follow/lab")


def processes(name: str, of: int) -> list[int]:
    """Pids of descendants of `of` whose command line holds `name`."""
    pids = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for child in map(int, Path(f"/proc/{of}/task/{of}/children").read_text().split()):
            if name.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                pids.append(child)
            pids += processes(name, child)
    return pids


def streams(host: RealHost) -> list[int]:
    """Pids of the host's live readers; one that ends while we look is none."""
    found = []
    for pid in processes("journalctl", host.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            follows = b"-f\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if follows and Path(f"/proc/{pid}/comm").read_text().strip() == "journalctl":
                found.append(pid)
    return found


def signal_sessions(host: RealHost, number: signal.Signals) -> list[int]:
    """Send a signal to every process that serves a connection; returns their pids."""
    pids = [pid for session in host.sessions() for pid in (*processes("sshd", session), session)]
    for pid in pids:
        with suppress(ProcessLookupError):  # a child that ended with its parent
            os.kill(pid, number)
    return pids


async def test_a_line_is_committed_at_once_and_the_scan_does_not_repeat_it(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        started = time.monotonic()
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1))
        assert ledger.at[0] - started < 2.0
        result = await scan(watch)
    assert condition(result).reason == "ok"
    assert stream_condition(result).verdict is Verdict.PASS
    assert found(result) == {}


async def test_a_good_stream_that_ends_has_the_host_and_its_servers_looked_at_at_once(
    host: RealHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_stream, "GOOD_AFTER_S", 0.5)
    watch = KernelLogCheck(host.settings(), matcher(), SystemClock(), wakes=("generation/deepseek",))
    asked: list[tuple[str, ...]] = []

    async def commit(result: CheckResult) -> None:
        asked.append(result.run_now)

    following = asyncio.create_task(watch.follow(commit, None))
    try:
        await until(lambda: streams(host))
        await asyncio.sleep(1)
        assert asked == []
        signal_sessions(host, signal.SIGKILL)
        await until(lambda: asked)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert asked[0] == ("kernel_log/lab", "generation/deepseek")


async def test_lines_of_one_record_are_told_together(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    bdf = "0000:00:03.0"
    async with following(watch, ledger):
        await until(lambda: streams(host))
        log_line(
            host,
            100,
            f"pcieport {bdf}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
            f"pcieport {bdf}:   device [8086:6f08] error status/mask=00004020/00000000",
            f"pcieport {bdf}:    [14] CmpltTO                (First)",
        )
        await until(lambda: ledger.results)
    assert len(ledger.results) == 1
    assert f"pcie.aer.fatal/{bdf}" in ledger.found


async def test_scan_and_stream_never_count_the_same_line_twice(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        for number in range(1, 13):
            log_line(host, 100 + number, fatal(number))
            result = await scan(watch)
            ledger.results.append(result)
        await asyncio.sleep(0.5)
    assert ledger.found == fatals(*range(1, 13))


async def test_a_session_that_is_killed_is_taken_up_where_it_was(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1))
        signal_sessions(host, signal.SIGKILL)
        log_line(host, 101, fatal(2))
        await until(lambda: ledger.found == fatals(1, 2))
        await until(lambda: streams(host))
        log_line(host, 102, fatal(3))
        await until(lambda: ledger.found == fatals(1, 2, 3))


async def test_a_reader_that_hears_no_beats_ends_and_one_that_hears_them_stays(
    host: RealHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the network is cut, the connection stands for hours; the reader on the host must not."""
    quick = session.script().replace(b"timeout 30 head", b"timeout 3 head")
    monkeypatch.setattr(session, "script", lambda: quick)
    monkeypatch.setattr(session, "BEAT_S", 0.5)
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        first = streams(host)
        await asyncio.sleep(6)
        assert streams(host) == first
        monkeypatch.setattr(session, "BEAT_S", 1e6)
        await until(lambda: first[0] not in streams(host), 20)
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1))


async def test_an_sshd_that_restarts_is_taken_up_where_it_was(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        host.stop()
        log_line(host, 101, fatal(1))
        host.start()
        await until(lambda: ledger.found == fatals(1))


async def test_a_reboot_is_told_with_the_tail_of_the_boot_before(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        signal_sessions(host, signal.SIGKILL)
        log_line(host, 101, fatal(1))
        host.set_boot("7" + "0" * 31)
        log_line(host, 1, "Linux version 6.17", fatal(2))
        rebooted = {f"host.rebooted/{host.boot}": 1}
        await until(lambda: ledger.found == {**fatals(1, 2), **rebooted})
        await until(lambda: streams(host))
        log_line(host, 2, fatal(3))
        await until(lambda: ledger.found == {**fatals(1, 2, 3), **rebooted})
    assert found(await scan(watch)) == {}


async def test_lost_lines_are_told_by_the_stream(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        log = journal(host)
        log.driver(host.boot, 100 * SECOND, "Missed 12 kernel messages", MISSED_ID)
        host.plant(log)
        await until(lambda: ledger.found == {"log.incomplete/-": 12})
        assert found(await scan(watch)) == {}


async def test_an_open_but_silent_stream_is_a_fault_and_costs_no_line(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1))
        (frozen,) = streams(host)
        os.kill(frozen, signal.SIGSTOP)
        log_line(host, 101, fatal(2))
        result = await scan(watch)
        assert condition(result).reason == "ok"
        assert found(result) == fatals(2)
        assert stream_condition(result).reason == "silent_stream"
        assert stream_condition(result).verdict is Verdict.FAIL
        os.kill(frozen, signal.SIGCONT)
        await until(lambda: streams(host) and frozen not in streams(host))
        log_line(host, 102, fatal(3))
        await until(lambda: ledger.found == fatals(1, 3))
        assert stream_condition(await scan(watch)).reason == "ok"


async def test_a_stream_that_brought_a_scans_login_must_bring_the_next_ones(host: RealHost) -> None:
    def uptime_s() -> float:
        return float(Path("/proc/uptime").read_text().split()[0])

    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: watch._log.stream.open)
        assert stream_condition(await scan(watch)).reason == "ok"
        log, noted = journal(host), uptime_s() + 2.0
        log.login(host.boot, int(noted * SECOND), host.settings().user)
        log.login(host.boot, int(noted * SECOND) + 1, "somebody-else")
        host.plant(log)
        await until(lambda: watch._log.stream.login_us == int(noted * SECOND))
        assert stream_condition(await scan(watch)).reason == "ok"
        assert watch._log.stream.brings_logins
        await until(lambda: uptime_s() > noted + 1.0)
        (frozen,) = streams(host)
        os.kill(frozen, signal.SIGSTOP)
        result = await scan(watch)
        assert (condition(result).reason, found(result)) == ("ok", {})
        assert stream_condition(result).reason == "silent_stream"
        assert "own login" in stream_condition(result).summary
        os.kill(frozen, signal.SIGCONT)
        await until(lambda: watch._log.stream.open and frozen not in streams(host))
        assert stream_condition(await scan(watch)).reason == "ok", "what never came over this stream is not owed"


async def test_a_stream_that_cannot_connect_is_named_in_the_scan(host: RealHost) -> None:
    watch, ledger = check(host.settings(user="root")), Ledger()
    for path in (host.root / "journal" / host.machine_id).iterdir():
        path.unlink()
    async with following(watch, ledger):
        await asyncio.sleep(1.0)
        result = await scan(watch)
    assert condition(result).reason == "ok"  # through the ring buffer
    assert "/dev/kmsg" in condition(result).summary


async def test_what_could_not_be_stored_is_not_lost(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger) as task:
        await until(lambda: streams(host))
        ledger.refuse = 1
        log_line(host, 100, fatal(1))
        await until(task.done)
        with pytest.raises(StoreError):
            await task
    result = await scan(watch)
    assert found(result) == fatals(1)


async def test_killed_after_a_commit_the_next_process_repeats_nothing(host: RealHost) -> None:
    ledger = Ledger()
    async with following(check(host.settings()), ledger):
        await until(lambda: streams(host))
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1))
    log_line(host, 101, fatal(2))
    result = await scan(check(host.settings()), ledger.memory)
    assert found(result) == fatals(2)


async def test_nothing_stays_behind_on_the_host_when_the_watchdog_goes(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        pids = streams(host)
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


async def test_a_flood_on_the_stream_is_worked_off_in_pages(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        log = journal(host)
        for number in range(12_000):
            log.kernel(host.boot, 100 * SECOND + number * 100, f"labdrv 0000:41:00.0: filler {number}")
        log.kernel(host.boot, 110 * SECOND, fatal(1))
        host.plant(log)
        await until(lambda: ledger.found == fatals(1), 30)
        result = await scan(watch)
    assert condition(result).reason == "ok"
    assert found(result) == {}


@pytest.mark.slow
@pytest.mark.alone
async def test_a_machine_that_freezes_ends_the_stream_within_twenty_seconds(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    async with following(watch, ledger):
        await until(lambda: streams(host))
        sessions = signal_sessions(host, signal.SIGSTOP)
        started = time.monotonic()
        log_line(host, 100, fatal(1))
        await until(lambda: ledger.found == fatals(1), 25)
        took = time.monotonic() - started
        for pid in sessions:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    print(f"frozen connection given up and taken up again after {took:.1f} s")
    assert took < 20


@pytest.mark.alone
async def test_latency_from_journal_to_commit_stays_far_below_two_seconds(host: RealHost) -> None:
    watch, ledger = check(host.settings()), Ledger()
    latencies = []
    async with following(watch, ledger):
        await until(lambda: streams(host))
        for number in range(1, 11):
            log_line(host, 100 + number, fatal(number))
            written = time.monotonic()
            await until(lambda number=number: len(ledger.found) == number)  # type: ignore[misc]  # bound now
            latencies.append(ledger.at[-1] - written)
    print(f"journal line to commit: p50 {statistics.median(latencies):.3f} s, max {max(latencies):.3f} s")
    assert max(latencies) < 2.0


@pytest.mark.slow
@pytest.mark.alone
async def test_a_line_of_the_real_kernel_comes_through_a_real_journald_within_two_seconds(tmp_path: Path) -> None:
    switch = Path("/proc/sys/debug/exception-trace")
    if not switch.exists() or switch.read_text().strip() != "1":
        pytest.skip("this kernel does not report crashed programs; set debug.exception-trace to 1")
    latencies: list[float] = []
    with real_host(tmp_path / "lab", journald=True) as machine:
        watch, ledger = check(machine.settings()), Ledger()
        async with following(watch, ledger):
            await until(lambda: streams(machine))
            seen = ledger.found.get("segfault/-", 0)
            for number in range(1, 9):
                await asyncio.sleep(0.7)  # the kernel prints at most ten of these in five seconds
                crash = await asyncio.create_subprocess_exec(
                    "python3", "-S", "-c", "import ctypes; ctypes.string_at(0)", stderr=asyncio.subprocess.DEVNULL
                )
                assert await crash.wait() == -signal.SIGSEGV
                printed = time.monotonic()  # starting the program does not count; the kernel speaks as it ends
                await until(lambda expected=seen + number: ledger.found.get("segfault/-", 0) >= expected)  # type: ignore[misc]  # bound now
                latencies.append(ledger.at[-1] - printed)
            result = await scan(watch)
    print(
        f"kernel line to commit through journald: p50 {statistics.median(latencies):.3f} s, max {max(latencies):.3f} s"
    )
    assert condition(result).reason == "ok"
    assert found(result) == {}
    assert ledger.found["segfault/-"] == seen + 8
    assert max(latencies) < 2.0
