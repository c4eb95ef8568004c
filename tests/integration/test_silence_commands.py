"""`silence`, `unsilence`, `ack` and what `status` shows of them, beside a running watchdog."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.alerting_path import KEY, Station, configuration
from watchdog.cli import main
from watchdog.config import MaintenanceSettings
from watchdog.json_values import to_json
from watchdog.model import CheckResult, Weekday
from watchdog.store import MAINTENANCE, PLAN
from watchdog.text import full_timestamp

NOW = 1_795_000_000.0


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read the same time as the station's clock, and the same zone everywhere."""
    monkeypatch.setattr("time.time", lambda: NOW)
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("LOGNAME", "ada")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


async def watching(station: Station) -> None:
    """What the daemon writes down about its checks."""
    plan = {KEY: {"interval_s": 120.0, "failures": 3}, "kernel_log/head": {"interval_s": 600.0, "failures": 3}}
    await station.ingest.take(PLAN, CheckResult((), memory=plan))


async def status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    run("status", "--state-dir", str(tmp_path), "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


async def test_a_planned_swap_of_the_model_is_one_command_and_its_end_speaks_only_about_what_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        phone = station.sinks["phone"]
        where = ("--state-dir", str(tmp_path))
        assert run("silence", *where, "--for", "2h", "--reason", "swap to Qwen", "server=deepseek") == 0
        said = capsys.readouterr().out
        assert f"until {full_timestamp(NOW + 7200)}" in said
        await station.pass_time(60)
        for _ in range(5):
            await station.fail()
        assert phone.kinds == []
        shown = (await status(tmp_path, capsys))["silences"]
        assert [(row["matcher"], row["reason"], row["author"]) for row in shown] == [
            ({"server": "deepseek"}, "swap to Qwen", "ada")
        ]
        for _ in range(2):
            await station.ok()
        await station.pass_time(3 * 3600, step_s=600)
        assert phone.kinds == []


async def test_unsilence_ends_a_silence_and_what_is_still_wrong_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        where = ("--state-dir", str(tmp_path))
        run("silence", *where, "--for", "2h", "--reason", "swap", "--json", "host=head")
        silence = json.loads(capsys.readouterr().out)
        await station.pass_time(60)
        for _ in range(3):
            await station.fail()
        assert station.sinks["phone"].kinds == []  # what runs on the host is covered too
        assert run("unsilence", *where, silence["id"]) == 0
        await station.pass_time(60)
        await station.fail()
        assert station.sinks["phone"].kinds == ["FIRING"]
        assert run("unsilence", *where, silence["id"]) == 64
        assert "no active silence" in capsys.readouterr().err


async def test_acknowledging_stops_reminders_and_status_says_who_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        for _ in range(3):
            await station.fail()
        phone = station.sinks["phone"]
        incident = phone.accepted[0][0].incident_id
        assert run("ack", "--state-dir", str(tmp_path)) == 0
        assert f"{incident}  page  " in (said := capsys.readouterr().out)
        assert "(not acknowledged)" in said
        assert run("ack", "--state-dir", str(tmp_path), "--reason", "I restart it", incident) == 0
        capsys.readouterr()
        run("status", "--state-dir", str(tmp_path))
        assert "acknowledged 0 s ago, by ada: I restart it" in capsys.readouterr().out
        await station.pass_time(6 * 3600, step_s=600)
        assert phone.kinds == ["FIRING"]
        assert run("ack", "--state-dir", str(tmp_path)) == 0
        assert "(acknowledged by ada: I restart it)" in capsys.readouterr().out
        assert run("ack", "--state-dir", str(tmp_path), "--reason", "x", "nothere1") == 64
        assert "no open incident" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for", "2h", "server=depseek"), "did you mean deepseek?"),
        (("--for", "2h", "sever=deepseek"), "did you mean server?"),
        (("--for", "2h", "host=head2*"), "did you mean head?"),
        (("--for", "2h", "deepseek"), "write it like server=deepseek"),
        (("--for", "31d", "server=deepseek"), "from 1s to 30d"),
        (("--for", "2", "server=deepseek"), "did you mean 2s?"),
        (("--for", "2h", "server=a", "server=b"), "given twice"),
        (("server=deepseek",), "--for"),
        (("--for", "2h"), "LABEL=VALUE"),
        (("--for", "2h", "severity=pgae"), "did you mean page?"),
        (("--for", "2h", "severity=red"), "page, warn, info"),
        (("--for", "2h", "check=kernel"), "did you mean kernel_log?"),
        (("--for", "2h", "kind=pcie.aer.fatel"), "did you mean pcie.aer.fatal?"),
        (("--for", "2h", "key=generation/depseek"), "did you mean generation/deepseek?"),
        (("--for", "2h", "key=nothing/at/all"), "no key called nothing/at/all is watched"),
        (("--for", "2h", "receiver=phnoe"), "did you mean phone?"),
        (("--for", "2h", "server=deepseek", "device=a\x1b[31mb"), "characters that no name has"),
        (("--for", "2h", "--reason", "", "server=deepseek"), "the reason is empty"),
        (("--for", "2h", "--reason", "\u202e\x1b[31m \n", "server=deepseek"), "the reason is empty"),
        (("--for", "2h", "--reason", "x" * 501, "server=deepseek"), "the limit is 500"),
    ],
)
async def test_a_silence_that_would_not_do_what_is_meant_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        for _ in range(3):
            await station.fail("kernel_log/head")
        capsys.readouterr()
        assert run("silence", "--state-dir", str(tmp_path), "--reason", "x", *arguments) == 64
        assert words in capsys.readouterr().err
        assert (await station.store.read_in_turn(lambda reader: reader.snapshot(NOW))).silences == ()


@pytest.mark.parametrize(
    "label", ["kind=mine.own", "receiver=mail", "device=0000:01:00.0", "key=kernel_log/head/mine.own/-", "kind=mine.*"]
)
async def test_a_value_that_may_still_turn_up_is_taken_and_the_doubt_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        assert run("silence", "--state-dir", str(tmp_path), "--for", "1h", "--reason", "x", label) == 0
        assert f"nothing with {label} has been seen so far" in capsys.readouterr().err


@pytest.mark.parametrize("label", ["kind=pcie.aer.fatal", "kind=pcie.*", "kind=host.rebooted", "key=generation/*"])
async def test_a_known_value_is_taken_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        assert run("silence", "--state-dir", str(tmp_path), "--for", "1h", "--reason", "x", label) == 0
        assert capsys.readouterr().err == ""


HOSTILE = "swap\nsilence forged\x1b[31m red \u202etxet"


async def test_what_people_write_cannot_act_on_a_terminal_nor_forge_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada\x1b[2J")
    async with Station(tmp_path) as station:
        await watching(station)
        for _ in range(3):
            await station.fail()
        incident = station.sinks["phone"].accepted[0][0].incident_id
        where = ("--state-dir", str(tmp_path))
        assert run("silence", *where, "--for", "2h", "--reason", HOSTILE, "host=head") == 0
        assert run("ack", *where, "--reason", HOSTILE, incident) == 0
        with sqlite3.connect(tmp_path / "state.db") as database:
            kept = [*database.execute("SELECT reason, author FROM silences UNION ALL SELECT reason, author FROM "
                                      "acknowledgements")]  # fmt: skip
        assert kept == [("swap silence forged red txet", "ada")] * 2
        database.close()


async def test_what_an_older_version_let_in_is_cleaned_when_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Station(tmp_path) as station:
        await watching(station)
        for _ in range(3):
            await station.fail()
        incident = station.sinks["phone"].accepted[0][0].incident_id
        with sqlite3.connect(tmp_path / "state.db") as database:
            database.execute(
                "INSERT INTO silences VALUES ('s1', ?, ?, ?, ?, ?)",
                (json.dumps({"server": HOSTILE}), NOW, NOW + 60, HOSTILE, HOSTILE),
            )
            database.execute("INSERT INTO acknowledgements VALUES (?, ?, ?, ?)", (incident, NOW, HOSTILE, HOSTILE))
        database.close()
        capsys.readouterr()
        run("status", "--state-dir", str(tmp_path))
        shown = capsys.readouterr().out
        assert not {"\x1b", "\u202e"} & set(shown)
        assert not [line for line in shown.splitlines() if line.startswith("silence forged")]
        assert shown.count("swap silence forged red txet") == 5


async def test_a_silence_without_any_watchdog_here_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("silence", "--state-dir", str(tmp_path), "--for", "1h", "--reason", "x", "server=a") == 64
    assert str(tmp_path) in capsys.readouterr().err


async def test_status_shows_the_next_maintenance_window_in_its_own_zone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weekly = MaintenanceSettings(
        name="weekly",
        match={"server": "deepseek"},
        days=(Weekday.SUN,),
        start=time(2, 30),
        time_zone=ZoneInfo("Europe/Berlin"),
    )
    once = MaintenanceSettings(
        name="switch",
        match={"host": "*"},
        begins=datetime.fromtimestamp(NOW - 60, UTC),
        ends=datetime.fromtimestamp(NOW + 60, UTC),
    )
    over = replace(once, name="over", ends=datetime.fromtimestamp(NOW - 30, UTC))
    config = replace(configuration(), maintenance=(weekly, once, over))
    async with Station(tmp_path, config) as station:
        await watching(station)
        await station.ingest.take(MAINTENANCE, CheckResult((), memory=to_json(station.ingest.plan.maintenance)))
        run("status", "--state-dir", str(tmp_path))
        shown = capsys.readouterr().out
        assert "maintenance weekly on server=deepseek: next Sun 2026-11-22 02:30 CET (UTC+01:00), for 60 min" in shown
        assert f"maintenance switch on host=*: now, until {full_timestamp(NOW + 60)}" in shown
        assert "maintenance over" not in shown
        found = (await status(tmp_path, capsys))["maintenance"]
        assert [row["now"] is None for row in found] == [True, False, True]
        for _ in range(3):
            await station.fail()
        assert station.sinks["phone"].kinds == []
        await station.pass_time(120)
        await station.fail()
        assert station.sinks["phone"].kinds == ["FIRING"]


async def test_trouble_told_before_a_window_is_not_announced_again_at_its_end(tmp_path: Path) -> None:
    """A reminder that falls into the window is left out; the next one comes in its usual rhythm."""
    window = MaintenanceSettings(
        name="switch",
        match={"server": "deepseek"},
        begins=datetime.fromtimestamp(NOW + 600, UTC),
        ends=datetime.fromtimestamp(NOW + 7200, UTC),
    )
    async with Station(tmp_path, replace(configuration(), maintenance=(window,))) as station:
        phone = station.sinks["phone"]
        for _ in range(3):
            await station.fail()
        await station.pass_time(7500, step_s=300)
        await station.fail()
        assert phone.kinds == ["FIRING"]
        await station.pass_time(3600 + 14400 - 7500 + 300, step_s=300)
        assert phone.kinds == ["FIRING", "STILL FIRING"]
        for _ in range(2):
            await station.ok()
        assert phone.kinds == ["FIRING", "STILL FIRING", "RESOLVED"]
