"""A page that nobody acknowledges: repeated, told to the next in line, over restarts, until somebody answers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.alerting_path import Station, configuration, receiver
from watchdog.cli import main
from watchdog.config import Config, EscalateSettings
from watchdog.model import Severity


def night() -> Config:
    repeats = EscalateSettings(after_s=300, every_s=600, to=("partner",))
    plan = configuration(
        receiver("phone", min_severity=Severity.PAGE, escalate=repeats), receiver("partner", min_severity=Severity.PAGE)
    )
    return plan_for_the_phone(plan)


def plan_for_the_phone(config: Config) -> Config:
    """The partner hears of nothing by himself."""
    return replace(config, servers=tuple(replace(one, receivers=("phone",)) for one in config.servers))


async def test_it_goes_on_where_it_was_after_a_restart_and_the_partner_hears_of_the_end(tmp_path: Path) -> None:
    async with Station(tmp_path, night()) as station:
        for _ in range(3):
            await station.fail()
        await station.pass_time(200)
        await station.restart()
        assert station.sinks["phone"].kinds == ["FIRING"]
        await station.pass_time(120)
        assert station.sinks["phone"].kinds == ["FIRING", "STILL FIRING"]
        assert station.sinks["partner"].kinds == ["FIRING"]
        await station.restart()
        await station.pass_time(300)
        assert station.sinks["phone"].kinds == ["FIRING", "STILL FIRING"]
        await station.pass_time(360)
        assert station.sinks["phone"].kinds == ["FIRING", "STILL FIRING", "STILL FIRING"]
        assert station.sinks["partner"].kinds == ["FIRING"], "told once, then by ordinary reminders"
        for _ in range(2):
            await station.ok()
        assert station.sinks["phone"].kinds[-1] == station.sinks["partner"].kinds[-1] == "RESOLVED"


async def test_an_acknowledgement_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Station(tmp_path, night()) as station:
        for _ in range(3):
            await station.fail()
        monkeypatch.setattr(time, "time", station.clock.wall)
        (incident,) = station.ingest.open_incidents
        with pytest.raises(SystemExit) as ended:
            main(["ack", "--state-dir", str(tmp_path), incident.id])
        assert ended.value.code == 0
        await station.pass_time(2000)
        assert station.sinks["phone"].kinds == ["FIRING"]
        assert station.sinks["partner"].kinds == []
