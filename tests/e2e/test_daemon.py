"""The daemon as a process, against the rig: strikes, kills, signals, reloads, bad starts."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.sshd import free_port
from watchdog.demo.hosts import FATAL_AER
from watchdog.demo.rig import Alert, Mode, Rig
from watchdog.store import Reader

pytestmark = pytest.mark.slow
QUICK_PROBE = "{interval: 1s, timeout: 0.8s}"
QUICK_SCAN = "{interval: 2s, timeout: 2s}"


@dataclass
class Night:
    rig: Rig
    daemon: DaemonProcess
    alerts: list[Alert]

    def titles(self, start: str) -> list[str]:
        return [alert.title for alert in self.alerts if alert.title.startswith(start)]

    def incident_ids(self, start: str) -> Counter[str]:
        ids = (a.message.rpartition("incident ")[2].split()[0] for a in self.alerts if a.title.startswith(start))
        return Counter(ids)


@pytest.fixture
async def night(tmp_path: Path) -> AsyncIterator[Night]:
    alerts: list[Alert] = []
    rig = Rig(tmp_path, alerts.append)
    await rig.start()
    config = rig.write_config(probe=QUICK_PROBE, kernel_log=QUICK_SCAN)
    daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log")
    await daemon.start()
    yield Night(rig, daemon, alerts)
    await daemon.kill()
    await rig.stop()


async def healthy(night: Night) -> None:
    for key in ("generation/deepseek", "kernel_log/head", "kernel_log/worker"):
        await until(lambda key=key: night.daemon.saw("observation", check=key, verdict="pass"), what=key)  # type: ignore[misc]


async def test_three_misses_give_exactly_one_trigger_and_recovery_exactly_one_resolve(night: Night) -> None:
    await healthy(night)
    night.rig.chat.mode = Mode.FROZEN
    await until(lambda: night.titles("FIRING deepseek"), what="the trigger")
    await asyncio.sleep(3)
    night.rig.chat.mode = Mode.OK
    await until(lambda: night.titles("RESOLVED deepseek"), what="the resolve")
    await asyncio.sleep(2)
    assert len(night.titles("FIRING deepseek")) == 1
    assert len(night.titles("RESOLVED deepseek")) == 1
    assert night.incident_ids("FIRING") == night.incident_ids("RESOLVED")


async def test_a_kernel_line_is_one_page_that_names_host_device_and_line(night: Night) -> None:
    await healthy(night)
    night.rig.machines["worker"].log(FATAL_AER[0])
    await until(lambda: night.titles("NEW worker"), what="the page")
    await asyncio.sleep(5)  # two more scans
    (alert,) = [alert for alert in night.alerts if alert.title.startswith("NEW")]
    assert "worker" in alert.title
    assert "0000:00:03.0" in alert.message
    assert FATAL_AER[0] in alert.message


async def test_kill_9_between_strikes_keeps_the_strikes(night: Night) -> None:
    await healthy(night)
    night.rig.chat.mode = Mode.FROZEN
    await until(lambda: strikes(night) > 0, what="a miss, noted")
    await night.daemon.kill()
    restarted_at = time.time()
    await night.daemon.start()
    await until(lambda: night.titles("FIRING deepseek"), what="the trigger after the restart")
    with Reader.open(night.daemon.state_dir) as reader:
        (incident,) = reader.snapshot(time.time()).open_incidents
    assert incident.since < restarted_at, "the strike from before the kill counts"
    night.rig.chat.mode = Mode.OK
    await until(lambda: night.titles("RESOLVED deepseek"), what="the resolve")
    assert len(night.titles("FIRING deepseek")) == 1


def strikes(night: Night) -> int:
    """The strikes that the daemon has noted against the server."""
    with Reader.open(night.daemon.state_dir) as reader:
        return next((v.state.fails for v in reader.snapshot(time.time()).keys if v.key == "generation/deepseek"), 0)


async def test_kill_9_while_firing_neither_repeats_the_trigger_nor_loses_the_resolve(night: Night) -> None:
    await healthy(night)
    night.rig.chat.mode = Mode.ERROR
    await until(lambda: night.titles("FIRING deepseek"), what="the trigger")
    await until(lambda: acknowledged(night, "FIRING"), what="our own note that it was delivered")
    await night.daemon.kill()
    await night.daemon.start()
    await asyncio.sleep(4)
    night.rig.chat.mode = Mode.OK
    await until(lambda: night.titles("RESOLVED deepseek"), what="the resolve")
    assert len(night.titles("FIRING deepseek")) == 1


def acknowledged(night: Night, kind: str) -> bool:
    """Whether the daemon has noted the delivery: killed before that, it must send again."""
    with Reader.open(night.daemon.state_dir) as reader:
        return any(view.kind.value == kind and view.is_done for view in reader.deliveries())


async def test_lines_printed_while_the_daemon_is_dead_are_told_once_when_it_is_back(night: Night) -> None:
    await healthy(night)
    await night.daemon.kill()
    night.rig.machines["head"].log(FATAL_AER[0])
    await night.daemon.start()
    await until(lambda: night.titles("NEW head"), what="the page")
    await until(lambda: acknowledged(night, "NEW"), what="our own note that it was delivered")
    await night.daemon.kill()
    await night.daemon.start()
    await asyncio.sleep(5)
    assert len(night.titles("NEW head")) == 1


async def test_sigterm_ends_it_within_five_seconds_though_a_probe_hangs(night: Night) -> None:
    await healthy(night)
    night.rig.chat.mode = Mode.FROZEN
    await asyncio.sleep(0.5)
    began = time.monotonic()
    assert await night.daemon.kill(signal.SIGTERM) == 0
    assert time.monotonic() - began < 5
    assert night.daemon.saw("stopped")


async def test_sighup_with_a_bad_file_keeps_the_old_configuration_and_says_so(night: Night) -> None:
    await healthy(night)
    good = night.daemon.config.read_text()
    night.daemon.config.write_text(good.replace("base_url", "base_ulr"))
    assert night.daemon.process is not None
    night.daemon.process.send_signal(signal.SIGHUP)
    await until(lambda: night.daemon.saw("reload_refused"), what="the refusal")
    assert any("base_ulr" in line.get("problem", "") for line in night.daemon.events())
    night.rig.chat.mode = Mode.FROZEN
    await until(lambda: night.titles("FIRING deepseek"), what="it still watches")


async def test_sighup_follows_a_renamed_server_and_new_receivers(night: Night) -> None:
    await healthy(night)
    text = night.daemon.config.read_text().replace("name: deepseek", "name: qwen").replace("name: phone", "name: pager")
    night.daemon.config.write_text(text)
    assert night.daemon.process is not None
    night.daemon.process.send_signal(signal.SIGHUP)
    await until(lambda: night.daemon.saw("observation", check="generation/qwen", verdict="pass"), what="the new name")
    night.rig.chat.mode = Mode.FROZEN
    await until(lambda: night.titles("FIRING qwen"), what="an alert through the new receiver")
    assert not night.titles("FIRING deepseek")


async def test_a_sighup_while_it_starts_does_not_end_it_and_is_a_reload_once_it_can_be(night: Night) -> None:
    directory = night.daemon.log.parent
    early = DaemonProcess(
        night.daemon.config, directory / "early", directory / "early.log", {"PYTHONPROFILEIMPORTTIME": "1"}
    )
    await early.start()
    try:
        await until(lambda: "watchdog.logs\n" in early.log.read_text(), what="it begins to load")
        assert not early.events()
        assert early.process is not None
        early.process.send_signal(signal.SIGHUP)
        await until(lambda: early.process.returncode is not None or early.saw("reloaded"), what="the reload")  # type: ignore[union-attr]  # started
        assert early.process.returncode is None
    finally:
        await early.kill()


async def test_a_second_daemon_on_the_same_state_is_refused_in_plain_words(night: Night) -> None:
    await healthy(night)
    done = await asyncio.to_thread(run, "run", "--config", night.daemon.config, "--state-dir", night.daemon.state_dir)
    assert done.returncode == 64
    assert "Traceback" not in done.stderr
    assert str(night.daemon.state_dir) in done.stderr


async def test_status_tells_pending_strikes_and_then_the_incident(night: Night) -> None:
    await healthy(night)
    night.rig.chat.mode = Mode.FROZEN
    await until(lambda: night.titles("FIRING deepseek"), what="the trigger")
    done = await asyncio.to_thread(run, "status", "--state-dir", night.daemon.state_dir)
    assert done.returncode == 2
    assert "firing" in done.stdout
    assert "generation/deepseek" in done.stdout
    assert "no_reply" in done.stdout


async def test_test_alert_goes_through_the_running_daemon(night: Night) -> None:
    await healthy(night)
    done = await asyncio.to_thread(
        run, "test-alert", "--config", night.daemon.config, "--state-dir", night.daemon.state_dir
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("delivered") == 2
    assert [alert.title.split()[0] for alert in night.alerts][:2] == ["FIRING", "RESOLVED"]


async def test_test_alert_beside_the_daemon_says_why_a_dead_receiver_got_nothing(night: Night) -> None:
    await healthy(night)
    config = night.daemon.config
    config.write_text(config.read_text().replace(night.rig.phone.url, f"json://127.0.0.1:{free_port()}/"))
    assert night.daemon.process is not None
    night.daemon.process.send_signal(signal.SIGHUP)
    await until(lambda: night.daemon.saw("reloaded"), what="the reload")
    where = ("--state-dir", night.daemon.state_dir)
    done = await asyncio.to_thread(run, "test-alert", "--config", config, *where, "--timeout", "12")
    assert done.returncode == 2
    assert "waiting for phone, 5 s so far" in done.stderr
    (why,) = [line for line in done.stderr.splitlines() if line.startswith("phone: ")]
    assert "failed in a row" in why
    assert "nothing listens on that port" in why
    told = await asyncio.to_thread(run, "status", *where)
    assert "  failing for " in told.stdout


async def test_a_test_alert_proves_nothing_while_the_daemon_follows_another_address(night: Night) -> None:
    await healthy(night)
    config, before = night.daemon.config, len(night.alerts)
    where = ("--config", config, "--state-dir", night.daemon.state_dir)
    config.write_text(config.read_text().replace(night.rig.phone.url, f"json://127.0.0.1:{free_port()}/"))
    done = await asyncio.to_thread(run, "test-alert", *where)
    assert done.returncode == 2
    assert "another address for phone" in done.stderr
    assert "reload it first" in done.stderr
    assert (done.stdout, len(night.alerts)) == ("", before)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "watchdog", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servers: [", "config.yaml:2:1: is not valid YAML"),
        ("- a\n- b\n", "config.yaml:1:1:"),
        ("", "is empty"),
    ],
)
def test_a_bad_configuration_starts_nothing_and_exits_64(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    done = run("run", "--config", config, "--state-dir", tmp_path / "state")
    assert done.returncode == 64
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


async def test_restarts_within_seconds_page_nobody_and_a_shorter_interval_is_followed_without_a_word(
    tmp_path: Path,
) -> None:
    """The server is down all the time; every start looks at once. The reload comes after more than a short interval."""
    alerts: list[Alert] = []
    rig = Rig(tmp_path, alerts.append)
    await rig.start()
    config = rig.write_config(probe="{interval: 10m, timeout: 0.8s}", kernel_log=QUICK_SCAN)
    daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log")
    try:
        await rig.chat.stop()
        for starts in range(1, 5):
            await daemon.start()
            await until(
                lambda starts=starts: (
                    sum(  # type: ignore[misc]
                        line.get("check") == "generation/deepseek" and line.get("verdict") == "fail"
                        for line in daemon.events()
                    )
                    >= starts
                ),
                what="a failed probe",
            )
            await asyncio.sleep(0.3)
            if starts < 4:
                await daemon.kill()
        assert [alert.title for alert in alerts if "deepseek" in alert.title] == []
        await asyncio.sleep(33)  # longer than a check of one second may take to come round
        rig.write_config(probe=QUICK_PROBE, kernel_log=QUICK_SCAN)
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGHUP)
        await until(lambda: any("deepseek" in alert.title for alert in alerts), what="the real outage")
        assert [alert.title for alert in alerts if "for too long" in alert.title] == []
    finally:
        await daemon.kill()
        await rig.stop()
