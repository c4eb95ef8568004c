"""What `status` says when a receiver is dead, and when a daemon runs but nothing of it reaches the disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.alerting_path import KEY, Station, configuration, observed, paced
from watchdog.cli import main
from watchdog.config import ProbeSettings
from watchdog.model import Nature, Verdict
from watchdog.overview.statistics import Length
from watchdog.overview.status import Status, state_of
from watchdog.policy import DOWN_S
from watchdog.store import Reader
from watchdog.store.files import lock_holder
from watchdog.web.page import PageData, page

NOW = 1_795_000_000.0


def status(state_dir: Path, now: float, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """The exit code and the text of `status` at `now`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time", lambda: now)
        with pytest.raises(SystemExit) as caught:
            main(["status", "--state-dir", str(state_dir), *options])
    return int(caught.value.code or 0), capsys.readouterr().out


def started(state_dir: Path, at: float) -> None:
    """Let the daemon of `state_dir` have started at `at`, by the clock of the test."""
    os.utime(state_dir / "lock", (at, at))


async def test_a_daemon_that_cannot_write_its_state_is_not_called_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        later = station.clock.wall() + 3600
        started(tmp_path, NOW - 3600)
        code, text = status(tmp_path, later, capsys)
        assert code == 3
        assert "The newest observation is 60 min old." in text
        assert f"a daemon (process {os.getpid()}) runs here but cannot write its state" in text
        assert "no daemon" not in text
        shown = json.loads(status(tmp_path, later, capsys, "--json")[1])
        assert (shown["health"], "cannot write its state" in shown["storage"]) == ("stale", True)
    code, text = status(tmp_path, later, capsys)
    assert (code, "no daemon is writing here" in text, "storage" in text) == (3, True, False)


async def test_a_full_disk_that_took_the_process_number_too_hides_no_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        (tmp_path / "lock").write_text("")
        started(tmp_path, NOW - 3600)
        _, text = status(tmp_path, station.clock.wall() + 3600, capsys)
        assert "storage: a daemon runs here but cannot write its state" in text


async def test_a_young_daemon_that_wrote_and_then_could_not_is_said_to_be_unable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        started(tmp_path, station.clock.wall() - 1)
        await station.ok()
        _, text = status(tmp_path, station.clock.wall() + 50, capsys)
        assert "runs here but cannot write its state" in text


async def test_a_daemon_that_has_just_started_is_said_to_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        started(tmp_path, NOW - 5)
        code, text = status(tmp_path, NOW, capsys)
        assert code == 3
        assert "started here 5 s ago and has observed nothing yet" in text
        assert await station.store.read(lambda reader: reader.snapshot(NOW).storage) is None


async def test_a_state_that_is_written_asks_for_no_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        code, text = status(tmp_path, station.clock.wall(), capsys)
        assert (code, "storage" in text) == (0, False)


def test_nobody_holds_what_is_not_there_or_belongs_to_the_dead(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    (tmp_path / "lock").write_text("")
    assert lock_holder(tmp_path) is None
    (tmp_path / "lock").write_text("99999999999999999999999\n")
    assert lock_holder(tmp_path) is None


async def test_a_dead_receiver_is_shown_with_its_last_answer_and_how_long_it_has_been_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        station.sinks["phone"].broken = True
        for _ in range(3):
            await station.fail(KEY)
        await station.pass_time(1800)
        _, text = status(tmp_path, station.clock.wall(), capsys)
        (line,) = [line for line in text.splitlines() if "failing for" in line]
        assert line.startswith("  failing for 30 min: ")
        assert "attempts failed in a row, the last " in line
        assert line.endswith(" ago: broken")
        station.sinks["phone"].broken = False
        await station.pass_time(1800)
        assert "failing for" not in status(tmp_path, station.clock.wall(), capsys)[1]


async def test_a_host_whose_kernel_findings_are_open_is_not_shown_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await station.ok("kernel_log/head")
        await station.fail("kernel_log/head/pcie.aer.fatal/0000:01:00.0", nature=Nature.OCCURRENCE)
        now = station.clock.wall()
        _, text = status(tmp_path, now, capsys)
        lines = [line for line in text.splitlines() if " kernel_log/head " in line]
        assert lines
        assert lines[0].startswith("errors")
        with Reader.open(tmp_path) as reader:
            seen = Status.read(reader, now, tmp_path)
        (view,) = (view for view in seen.snapshot.keys if view.key == "kernel_log/head")
        assert state_of(view, seen).words == "kernel errors"
        assert seen.as_json()["checks"][0]["phase"] == "ok"


async def test_the_next_probe_of_a_failing_server_is_shown_with_its_reason_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refused(station: Station, down_s: float) -> None:
        await station.look(observed(Verdict.FAIL, reason="refused", measurements={DOWN_S: down_s}))
        coming = station.ingest.next_probe("deepseek", ProbeSettings())
        assert coming is not None
        await station.ingest.keep_next_probe("deepseek", coming)
        await station.store.read_in_turn(lambda _reader: None)  # what waits is written first

    async with Station(tmp_path, paced(configuration())) as station:
        await station.ok()
        await station.pass_time(60)
        with capture_logs() as logs:
            await refused(station, 0.0)
        (line,) = [one for one in logs if one["event"] == "next_probe"]
        assert (line["in_s"], line["why"], line["reason"], line["failing_for_s"]) == (15, "confirming", "refused", 0)
        now = station.clock.wall()
        assert "  next probe in 12 s: confirming, connection refused for 3 s" in status(tmp_path, now + 3, capsys)[1]
        await station.pass_time(15, step_s=15)
        await refused(station, 15.0)
        now = station.clock.wall()
        lasting = "a restart would be over by then, connection refused for 20 s"
        assert f"  next probe in 80 s: {lasting}" in status(tmp_path, now + 5, capsys)[1]
        (row, *_) = json.loads(status(tmp_path, now + 5, capsys, "--json")[1])["checks"]
        assert row["next_probe"] == {"why": "must_last", "words": lasting, "timeout_s": None}
        assert row["next_at"] == now + 85
        with Reader.open(tmp_path) as reader:
            html = page(PageData.read(reader, now + 5, Length.DAY), "1")
        assert lasting in html
        await station.pass_time(85, step_s=85)
        await station.ok()
        text = status(tmp_path, station.clock.wall(), capsys)[1]
        assert "next probe" not in text, "what was planned after a failure is nothing once text comes"
