"""Nothing can be delivered, or nobody asks for a probe: whoever relies on this watchdog learns it from outside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.alerting_path import KEY, Station, configuration, observed, receiver
from tests.support.web_server import served
from watchdog.cli.validate import plan_text
from watchdog.config import ReceiverSettings, WebSettings
from watchdog.model import CheckResult, Severity
from watchdog.store.reader import UNHEARD_AFTER_S

LISTEN = WebSettings(listen="127.0.0.1:0")


async def unheard(station: Station) -> str | None:
    now = station.clock.wall()
    return await station.store.read_in_turn(lambda reader: reader.unheard_page(now))


async def broken_station(station: Station, *works: str) -> None:
    for name, sink in station.sinks.items():
        sink.broken = name not in works
    for _ in range(3):
        await station.fail()


async def test_a_page_that_no_receiver_takes_is_unheard_after_two_minutes(tmp_path: Path) -> None:
    async with Station(tmp_path, configuration(receiver("phone"), receiver("mail"))) as station:
        await broken_station(station)
        assert await unheard(station) is None
        await station.pass_time(UNHEARD_AFTER_S)
        found = await unheard(station)
        assert found is not None
        assert station.ingest.open_incidents[0].id in found
        station.sinks["mail"].broken = False
        await station.pass_time(900)
        assert await unheard(station) is None


@pytest.mark.parametrize("settings", [receiver("mail"), receiver("mail", min_severity=Severity.WARN)])
async def test_one_receiver_that_took_it_is_enough(tmp_path: Path, settings: ReceiverSettings) -> None:
    async with Station(tmp_path, configuration(receiver("phone"), settings)) as station:
        await broken_station(station, "mail")
        await station.pass_time(600)
        assert await unheard(station) is None


async def test_a_test_alert_that_does_not_arrive_is_no_unheard_page(tmp_path: Path) -> None:
    async with Station(tmp_path, configuration(receiver("phone"))) as station:
        station.sinks["phone"].broken = True
        await station.ingest.test_alert()
        await station.pass_time(600)
        assert await unheard(station) is None


async def test_a_fallback_that_took_it_is_enough(tmp_path: Path) -> None:
    rows = (receiver("phone", fallback="mail", fallback_after=2), receiver("mail"))
    async with Station(tmp_path, configuration(*rows)) as station:
        await broken_station(station, "mail")
        await station.pass_time(600)
        assert station.sinks["mail"].titles
        assert await unheard(station) is None


async def test_a_warning_that_nobody_took_is_no_reason_to_call_for_help(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        station.sinks["phone"].broken = True
        for _ in range(3):
            await station.fail(severity=Severity.WARN)
        await station.pass_time(600)
        assert await unheard(station) is None


async def test_the_health_page_says_that_a_page_is_undelivered(tmp_path: Path) -> None:
    config = configuration()
    async with served(tmp_path / "state", config, 1_795_970_000.0, settings=LISTEN) as page:
        assert (await page.get("healthz"))[0] == 200
    async with Station(tmp_path / "state", config) as station:
        station.sinks["phone"].broken = True
        for _ in range(3):
            await station.ingest.take(KEY, CheckResult((replace(observed(), at=station.clock.wall()),)))
        since = station.clock.wall()
    async with served(tmp_path / "state", config, since + 121.0, settings=LISTEN) as page:
        status, _headers, text = await page.get("healthz")
    said = json.loads(text)
    assert (status, said["status"]) == (503, "undelivered")
    assert "has reached no receiver for 2 min" in said["undelivered"]


async def test_probes_that_prometheus_does_not_ask_for_are_late(tmp_path: Path) -> None:
    settings = WebSettings(listen="127.0.0.1:0", probe_on_scrape=True)
    async with served(tmp_path, configuration(), 1_795_970_000.0, settings=settings) as page:
        page.progress.last_completed_at.clear()
        server = configuration().servers[0]
        await page.clock.advance(server.probe.interval_s + server.probe.timeout_s + 61.0)
        status, _headers, text = await page.get("healthz")
        assert (status, json.loads(text)["late"]) == (503, [KEY])
        page.progress.last_completed_at[KEY] = page.clock.monotonic()
        assert (await page.get("healthz"))[0] == 200


def test_validate_promises_no_interval_for_probes_that_prometheus_makes() -> None:
    config = replace(configuration(), web=WebSettings(listen="127.0.0.1:9877", probe_on_scrape=True))
    text = plan_text(config)
    row = next(line for line in text.splitlines() if line.startswith(KEY))
    assert row.split()[1] == "scrape"
    assert "when Prometheus asks for /probe" in text
