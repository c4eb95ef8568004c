"""Receivers that answer without end, refuse one message, or would read markup out of a kernel line."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.integration.test_notify import delivery, receiver_at, text_of
from tests.support.alerting_path import Station, configuration, line_seen, receiver
from watchdog.model import Delivery, Outcome, OutcomeReason, Text
from watchdog.notify.ack_channels import AckChannel
from watchdog.notify.apprise_receiver import open_plugin
from watchdog.notify.exchange import READ_LIMIT_BYTES
from watchdog.notify.services import plain_for
from watchdog.policy import Grouping


@asynccontextmanager
async def answering(handler: Callable[[web.Request], Any]) -> AsyncIterator[str]:
    """The apprise URL of a webhook that answers as `handler` does."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"json://127.0.0.1:{runner.addresses[0][1]}/hook"
    finally:
        await runner.cleanup()


async def test_an_answer_of_any_size_costs_no_more_than_its_beginning() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(2000):
                await response.write(b"x" * (1 << 17))
        except ConnectionError:
            pass
        return response

    async with answering(endless) as url:
        sent = delivery()
        await receiver_at(url, 10.0).send(sent, text_of(sent), 0.0)  # imports apprise
        tracemalloc.start()
        outcome = await receiver_at(url, 10.0).send(sent, text_of(sent), 0.0)
        _now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert outcome.delivered
    assert peak < 8 * READ_LIMIT_BYTES


async def test_an_answer_that_drips_for_ever_holds_no_thread_for_ever() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.1)
        except ConnectionError:
            pass
        return response

    async with answering(drip) as url:
        phone = receiver_at(url, 1.0)
        began = time.monotonic()
        for row in range(1, 6):
            sent = delivery(row)
            outcome = await phone.send(sent, text_of(sent), 0.0)
            assert outcome.reason is not OutcomeReason.STUCK
        assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("status", "retry_after", "wanted"), [(400, "", 0.0), (429, "37", 37.0), (503, "9" * 9, 900.0)]
)
async def test_a_refusal_is_told_from_silence(status: int, retry_after: str, wanted: float) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Retry-After": retry_after} if retry_after else {})

    async with answering(refuse) as url:
        sent = delivery()
        outcome = await receiver_at(url).send(sent, text_of(sent), 0.0)
    assert (outcome.delivered, outcome.answered, outcome.retry_after_s) == (False, True, wanted)


@dataclass
class Picky:
    """Refuses what `refuses` says; remembers when it was asked."""

    clock: Callable[[], float]
    name: str = "phone"
    refresh_s: float | None = None
    ack_channel: AckChannel | None = None
    grouping: Grouping = Grouping.NONE
    refuses: Callable[[Delivery], Outcome | None] = lambda _delivery: None
    accepted: list[tuple[float, str]] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)

    async def send(self, sent: Delivery, _text: Text, _now: float) -> Outcome:
        """Accept unless it is refused."""
        self.tried.append(self.clock())
        refusal = self.refuses(sent)
        if refusal is None:
            self.accepted.append((self.clock(), sent.title))
        return refusal or Outcome(OutcomeReason.DELIVERED)

    async def refresh(self, _firing: object, _now: float) -> Outcome:
        """Nothing."""
        return Outcome(OutcomeReason.DELIVERED)

    async def close(self) -> None:
        """Nothing."""


@asynccontextmanager
async def picky(tmp_path: Path) -> AsyncIterator[tuple[Station, Picky]]:
    station = Station(tmp_path, configuration(receiver("phone")))
    phone = Picky(station.clock.monotonic)
    station.sinks["phone"] = phone  # type: ignore[assignment]  # another receiver than the recording one
    async with station:
        yield station, phone


async def test_a_message_that_is_refused_delays_no_other(tmp_path: Path) -> None:
    async with picky(tmp_path) as (station, phone):
        refusal = Outcome(OutcomeReason.REFUSED, "HTTP 400", answered=True)
        phone.refuses = lambda sent: refusal if "0000:01:00.0" in sent.title else None
        await station.look(line_seen())
        await station.pass_time(600, step_s=1.0)
        for bus in range(2, 8):
            began = station.clock.monotonic()
            await station.look(line_seen(device=f"0000:0{bus}:00.0"))
            await station.pass_time(3, step_s=1.0)
            assert phone.accepted[-1][0] - began <= 2.0
            assert f"0000:0{bus}:00.0" in phone.accepted[-1][1]


async def test_attempts_that_a_crash_cut_off_make_a_refused_message_wait_no_longer(tmp_path: Path) -> None:
    async with picky(tmp_path) as (station, phone):
        refusal = Outcome(OutcomeReason.REFUSED, "HTTP 500", answered=True)
        phone.refuses = lambda _sent: refusal
        await station.look(line_seen())
        await station.store._do(lambda db: db.execute("UPDATE outbox SET attempt = 20").rowcount)
        await station.restart()
        await station.pass_time(10, step_s=1.0)
        phone.refuses = lambda _sent: None
        await station.pass_time(30, step_s=1.0)
        assert len(phone.accepted) == 1


async def test_what_the_receiver_asks_to_wait_is_waited(tmp_path: Path) -> None:
    async with picky(tmp_path) as (station, phone):
        busy = Outcome(OutcomeReason.REFUSED, "HTTP 429", answered=True, retry_after_s=40.0)
        phone.refuses = lambda _sent: busy if len(phone.tried) == 1 else None
        await station.look(line_seen())
        await station.pass_time(39, step_s=1.0)
        assert len(phone.tried) == 1
        await station.pass_time(3, step_s=1.0)
        assert len(phone.accepted) == 1


async def test_a_new_message_waits_out_the_last_second_that_the_receiver_asks_for(
    tmp_path: Path,
) -> None:
    async with picky(tmp_path) as (station, phone):
        busy = Outcome(OutcomeReason.REFUSED, "HTTP 429", answered=True, retry_after_s=40.0)
        phone.refuses = lambda _sent: busy if len(phone.tried) == 1 else None
        await station.look(line_seen())
        await station.pass_time(39.2, step_s=0.2)
        await station.look(line_seen(device="0000:02:00.0"))
        await station.pass_time(0.4, step_s=0.2)
        assert len(phone.tried) == 1
        await station.pass_time(5, step_s=0.2)
        assert phone.accepted


async def test_after_a_long_silence_everything_arrives_within_a_minute(tmp_path: Path) -> None:
    async with picky(tmp_path) as (station, phone):
        phone.refuses = lambda _sent: Outcome(OutcomeReason.UNREACHABLE, "no answer")
        for bus in range(1, 9):
            await station.look(line_seen(device=f"0000:0{bus}:00.0"))
        await station.pass_time(7200, step_s=30.0)
        phone.refuses = lambda _sent: None
        await station.pass_time(60, step_s=1.0)
        assert len({title for _at, title in phone.accepted}) >= 8


NASTY = (
    "@everyone @here <@123> <!channel> <users/all> [log in](http://evil.example) **b** `c` _i_ ~s~ http://evil.example"
)


@pytest.mark.parametrize(
    "url",
    [
        "discord://123456789012345678/abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789ABCDEF",
        "mmost://localhost/3ccdd113474722377935511fc85d3dd4",
        "gchat://ws/key/tok",
    ],
)
def test_a_kernel_line_mentions_nobody_and_links_nowhere(url: str) -> None:
    shown = plain_for(open_plugin(url), NASTY)
    for mark in ("@everyone", "@here", "<@", "<users", "](http", "://evil", "**b**"):
        assert mark not in shown
    assert shown.replace("\u200b", "").replace("\\", "") == NASTY
    assert json.loads(json.dumps(shown)) == shown


def test_other_services_get_the_text_as_it_is() -> None:
    assert plain_for(open_plugin("json://localhost/x"), NASTY) == NASTY
