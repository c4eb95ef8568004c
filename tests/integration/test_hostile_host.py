"""A host that floods its live stream harms nobody else: it costs little, its scans go on, and it is told."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncssh
import pytest

from tests.support.journal_files import SECOND
from tests.support.kernel_log_checks import Ledger, check, condition, fatal, fatals, following, found, scan, until
from tests.support.scripted_ssh_hosts import HEADER, HELLO, ssh_host
from tests.support.sshd import RealHost, real_host
from watchdog.checks.kernel_stream import Allowance
from watchdog.config import HostSettings
from watchdog.model import Verdict
from watchdog.ssh import session

FLOODS = {
    "newlines": "tr '\\0' '\\n' </dev/zero",
    "long lines in small pieces": "while :; do dd if=/dev/zero bs=100 count=10485 2>/dev/null | tr '\\0' x; echo; done",
    "records that are none": """yes '{"a":{"a":{"a":{"a":[[[[[[[[]]]]]]]]}}}}'""",
    "complaints": "yes >&2",
}
HOSTILE = """#!/bin/sh
case $SSH_ORIGINAL_COMMAND in "read1 follow "*)
    printf '\\nINFERENCE-WATCHDOG-READER 1 request=follow boot=%s\\n' "$(tr -d - </proc/sys/kernel/random/boot_id)"
    {flood} ;;
esac
exec /run/lab/reader.real
"""
TICK_S = 0.02
TICKER = """
import time
late = []
while len(late) < 150:
    due = time.monotonic() + 0.02
    time.sleep(0.02)
    late.append(time.monotonic() - due)
print(sorted(late)[-2])
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    with real_host(tmp_path / "lab") as machine:
        log = machine.journal(wall_us=int((time.time() - 300) * SECOND))
        log.kernel(machine.boot, 1 * SECOND, "Linux version 6.17")
        machine.plant(log)
        yield machine


def hostile(host: RealHost, flood: str) -> HostSettings:
    """The host's installed reader floods the stream; every other request is answered as it should be."""
    reader = host.root / "lab/reader"
    reader.rename(reader.with_name("reader.real"))
    reader.write_text(HOSTILE.replace("{flood}", flood))
    reader.chmod(0o755)
    return host.settings(identity_file=str(host.forced_key), forced_command=True)


async def lateness(samples: int = 150) -> float:
    """How late the loop came back from short sleeps, as the second worst of so many."""
    late = []
    for _ in range(samples):
        due = time.monotonic() + TICK_S
        await asyncio.sleep(TICK_S)
        late.append(time.monotonic() - due)
    return sorted(late)[-2]


@pytest.mark.real
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_over_a_real_sshd_delays_nobody_rests_and_is_told(
    host: RealHost, flood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Allowance, "BYTES", 16 << 20)
    monkeypatch.setattr(Allowance, "CPU_S", 1.5)
    watch, ledger = check(hostile(host, flood)), Ledger()
    machine = await asyncio.create_subprocess_exec(sys.executable, "-c", TICKER, stdout=asyncio.subprocess.PIPE)
    async with following(watch, ledger):
        late_s = await lateness()
        busy_s = float((await machine.communicate())[0])
        print(f"lateness p99 {late_s * 1e3:.1f} ms, of this machine's own scheduler {busy_s * 1e3:.1f} ms")
        assert late_s < 0.1 + busy_s
        await until(lambda: watch._log.stream.flood, 60)
        cost_s = time.process_time()
        log = host.journal(wall_us=int((time.time() - 300) * SECOND))
        log.kernel(host.boot, 100 * SECOND, fatal(1))
        host.plant(log)
        result = await scan(watch)
        cost_s = time.process_time() - cost_s
    assert condition(result).reason == "ok"
    assert found(result) == fatals(1)
    stream = next(seen for seen in result.observations if seen.key == "follow/lab")
    assert (stream.verdict, stream.reason) == (Verdict.FAIL, "flood")
    assert "rests for 60 s" in stream.summary
    assert cost_s < 1.0, "the stream rests"


async def test_an_answer_in_small_pieces_is_taken_in_small_steps_and_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: 256 KiB of packets of 100 bytes in one step, and a page for a server that was well."""
    monkeypatch.setattr(session, "ANSWER_CPU_S", 0.3)
    steps: list[int] = []
    note = session.Session._note

    def noted(self: session.Session, count: int, cpu_s: float) -> None:
        steps.append(count)
        note(self, count, cpu_s)

    monkeypatch.setattr(session.Session, "_note", noted)

    async def drip(process: asyncssh.SSHServerProcess[bytes]) -> None:
        if "hello" in (process.command or ""):
            process.stdout.write(HELLO)
            process.exit(0)
            return
        process.stdout.write(HEADER)
        with suppress(BrokenPipeError, ConnectionError):
            while True:
                for _ in range(100):
                    process.stdout.write(b"x" * 100)
                await process.stdout.drain()
                await asyncio.sleep(0)

    async with ssh_host(tmp_path, drip) as lab:
        result = await scan(check(lab))
    assert condition(result).reason == "flood"
    assert "small pieces" in condition(result).summary
    assert max(steps) <= session.STEP_BYTES


def test_a_stream_that_only_prints_much_for_a_moment_is_no_flood() -> None:
    now = 0.0
    allowance = Allowance(lambda: now)
    for _ in range(3600):
        now += 1.0
        allowance.spend(300 << 10, 0.1)
    assert not allowance.used_up.is_set()
    assert allowance.rest_s == 0.0
    allowance.spend(Allowance.BYTES, 0.0)
    assert allowance.used_up.is_set()
    now += allowance.rest_s
    allowance.spend(0, 0.0)
    assert not allowance.used_up.is_set()
