"""A night at every service: opened once, closed once, nothing refused, the page loudest, over a restart."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from tests.support.alerting_path import KEY, configuration, line_seen, observed, receiver, replace_at
from tests.support.clock import ManualClock
from tests.support.services import EVENTS, LONGEST, URLS, FakeServices
from watchdog.config import ReceiverSettings, Secret
from watchdog.ingest import Ingest
from watchdog.model import CheckResult, Evidence, Incident, Severity, Verdict
from watchdog.notify import build
from watchdog.outbox import Outbox
from watchdog.policy import AlertPlan
from watchdog.store import DeliveryView, Store
from watchdog.store.files import DATABASE

LONG = tuple(Evidence(1_795_000_000.0 + n, "worker kernel", f"line {n} " + "x" * 380) for n in range(10))


PAGE = (Path(__file__).parents[2] / "docs/receivers.md").read_text("utf-8")
URLS_OF_THE_PAGE = [
    url for url in dict.fromkeys(re.findall(r"^ +url: (\S+)", PAGE, re.MULTILINE)) if not url.startswith("mailto")
]
"""Mail is tried with a real SMTP server elsewhere."""


class Life:
    """One life of the daemon on a state directory."""

    def __init__(self, ingest: Ingest, outbox: Outbox, store: Store, clock: ManualClock) -> None:
        self.ingest, self.outbox, self.store, self.clock = ingest, outbox, store, clock

    async def look(self, verdict: Verdict, times: int, severity: Severity = Severity.PAGE) -> None:
        for _ in range(times):
            seen = observed(verdict, severity=severity, evidence=LONG if verdict is Verdict.FAIL else ())
            await self.ingest.take(KEY, CheckResult((replace_at(seen, self.clock.wall()),)))
        await self.told()

    async def line(self, severity: Severity = Severity.PAGE) -> None:
        seen = replace_at(line_seen(severity=severity), self.clock.wall())
        await self.ingest.take(seen.key, CheckResult((seen,)))
        await self.told()

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.ingest.tick()
        await self.told()

    async def told(self) -> None:
        """Until nothing is left to send."""
        async with asyncio.timeout(20):
            while any(not row.is_done for row in await self.store.read_in_turn(lambda reader: reader.deliveries())):
                await asyncio.sleep(0.01)
                await self.clock.advance(0.1)


@asynccontextmanager
async def life(state: Path, clock: ManualClock, *receivers: ReceiverSettings) -> AsyncIterator[Life]:
    store = Store.open(state, clock.wall(), linger_s=0.0)
    ingest = Ingest(store, AlertPlan.from_config(configuration(*receivers)), clock, zone=UTC)
    await ingest.start()
    outbox = Outbox(store, ingest, {row.name: build(row) for row in receivers}, clock, zone=UTC)
    task = asyncio.create_task(outbox.run())
    try:
        yield Life(ingest, outbox, store, clock)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await store.close()


def phone(scheme: str, **changes: object) -> ReceiverSettings:
    return receiver("phone", **{"url": Secret(URLS[scheme]), "min_severity": Severity.INFO, **changes})


def killed_before_it_noted_the_page(state: Path) -> None:
    with closing(sqlite3.connect(state / DATABASE)) as database:
        database.execute("UPDATE outbox SET state = 'leased', done_at = NULL WHERE kind = 'FIRING'")
        database.commit()


@pytest.mark.parametrize("scheme", URLS)
async def test_a_night_at_a_service(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page, reminder, kill, end; a warning that becomes a page, its end; an occurrence and its quiet end."""
    clock = ManualClock()
    async with FakeServices(scheme) as fake:
        fake.stand_in(monkeypatch)
        async with life(tmp_path, clock, phone(scheme)) as night:
            await night.look(Verdict.FAIL, 3)
            await night.pass_time(3700)
        killed_before_it_noted_the_page(tmp_path)
        async with life(tmp_path, clock, phone(scheme)) as night:
            await night.told()
            await night.look(Verdict.PASS, 2)
            await night.look(Verdict.FAIL, 3, Severity.WARN)
            await night.look(Verdict.FAIL, 1)
            await night.look(Verdict.PASS, 2)
            await night.line()
            await night.pass_time(3700)
            kinds = [row.kind.value for row in await night.store.read_in_turn(lambda reader: reader.deliveries())]
            states = {row.state.value for row in await night.store.read_in_turn(lambda reader: reader.deliveries())}
    assert sorted(kinds) == sorted(
        ["FIRING", "STILL FIRING", "RESOLVED", "FIRING", "FIRING", "RESOLVED", "NEW", "QUIET"]
    )
    assert states == {"delivered"}
    assert fake.refused == 0
    if scheme in EVENTS:
        assert fake.keyless == 0
        assert len(fake.opened) == len(set(fake.opened)) == 3, "each incident is opened once"
        assert sorted(fake.closed) == sorted(fake.opened), "and closed once"
        assert fake.open_now == set()


@pytest.mark.parametrize("url", URLS_OF_THE_PAGE)
async def test_the_urls_of_the_documentation_deliver(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = url.partition(":")[0].removesuffix("s")
    async with FakeServices(scheme) as fake:
        fake.stand_in(monkeypatch)
        async with life(tmp_path, ManualClock(), receiver("phone", url=Secret(url))) as night:
            await night.look(Verdict.FAIL, 3)
            await night.look(Verdict.PASS, 2)
    assert fake.refused == 0
    assert any("FIRING deepseek" in text for seen in fake.requests for text in texts_of(seen.said))


async def test_a_test_alert_rings_like_a_page_and_ends_like_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeServices("gotify") as fake:
        fake.stand_in(monkeypatch)
        async with life(tmp_path, ManualClock(), phone("gotify")) as night:
            await night.ingest.test_alert()
            await night.told()
            (proven,) = (await night.store.read_in_turn(lambda reader: reader.snapshot(0.0))).receivers
    assert [request.said["priority"] for request in fake.requests] == [10, 4]
    assert proven.proven_address == phone("gotify").address_hash != phone("bark").address_hash


async def a_page(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FakeServices, Incident]:
    """A service that was sent one page, and the incident it is about."""
    async with FakeServices(scheme) as fake:
        fake.stand_in(monkeypatch)
        async with life(tmp_path, ManualClock(), phone(scheme)) as night:
            await night.look(Verdict.FAIL, 3)
            (incident,) = night.ingest.open_incidents
    return fake, incident


@pytest.mark.parametrize("scheme", URLS)
async def test_the_first_80_characters_on_a_lock_screen_say_what_and_where(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, _incident = await a_page(scheme, tmp_path, monkeypatch)
    said = [" ".join(text.removeprefix("<b>").split())[:80] for text in texts_of(fake.requests[0].said)]
    assert any(text.startswith("FIRING deepseek: no text for 0 s: busy or hung") for text in said), said


def texts_of(said: object) -> Iterator[str]:
    if isinstance(said, dict):
        said = list(said.values())
    if isinstance(said, list):
        for part in said:
            yield from texts_of(part)
    elif isinstance(said, str):
        yield said


@pytest.mark.parametrize("scheme", LONGEST)
async def test_a_message_that_is_cut_keeps_its_sentence_and_its_id(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, incident = await a_page(scheme, tmp_path, monkeypatch)
    field, most = LONGEST[scheme]
    said = str(fake.requests[0].said[field])
    assert len(said) <= most
    assert f"incident {incident.id} · attempt 1" in said
    assert "deepseek" in said


async def firing_at_the_phone(night: Life) -> DeliveryView:
    rows = await night.store.read_in_turn(lambda reader: reader.deliveries())
    (found,) = [row for row in rows if row.receiver == "phone" and row.kind.value == "FIRING"]
    return found


async def test_a_refusal_for_good_tells_the_fallback_at_once_and_is_tried_shorter_once_and_not_for_days(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with FakeServices("json") as fake, FakeServices("json") as other:
        fake.answer_with = 400
        second = receiver("mail", url=Secret(f"json://127.0.0.1:{other.port}/hook"), min_severity=Severity.INFO)
        hook = Secret(f"json://127.0.0.1:{fake.port}/hook")  # a service that apprise does not slow down
        only_pages = receiver("phone", url=hook, min_severity=Severity.PAGE, fallback="mail")
        config = (only_pages, replace(second, min_severity=Severity.PAGE))
        async with life(tmp_path, clock, *config) as night:
            for _ in range(3):
                seen = replace_at(observed(Verdict.FAIL), clock.wall())
                await night.ingest.take(KEY, CheckResult((seen,)))
            async with asyncio.timeout(10):
                while fake.refused < 2:
                    await asyncio.sleep(0.01)
                    await clock.advance(0.1)
            assert fake.refused == 2, "as it was, then shorter and plainer"
            began = clock.wall()
            async with asyncio.timeout(30):
                while (row := await firing_at_the_phone(night)).state.value != "dead":
                    await clock.advance(120 if row.state.value == "queued" else 0.01)
                    await asyncio.sleep(0.01)
            assert row.attempt == 12
            assert 3600 < clock.wall() - began < 3 * 3600


async def test_what_the_service_said_of_a_refusal_reaches_the_others_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with FakeServices("pover") as fake, FakeServices("gotify") as other:
        fake.stand_in(monkeypatch)
        fake.answer_with = 401
        mail = receiver("mail", url=Secret(f"json://127.0.0.1:{other.port}/hook"))
        async with life(tmp_path, clock, phone("pover", min_severity=Severity.PAGE), mail) as night:
            for _ in range(3):
                seen = replace_at(observed(Verdict.FAIL), clock.wall())
                await night.ingest.take(KEY, CheckResult((seen,)))
            async with asyncio.timeout(10):
                while len(other.requests) < 2:
                    await asyncio.sleep(0.01)
                    await clock.advance(0.1)
    titles = [str(request.said["title"]) for request in other.requests]
    assert any(title.startswith("NEW phone: refuses") for title in titles), titles
    assert fake.refused == 1, "a wrong token does not care how long the text is"
