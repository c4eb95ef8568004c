"""`vitals/<host>` through real SSH and the real reader script, with an `nvidia-smi` that works and with broken ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.support.clock import ManualClock
from tests.support.kernel_log_checks import condition, matcher, stored
from tests.support.ras_answers import lines_of, recorded
from tests.support.scripted_ssh_hosts import END, HEADER, Answered, scripted, ssh_host
from watchdog.checks.kernel_log import KernelLogCheck
from watchdog.checks.vitals import TROUBLED_S, VitalsCheck, vitals_to_run_now
from watchdog.clock import SystemClock
from watchdog.config import HostSettings, KernelLogSettings, Size, VitalsSettings
from watchdog.demo.hosts import USER, Machine
from watchdog.model import Check, CheckResult, Observation, Severity, Verdict
from watchdog.vitals import Load, loads_of

GB10 = "echo '0, NVIDIA GB10, {util}, {power}, 41, [N/A], [N/A], 0'"


@asynccontextmanager
async def machine(root: Path, nvidia_smi: str | None) -> AsyncIterator[tuple[Machine, HostSettings]]:
    """A pretended machine whose `nvidia-smi` runs this shell line; None: it has none."""
    (root / "machine").mkdir()
    pretended = Machine("head", root / "machine")
    if nvidia_smi is not None:
        program = root / "machine/bin/nvidia-smi"
        program.write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        program.chmod(0o755)
    client, host = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    client.write_private_key(root / "id")
    await pretended.start(host, client)
    known = host.export_public_key().decode().strip()
    (root / "known_hosts").write_text(f"[127.0.0.1]:{pretended.port} {known}\n")
    try:
        yield pretended, settings(root, pretended.port)
    finally:
        await pretended.stop()


def settings(root: Path, port: int, **vitals: float) -> HostSettings:
    return HostSettings(
        name="head",
        address="127.0.0.1",
        port=port,
        user=USER,
        identity_file=str(root / "id"),
        known_hosts=str(root / "known_hosts"),
        kernel_log=KernelLogSettings(timeout_s=20),
        vitals=VitalsSettings(**vitals),  # type: ignore[arg-type]  # only numbers of seconds are passed
    )


async def vitals(host: HostSettings, memory: object = None) -> tuple[Observation, CheckResult]:
    result = await VitalsCheck(host, SystemClock()).run(memory, SystemClock().wall())
    (seen,) = result.observations
    return seen, result


async def test_a_healthy_gb10_gives_memory_pressure_gpu_and_clock(tmp_path: Path) -> None:
    async with machine(tmp_path, GB10.format(util=0, power=11.17)) as (_, host):
        seen, result = await vitals(host)
    assert (seen.key, seen.verdict, seen.reason) == ("vitals/head", Verdict.PASS, "ok")
    numbers = seen.measurements
    assert (numbers["gpu0_util"], numbers["gpu0_power_w"], numbers["gpu_wedged"]) == (0, 11.17, 0)
    assert numbers["memory_available_bytes"] == 24000000 * 1024
    assert numbers["memory_some_avg10"] == 0
    assert abs(numbers["clock_offset_s"]) < 2
    assert not [name for name in numbers if "memory_used" in name]
    assert "22.9 GiB of 119.2 GiB memory available; GPU 0 0 % at 11 W" in seen.summary
    assert result.memory == {"power": {"0 NVIDIA GB10": [[11.2], []]}, "available": [[pytest.approx(seen.at, abs=1),
                             24000000 * 1024]]}  # fmt: skip


async def test_a_full_gpu_is_looked_at_three_times(tmp_path: Path) -> None:
    count = f"echo x >>{tmp_path}/calls; " + GB10.format(util=96, power=20)
    async with machine(tmp_path, count) as (_, host):
        seen, _ = await vitals(host, {"power": {"0 NVIDIA GB10": [[11] * 9, [45] * 9]}})
    assert (tmp_path / "calls").read_text().count("x") == 3
    assert [one.load for one in loads_of(seen.measurements)] == [Load.SPINNING]
    assert "GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work)" in seen.summary


BROKEN = {
    "hangs and ignores signals": ("trap '' TERM INT HUP\nwhile :; do sleep 1; done", "nvidia-smi gave no answer", 16.0),
    "takes 20 s": ("exec sleep 20", "nvidia-smi gave no answer within 8 s", 12.0),
    "fails": ("echo 'NVIDIA-SMI has failed because it could not talk to the driver'; exit 9", "nvidia-smi failed", 5.0),
    "prints [N/A]": ("echo '0, NVIDIA GB10, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]'", "utilisation unknown", 5.0),
    "is missing": (None, "memory available", 5.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.alone
async def test_a_broken_nvidia_smi_delays_neither_the_look_nor_the_scan(tmp_path: Path, how: str) -> None:
    line, words, limit_s = BROKEN[how]
    async with machine(tmp_path, line) as (_, host):
        scan = KernelLogCheck(host, matcher(), SystemClock())
        started = time.monotonic()
        looking = asyncio.create_task(vitals(host))
        scanned = await scan.run(None, SystemClock().wall())
        scan_s = time.monotonic() - started
        seen, _ = await looking
        look_s = time.monotonic() - started
    assert condition(scanned).verdict is Verdict.PASS
    assert scan_s < 5
    assert look_s < limit_s
    assert seen.verdict is Verdict.PASS
    assert words in seen.summary
    assert "gpu0_util" not in seen.measurements
    assert seen.measurements["memory_available_bytes"] > 0


async def test_an_nvidia_smi_that_hangs_in_the_driver_is_told_and_gets_no_second_one(tmp_path: Path) -> None:
    """State D cannot be made here, so the machine's /proc shows one."""
    count = f"echo x >>{tmp_path}/calls"
    async with machine(tmp_path, count) as (_, host):
        stuck = tmp_path / "machine/proc/4242"
        stuck.mkdir()
        (stuck / "comm").write_text("nvidia-smi\n")
        (stuck / "status").write_text("Name:\tnvidia-smi\nState:\tD (disk sleep)\n")
        seen, _ = await vitals(host)
    assert not (tmp_path / "calls").exists()
    assert seen.measurements["gpu_wedged"] == 1
    assert "an earlier nvidia-smi still hangs in the driver" in seen.summary


async def test_an_answer_is_over_with_its_trailer_though_the_channel_stays_open(tmp_path: Path) -> None:
    """So it looks when a child in state D keeps the reader's output open."""

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(HEADER + b"MemAvailable_kib=5\ngpu_rc=hung\n" + END)
        await asyncio.sleep(20)

    async with ssh_host(tmp_path, serve) as host:
        started = time.monotonic()
        seen, _ = await vitals(replace(host, forced_command=True))
        assert time.monotonic() - started < 5
    assert (seen.verdict, seen.measurements["gpu_wedged"]) == (Verdict.PASS, 1)
    assert "nvidia-smi hangs" in seen.summary


@pytest.mark.parametrize(
    "answer",
    [
        Answered(b"", b"", 127),
        Answered(HEADER + b"MemAvailable_kib=5\n"),
        Answered(HEADER + b"INFERENCE-WATCHDOG-READER END rc=64 why=bad-request\n", b"", 64),
        Answered(b"x" * (2 << 20)),
        Answered(HEADER + b"MemAvailable_kib=5\n", b"", None),
    ],
    ids=["did not run", "cut short", "refused", "endless", "dropped"],
)
async def test_what_is_no_complete_answer_is_unknown_never_a_figure(tmp_path: Path, answer: Answered) -> None:
    async with ssh_host(tmp_path, scripted({"vitals": answer})) as host:
        seen, result = await vitals(replace(host, forced_command=True))
    assert (seen.verdict, seen.severity) == (Verdict.UNKNOWN, Severity.INFO)
    assert not seen.measurements
    assert result.memory is None
    assert seen.advice or seen.summary


async def test_a_host_that_cannot_be_reached_is_unknown(tmp_path: Path) -> None:
    async with machine(tmp_path, None) as (pretended, host):
        await pretended.stop()
        seen, _ = await vitals(host)
    assert (seen.verdict, seen.reason) == (Verdict.UNKNOWN, "refused")


async def test_the_clock_of_the_host_is_compared_with_ours(tmp_path: Path) -> None:
    late = HEADER.replace(b"now=1795000000", f"now={int(SystemClock().wall()) - 70}".encode())
    answer = Answered(late + b"gpu_rc=none\n" + END)
    async with ssh_host(tmp_path, scripted({"vitals": answer})) as host:
        seen, _ = await vitals(replace(host, forced_command=True))
    assert seen.measurements["clock_offset_s"] == pytest.approx(-70, abs=2)


async def test_less_memory_than_wanted_is_a_warning(tmp_path: Path) -> None:
    async with machine(tmp_path, None) as (_, host):
        enough, _ = await vitals(replace(host, vitals=VitalsSettings(memory_available_min=Size(2 << 30))))
        low, _ = await vitals(replace(host, vitals=VitalsSettings(memory_available_min=Size(30 << 30))))
    assert enough.verdict is Verdict.PASS
    assert (low.verdict, low.reason, low.severity) == (Verdict.FAIL, "low_memory", Severity.WARN)
    assert "less than the 30.0 GiB wanted" in low.statement


@pytest.mark.parametrize(
    ("name", "available_kib", "verdict"),
    [
        ("NVIDIA GB10", 3 << 20, Verdict.FAIL),
        ("Orin (nvgpu)", 3 << 20, Verdict.FAIL),
        ("NVIDIA GB10", 5 << 20, Verdict.PASS),
        ("NVIDIA H200", 3 << 20, Verdict.PASS),
    ],
)
async def test_a_gpu_that_shares_the_memory_has_a_floor_of_its_own(
    tmp_path: Path, name: str, available_kib: int, verdict: Verdict
) -> None:
    data = f"MemTotal_kib=125000000\nMemAvailable_kib={available_kib}\ngpu=0, {name}, 96, 45, 61, [N/A], [N/A], 30\n"
    answer = Answered(HEADER + data.encode() + b"gpu_rc=done\n" + END)
    async with ssh_host(tmp_path, scripted({"vitals": answer})) as host:
        seen, _ = await vitals(replace(host, forced_command=True))
    assert seen.verdict is verdict


def failed(key: str = "generation/deepseek", verdict: Verdict = Verdict.FAIL, at: float = 1.0) -> Observation:
    labels = {"server": "deepseek"}
    return Observation(key=key, verdict=verdict, reason="x", severity=Severity.PAGE, summary="x", at=at, labels=labels)


async def test_a_failed_probe_asks_for_the_vitals_of_its_hosts_once(tmp_path: Path) -> None:
    async with machine(tmp_path, None) as (_, host):
        check = VitalsCheck(host, SystemClock())
        running: dict[str, Check] = {check.key: check}
        runs_on = {"deepseek": ("head", "unknown")}
        assert vitals_to_run_now(failed(verdict=Verdict.PASS), runs_on, running.get) == []
        assert vitals_to_run_now(failed("kernel_log/head"), runs_on, running.get) == []
        assert vitals_to_run_now(failed(), {}, running.get) == []
        assert vitals_to_run_now(failed(), runs_on, running.get) == ["vitals/head"]
        now = SystemClock().wall()
        await check.run(None, now)
        assert vitals_to_run_now(failed(at=now - 1), runs_on, running.get) == []


NCCL = HEADER + b"".join(b"%s\n" % line for line in lines_of(recorded("json")["skip-3s"])) + END
OLDER = b"\nINFERENCE-WATCHDOG-READER END rc=64 why=bad-request\n"


@asynccontextmanager
async def counted(root: Path, nccl: Answered) -> AsyncIterator[tuple[VitalsCheck, list[str], ManualClock]]:
    """A check of a host whose NCCL gives this answer, and the requests that were asked."""
    asked: list[str] = []
    serve = scripted({"vitals": Answered(HEADER + b"gpu_rc=none\n" + END), "nccl": nccl})

    async def count(process: asyncssh.SSHServerProcess[bytes]) -> None:
        asked.append((process.command or "").split()[-1])
        await serve(process)

    clock = ManualClock()
    async with ssh_host(root, count) as host:
        yield VitalsCheck(replace(host, forced_command=True), clock), asked, clock


async def test_nccl_is_asked_twice_after_a_probe_without_an_answer_and_never_else(tmp_path: Path) -> None:
    async with counted(tmp_path, Answered(NCCL)) as (check, asked, clock):
        await check.run(None, clock.wall())
        await clock.advance(60)
        assert check.note_failed_probe(clock.wall())
        await check.run(None, clock.wall())
        assert asked == ["vitals", "vitals"]
        await clock.advance(60)
        assert check.note_failed_probe(clock.wall(), unanswered=True)
        first = await check.run(None, clock.wall())
        assert (asked[2:], first.again_in_s) == (["vitals", "nccl"], 10.0)
        assert first.observations[0].evidence == ()
        await clock.advance(4)
        early = await check.run(None, clock.wall())
        assert (asked[4:], early.again_in_s) == (["vitals"], 6.0), "not before its time, whoever wants vitals meanwhile"
        await clock.advance(6)
        second = await check.run(None, clock.wall())
        assert (asked[5:], second.again_in_s) == (["nccl", "vitals"], None)
        (fact,) = second.observations[0].evidence
        assert fact.source == "lab NCCL"
        assert fact.text == "rank 1 (lab) has not launched AllReduce 2692; rank 0 waits in it"
        assert second.observations[0].measurements["nccl_mismatch"] == 1
        assert second.observations[0].verdict is Verdict.PASS, "never an alert of its own"
        await clock.advance(60)
        later = await check.run(None, clock.wall())
        assert later.observations[0].evidence == ()
        assert asked[7:] == ["vitals"]


@pytest.mark.parametrize(
    "answer", [Answered(OLDER, b"", 64), Answered(HEADER + b"nccl_rc=nobody\n" + END)], ids=["older reader", "no NCCL"]
)
async def test_a_host_that_knows_nothing_of_nccl_is_asked_once_and_its_vitals_are_well(
    tmp_path: Path, answer: Answered
) -> None:
    async with counted(tmp_path, answer) as (check, asked, clock):
        check.note_failed_probe(clock.wall(), unanswered=True)
        result = await check.run(None, clock.wall())
        assert (asked, result.again_in_s) == (["vitals", "nccl"], None)
        (seen,) = result.observations
        assert (seen.verdict, seen.evidence, seen.detail) == (Verdict.PASS, (), "")


async def test_a_look_serves_for_probes_that_began_before_it_and_not_for_later_ones() -> None:
    clock = ManualClock()
    check = VitalsCheck(settings(Path(), 1), clock)
    await check.run(None, clock.wall())  # refused at once: a look that failed is a look
    began = clock.wall()
    await clock.advance(6)
    assert not check.note_failed_probe(began - 60)
    assert check.note_failed_probe(began + 1)
    await clock.advance(10)
    assert check.note_failed_probe(began - 60)


async def test_nothing_is_learned_while_a_server_on_the_host_fails(tmp_path: Path) -> None:
    async with machine(tmp_path, GB10.format(util=0, power=30)) as (_, host):
        check = VitalsCheck(host, SystemClock())
        check.note_failed_probe(0.0)
        result = await check.run(None, SystemClock().wall())
    remembered = stored(result)
    assert remembered["power"] == {}
    assert TROUBLED_S > 300
