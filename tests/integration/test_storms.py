"""Many incidents at once: one message at once, the rest together within ten seconds, each its own incident."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from tests.support.alerting_path import Station, configuration, line_seen, observed, receiver, replace_at
from tests.support.clock import ManualClock
from tests.support.services import URLS, FakeServices
from watchdog.config import Config, ReceiverSettings, Secret
from watchdog.ingest import Ingest
from watchdog.model import CheckResult, Severity, Verdict
from watchdog.notify import build
from watchdog.outbox import Outbox
from watchdog.policy import AlertPlan, Grouping
from watchdog.store import Requests, Store

SERVERS = tuple(f"server-{number:03d}" for number in range(200))


def fleet(*receivers: ReceiverSettings) -> Config:
    plain = configuration(*receivers)
    return replace(plain, servers=tuple(replace(plain.servers[0], name=name, hosts=()) for name in SERVERS))


async def storm(station: Station, verdict: Verdict, times: int, names: tuple[str, ...] = SERVERS) -> None:
    """Every server fails, or is well again, in the same second; the first of them just before the others."""
    await station.quiet()
    for _ in range(times):
        for name in names:
            key = f"generation/{name}"
            seen = replace_at(observed(verdict, key, labels={"server": name}), station.clock.wall())
            await station.ingest.take(key, CheckResult((seen,)))
            if name == names[0]:
                await station.quiet()
    await station.quiet()


def listed(state: Path, grouping: Grouping = Grouping.LISTED) -> Station:
    station = Station(state, fleet(receiver("phone")))
    station.sinks["phone"].grouping = grouping
    return station


async def test_two_hundred_servers_down_at_once_are_two_messages_and_two_hundred_incidents(tmp_path: Path) -> None:
    async with listed(tmp_path) as station:
        phone = station.sinks["phone"]
        await storm(station, Verdict.FAIL, 3)
        assert phone.titles == [phone.titles[0]], "the first at once"
        assert phone.titles[0].startswith("FIRING server-000: no text")
        await station.clock.advance(8.1)
        await station.quiet()
        assert len(phone.accepted) == 2
        delivery, text = phone.accepted[1]
        assert len(delivery.each) == 199
        assert text.title.startswith("FIRING 199 servers, no text: server-001, server-002")
        assert "more" in text.title
        assert "(" + delivery.each[0].incident_id + ")" in text.body
        assert len(text.body) <= 1500
        assert len({incident.id for incident in station.ingest.open_incidents}) == 200

        await station.clock.advance(60)
        await storm(station, Verdict.PASS, 2)
        await station.clock.advance(8.1)
        await station.quiet()
        assert phone.kinds == ["FIRING", "FIRING", "RESOLVED", "RESOLVED"]
        assert phone.titles[3].startswith("RESOLVED 199 servers: server-001")
        ended = {member.incident_id for sent, _ in phone.accepted if sent.kind.is_end for member in sent.each}
        assert len(ended) == 200
        assert station.ingest.open_incidents == ()


async def test_no_page_waits_longer_than_ten_seconds_and_another_topic_does_not_wait_at_all(tmp_path: Path) -> None:
    async with listed(tmp_path) as station:
        phone = station.sinks["phone"]
        await storm(station, Verdict.FAIL, 3, SERVERS[:1])
        await station.clock.advance(1)
        await storm(station, Verdict.FAIL, 3, SERVERS[1:2])
        assert len(phone.accepted) == 1
        await station.look(line_seen("worker"))
        await station.look(line_seen("head"))
        assert len(phone.accepted) == 3, "a kernel finding, on each host"
        await station.clock.advance(9)
        await station.quiet()
        assert [round(sent.created_at - 1_795_000_000.0) for sent, _ in phone.accepted] == [0, 1, 1, 1]


async def test_a_page_does_not_wait_behind_a_warning(tmp_path: Path) -> None:
    async with listed(tmp_path) as station:
        await station.look(line_seen(device="0000:01:00.0", severity=Severity.WARN))
        await station.look(line_seen(device="0000:02:00.0", severity=Severity.PAGE))
        assert len(station.sinks["phone"].accepted) == 2


async def test_a_storm_of_devices_on_one_host_is_a_few_messages(tmp_path: Path) -> None:
    async with listed(tmp_path) as station:
        for number in range(250):
            await station.ingest.take(
                "follow", CheckResult((replace_at(line_seen(device=f"veth{number}"), station.clock.wall()),))
            )
            if number % 10 == 0:
                await station.clock.advance(1)
        await station.clock.advance(10)
        await station.quiet()
        phone = station.sinks["phone"]
        assert sum(len(sent.each) for sent, _ in phone.accepted) == 250
        assert len(phone.accepted) <= 5
        assert phone.titles[1].startswith("NEW ")
        assert " findings on worker: pcie.aer.fatal on veth" in phone.titles[1]


async def test_a_message_of_many_that_fails_or_is_interrupted_is_sent_again_as_it_was(tmp_path: Path) -> None:
    async with listed(tmp_path) as station:
        phone = station.sinks["phone"]
        await storm(station, Verdict.FAIL, 3, SERVERS[:4])
        phone.broken = True
        await station.clock.advance(8.1)
        await station.quiet()
        assert phone.tried == 2
        await station.restart()
        phone.broken = False
        await station.clock.advance(60)
        await station.quiet()
        sent, _text = phone.accepted[1]
        assert [member.attempt for member in sent.each] == [sent.attempt] * 3
        assert sent.attempt >= 2
        assert sent.group_id == f"{sent.incident_id}-all"


async def test_the_id_of_a_group_acknowledges_all_of_it(tmp_path: Path) -> None:
    async with listed(tmp_path) as station:
        await storm(station, Verdict.FAIL, 3, SERVERS[:4])
        await station.clock.advance(8.1)
        await station.quiet()
        sent, text = station.sinks["phone"].accepted[1]
        assert f"inference-watchdog ack {sent.group_id}" in text.body
        with Requests.open(tmp_path) as ask:
            ask.acknowledge(sent.group_id, station.clock.wall(), "on it", "somebody")
        await station.pass_time(1)
        waiting = [incident.key for incident in station.ingest.open_incidents if incident.acknowledged_at is None]
        assert waiting == ["generation/server-000"]


@pytest.mark.parametrize("scheme", ["pagerduty", "opsgenie"])
async def test_a_paging_service_opens_one_incident_for_a_group_and_closes_it_with_the_last(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    settings = receiver("phone", url=Secret(URLS[scheme]))
    async with FakeServices(scheme) as fake:
        fake.stand_in(monkeypatch)
        store = Store.open(tmp_path, clock.wall(), linger_s=0.0)
        ingest = Ingest(store, AlertPlan.from_config(fleet(settings)), clock, zone=UTC)
        await ingest.start()
        outbox = Outbox(store, ingest, {"phone": build(settings)}, clock, zone=UTC)
        task = asyncio.create_task(outbox.run())

        async def look(verdict: Verdict, times: int, names: tuple[str, ...]) -> None:
            for _ in range(times):
                for name in names:
                    seen = observed(verdict, f"generation/{name}", labels={"server": name})
                    await ingest.take(seen.key, CheckResult((replace_at(seen, clock.wall()),)))
            async with asyncio.timeout(20):
                while any(not row.is_done for row in await store.read_in_turn(lambda reader: reader.deliveries())):
                    await asyncio.sleep(0.01)
                    await clock.advance(0.2)

        try:
            await look(Verdict.FAIL, 3, SERVERS[:1])
            await look(Verdict.FAIL, 3, SERVERS[1:6])
            assert len(fake.opened) == 2
            await look(Verdict.PASS, 2, SERVERS[:4])
            assert len(fake.closed) == 1, "the first has an incident of its own; of the group two still fail"
            await look(Verdict.PASS, 2, SERVERS[4:6])
            assert sorted(fake.closed) == sorted(fake.opened)
            assert fake.open_now == set()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await store.close()
