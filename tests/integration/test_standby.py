"""Standing by for a first watchdog: a real /healthz, the real alerting path, a clock that moves when told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
from aiohttp import web

from tests.support.alerting_path import Station, line_seen
from tests.support.clock import settle
from tests.support.sshd import free_port
from watchdog.config import Config
from watchdog.doctor import Grade
from watchdog.doctor.examinations import examine_targets
from watchdog.errors import ConfigError
from watchdog.http_call import PROGRAM
from watchdog.loading import read
from watchdog.policy import Standby
from watchdog.standby import KEY, LOOK_EVERY_S, StandbyWatch, look


class FirstWatchdog:
    """The /healthz of another watchdog, as it is told to be."""

    def __init__(self) -> None:
        """Well."""
        self.status = 200
        self.said: object = {"version": 1, "status": "ok", "program": PROGRAM, "instance": "first", "role": "first"}
        self.asked = 0
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/healthz"  # type: ignore[attr-defined]  # asyncio.Server has sockets
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response(self.said, status=self.status)


class Pair:
    """The standby's station and the first watchdog it looks at."""

    def __init__(self, station: Station, first: FirstWatchdog) -> None:
        """Begins to stand by at once."""
        self.station, self.first = station, first
        self.watch = StandbyWatch(station.clock, station.ingest)
        self.watch.follow(first.url)

    async def looks(self, count: int) -> None:
        """Let so many looks happen, each 20 s after the last."""
        for _ in range(count):
            before = self.first.asked
            await self.station.clock.advance(LOOK_EVERY_S)
            async with asyncio.timeout(10):
                while self.first.asked == before:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # the answer is on its way back
            await settle()
            await self.station.ingest.tick()
            await self.station.quiet()

    @property
    def said(self) -> list[str]:
        """What the phone heard, by title."""
        return [text.title for _delivery, text in self.station.sinks["phone"].accepted]


@asynccontextmanager
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A standby that has seen the first watchdog well once."""
    async with FirstWatchdog() as first, Station(tmp_path) as station:
        both = Pair(station, first)
        task = asyncio.create_task(both.watch.run())
        try:
            async with asyncio.timeout(10):
                while first.asked == 0:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            yield both
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_while_the_first_one_answers_nothing_of_the_targets_is_told(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        for _ in range(4):
            await both.station.fail()
        await both.station.look(line_seen())
        await both.looks(5)
        assert both.said == []
        assert len(both.station.ingest.open_incidents) == 2


async def test_after_three_missed_looks_it_speaks_and_says_that_it_does(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        both.first.status = 503
        await both.looks(2)
        assert both.said == []
        for _ in range(3):
            await both.station.fail()
        assert both.said == []
        await both.looks(1)
        assert len(both.said) == 1
        assert "first watchdog does not answer" in both.said[0]
        await both.station.fail()
        assert len(both.said) == 2
        assert "deepseek" in both.said[1]
        assert all(incident.id.endswith("-s") for incident in both.station.ingest.open_incidents)


async def test_a_kernel_line_of_the_last_seconds_is_told_at_take_over(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        both.first.status = 503
        await both.station.look(line_seen())
        await both.looks(3)
        assert sum("pcie.aer.fatal" in title for title in both.said) == 1


async def test_what_the_first_one_had_time_to_tell_wakes_nobody_twice_and_is_not_forgotten(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        for _ in range(3):
            await both.station.fail()
        await both.looks(20)  # it goes on for long enough to have told it
        both.first.status = 503
        await both.looks(4)
        await both.station.fail()
        assert not any("deepseek" in title for title in both.said)
        await both.station.clock.advance(3600)
        await both.station.fail()
        assert sum("deepseek" in title for title in both.said) == 1


async def test_handed_back_it_tells_the_end_of_what_it_told_and_nothing_new(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        both.first.status = 503
        await both.looks(3)
        for _ in range(3):
            await both.station.fail()
        told = len(both.said)
        both.first.status = 200
        await both.looks(1)
        assert "RESOLVED" in both.said[told]  # that the first one is silent
        await both.station.look(line_seen())
        await both.station.clock.advance(7200)
        await both.station.fail()
        assert len(both.said) == told + 1  # no reminder, no kernel line: the first one speaks
        for _ in range(2):
            await both.station.ok()
        assert len(both.said) == told + 2
        assert "RESOLVED" in both.said[-1]
        assert KEY not in {incident.key for incident in both.station.ingest.open_incidents}


async def test_one_missed_look_is_no_silence(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        for _ in range(4):
            both.first.status = 503
            await both.looks(2)
            both.first.status = 200
            await both.looks(1)
        assert both.said == []


async def test_standing_by_for_nobody_any_more_ends_the_incident_and_holds_nothing(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        both.first.status = 503
        await both.looks(3)
        both.watch.follow(None)
        await settle(50)
        await both.station.quiet()
        assert list(both.station.ingest.open_incidents) == []
        for _ in range(3):
            await both.station.fail()
        assert "deepseek" in both.said[-1]
        assert [incident.id.endswith("-s") for incident in both.station.ingest.open_incidents] == [False]


async def test_a_first_watchdog_that_was_never_heard_counts_as_silent_after_three_looks(tmp_path: Path) -> None:
    async with FirstWatchdog() as first, Station(tmp_path) as station:
        first.status = 404
        both = Pair(station, first)
        station.ingest.stand_by(Standby())
        task = asyncio.create_task(both.watch.run())
        async with asyncio.timeout(10):
            while first.asked == 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await both.looks(2)
        task.cancel()
        assert "first watchdog does not answer" in both.said[0]
        assert "HTTP 404" in station.ingest.open_incidents[0].summary


async def test_a_look_says_what_was_wrong() -> None:
    async with FirstWatchdog() as first:
        assert await look(first.url) is None
        first.status = 302
        assert await look(first.url) == "it answers HTTP 302"
    assert "port" in (await look(f"http://127.0.0.1:{free_port()}/healthz") or "")


STRANGERS = [
    ({"version": 1, "status": "ok", "program": PROGRAM, "instance": "own", "role": "first"}, "this watchdog itself"),
    ({"version": 1, "status": "ok", "program": PROGRAM, "instance": "b", "role": "standby"}, "itself a standby"),
    ({"status": "ok"}, "not an inference-watchdog"),
    (["ok"], "not an inference-watchdog"),
    ("pong", "not an inference-watchdog"),
    ({"program": PROGRAM, "instance": 5, "role": "first"}, "not an inference-watchdog"),
]


@pytest.mark.parametrize(("said", "words"), STRANGERS)
async def test_whoever_is_no_first_watchdog_keeps_nobody_silent(tmp_path: Path, said: object, words: str) -> None:
    async with FirstWatchdog() as first, Station(tmp_path) as station:
        first.said = said
        assert words in (await look(first.url, "own") or "")
        both = Pair(station, first)
        both.watch = StandbyWatch(station.clock, station.ingest, instance="own")
        both.watch.follow(first.url)
        first.asked = 0
        task = asyncio.create_task(both.watch.run())
        async with asyncio.timeout(10):
            while first.asked == 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await both.looks(2)
        for _ in range(3):
            await station.fail()
        task.cancel()
        assert "first watchdog does not answer" in both.said[0]
        assert "deepseek" in both.said[-1]
        (refused,) = await examine_targets(Config(standby_of=first.url), "own")
    assert (refused.grade, refused.reason) == (Grade.WARN, "first_silent")
    assert words in refused.words


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "192.0.2.5"])
def test_its_own_page_is_refused_as_the_first_watchdog(host: str) -> None:
    with pytest.raises(ConfigError, match="own page"):
        _read(f"web: {{listen: '192.0.2.5:9877', token: abcdefghijklmnop}}\nstandby_of: http://{host}:9877/healthz")


def _read(line: str) -> Config:
    text = f"servers: [{{name: a, base_url: 'http://h/v1'}}]\nreceivers: [{{name: p, url: 'json://h/x'}}]\n{line}\n"
    return read(text.encode(), "c.yaml", check_urls=lambda urls: [None] * len(urls)).config


def test_the_address_of_the_first_watchdog_is_one_of_the_web_with_its_path() -> None:
    assert _read("standby_of: http://192.0.2.5:9877/healthz").standby_of == "http://192.0.2.5:9877/healthz"
    assert _read("").standby_of is None
    for bad in ("mac:9877/healthz", "http://192.0.2.5:9877", "http://me:secret@192.0.2.5/healthz"):
        with pytest.raises(ConfigError, match=r"write it like http://192\.0\.2\.5:9877/healthz"):
            _read(f"standby_of: {bad}")


async def test_the_doctor_says_whether_it_sees_the_first_one() -> None:
    async with FirstWatchdog() as first:
        (well,) = await examine_targets(Config(standby_of=first.url))
        assert (well.grade, well.fix) == (Grade.PASS, "")
        first.status = 503
        (ill,) = await examine_targets(Config(standby_of=first.url))
    assert (ill.grade, ill.reason) == (Grade.WARN, "first_silent")
    assert "web.listen" in ill.fix
