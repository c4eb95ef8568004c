"""The outward heartbeat: sent for a complete round only, `/fail` in trouble, and heard of when nobody hears it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from yarl import URL

from tests.support.alerting_path import Station
from tests.support.clock import settle
from watchdog.config import HeartbeatSettings, HttpMethod, Secret
from watchdog.heartbeat import Heartbeat, Pulse, beat, failing

TOKEN = "s3cr3t-uuid"


class Ear:
    """An outside service on loopback: what it heard, as (method, path with query, body)."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []
        self.status = 200
        self.delay_s = 0.0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.heard.append((request.method, request.path_qs, await request.text()))
        await asyncio.sleep(self.delay_s)
        return web.Response(status=self.status, headers={"Location": "/elsewhere"} if self.status == 302 else {})

    def settings(self, method: HttpMethod = HttpMethod.GET, timeout_s: float = 5.0) -> HeartbeatSettings:
        url = Secret(f"http://127.0.0.1:{self.port}/ping/{TOKEN}?rid=1")
        return HeartbeatSettings(url=url, interval_s=300.0, method=method, timeout_s=timeout_s)


@pytest.fixture
async def ear() -> AsyncIterator[Ear]:
    async with Ear() as found:
        yield found


async def test_a_beat_is_one_get_and_a_failing_one_has_fail_after_its_path(ear: Ear) -> None:
    assert await beat(ear.settings(), None) is None
    assert await beat(ear.settings(), "blind: no network") is None
    assert ear.heard == [("GET", f"/ping/{TOKEN}?rid=1", ""), ("GET", f"/ping/{TOKEN}/fail?rid=1", "")]


async def test_a_post_says_in_one_line_how_we_are(ear: Ear) -> None:
    await beat(ear.settings(HttpMethod.POST), None)
    await beat(ear.settings(HttpMethod.POST), "blind: no network")
    assert [(method, body) for method, _, body in ear.heard] == [
        ("POST", "all checks complete their runs on time\n"),
        ("POST", "blind: no network\n"),
    ]


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP 404"), (500, "HTTP 500"), (302, "not followed")])
async def test_anything_but_a_2xx_is_not_heard_and_redirects_are_not_followed(
    ear: Ear, status: int, words: str
) -> None:
    ear.status = status
    problem = await beat(ear.settings(), None)
    assert problem is not None
    assert words in problem
    assert len(ear.heard) == 1


async def test_a_beat_has_its_own_deadline_and_no_problem_quotes_its_address(ear: Ear) -> None:
    ear.delay_s = 5.0
    began = asyncio.get_running_loop().time()
    problem = await beat(ear.settings(timeout_s=0.2), None)
    assert problem == "no answer within 0.2 s"
    assert asyncio.get_running_loop().time() - began < 2.0
    for url in (f"http://127.0.0.1:9/{TOKEN}", f"http://no-such-name.invalid/{TOKEN}", f"https://127.0.0.1:9/{TOKEN}"):
        problem = await beat(HeartbeatSettings(url=Secret(url), timeout_s=5.0), None)
        assert problem
        assert TOKEN not in problem


def test_fail_goes_before_the_query_and_what_is_escaped_stays_so() -> None:
    assert str(failing(URL("https://u:p%40@hc.example.org/a%2Fb/?x=1%202"))) == (
        "https://u:p%40@hc.example.org/a%2Fb/fail?x=1%202"
    )


class Alive:
    """A heartbeat of a station, with a pulse that the test sets."""

    def __init__(self, station: Station, ear: Ear) -> None:
        self.station, self.ear = station, ear
        self.pulse = Pulse(complete=True)
        self.heart = Heartbeat(station.clock, station.ingest, lambda: self.pulse)
        self.heart.follow(ear.settings())
        self.task = asyncio.create_task(self.heart.run())

    async def pass_time(self, seconds: float, step_s: float = 60.0) -> None:
        for _ in range(round(seconds / step_s)):
            await self.station.clock.advance(step_s)
            await asyncio.sleep(0.02)  # a real request on loopback
            await self.station.quiet()

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def alive(tmp_path: Path, ear: Ear) -> AsyncIterator[Alive]:
    async with Station(tmp_path) as station:
        found = Alive(station, ear)
        yield found
        await found.stop()


async def test_beats_are_an_interval_apart_and_only_for_complete_rounds(alive: Alive) -> None:
    await alive.pass_time(1560)
    assert len(alive.ear.heard) == 6
    alive.pulse = Pulse(complete=False)
    await alive.pass_time(3600)
    assert len(alive.ear.heard) == 6
    alive.pulse = Pulse(complete=True)
    await alive.pass_time(60)
    assert len(alive.ear.heard) == 7, "as soon as the round is complete"


async def test_trouble_is_told_as_fail_even_when_the_round_is_not_complete(alive: Alive) -> None:
    await alive.pass_time(60)
    alive.pulse = Pulse(complete=False, trouble="blind: our own network is down")
    await alive.pass_time(300)
    assert [path.partition("?")[0].rpartition("/")[2] for _, path, _ in alive.ear.heard] == [TOKEN, "fail"]


async def test_a_deaf_service_is_logged_once_and_after_long_an_incident_that_resolves(alive: Alive) -> None:
    await alive.pass_time(60)
    alive.ear.status = 503
    with capture_logs() as logs:
        await alive.pass_time(900)
        assert alive.station.sinks["phone"].kinds == []
        await alive.pass_time(900)
    assert [(row["log_level"], row["problem"]) for row in logs if row["event"] == "heartbeat"] == [
        ("warning", "the service answers HTTP 503")
    ]
    assert alive.station.sinks["phone"].kinds == ["FIRING"]
    assert TOKEN not in alive.station.sinks["phone"].accepted[0][1].body
    alive.ear.status = 200
    await alive.pass_time(360)
    assert alive.station.sinks["phone"].kinds == ["FIRING", "RESOLVED"]


async def test_a_heartbeat_that_is_taken_out_of_the_configuration_ends_with_its_incident(alive: Alive) -> None:
    alive.ear.status = 404
    await alive.pass_time(3000)
    assert alive.station.sinks["phone"].kinds == ["FIRING"]
    alive.heart.follow(None)
    await settle()
    await alive.station.quiet()
    assert alive.station.sinks["phone"].kinds == ["FIRING", "RESOLVED"]
    heard = len(alive.ear.heard)
    await alive.pass_time(900)
    assert len(alive.ear.heard) == heard


async def test_a_beat_that_is_lost_with_our_own_network_is_no_incident_of_its_own(alive: Alive) -> None:
    alive.ear.status = 404
    alive.pulse = Pulse(complete=False, trouble="blind: our own network is down")
    await alive.pass_time(4000)
    assert alive.station.sinks["phone"].kinds == []
