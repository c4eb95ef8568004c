"""A page that is acknowledged on the phone: Pushover's receipts, Telegram's button, ntfy's action."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from tests.support.alerting_path import KEY, configuration, observed, receiver
from tests.support.phones import PUSHOVER_URL, TELEGRAM_URL, FakePhones
from watchdog.clock import SystemClock
from watchdog.config import EscalateSettings, ReceiverSettings, Secret
from watchdog.ingest import Ingest
from watchdog.model import CheckResult, Incident, Severity, Verdict
from watchdog.notify import build
from watchdog.outbox import Outbox
from watchdog.phone_ack import PhoneAck
from watchdog.policy import AlertPlan
from watchdog.store import Store


class Watch:
    """Store, ingest, outbox and the asking of phones, as the daemon puts them together."""

    def __init__(self, store: Store, ingest: Ingest) -> None:
        self.store, self.ingest = store, ingest

    async def look(self, verdict: Verdict, times: int, severity: Severity = Severity.PAGE) -> None:
        for _ in range(times):
            seen = replace(observed(verdict, severity=severity), at=time.time())
            await self.ingest.take(KEY, CheckResult((seen,)))

    @property
    def incident(self) -> Incident:
        (found,) = self.ingest.open_incidents
        return found


@asynccontextmanager
async def watch(state: Path, *receivers: ReceiverSettings) -> AsyncIterator[Watch]:
    clock = SystemClock()
    store = Store.open(state, clock.wall(), linger_s=0.0)
    ingest = Ingest(store, AlertPlan.from_config(configuration(*receivers)), clock, zone=UTC)
    await ingest.start()
    built = {row.name: build(row) for row in receivers}
    channels = {name: one.ack_channel for name, one in built.items() if one.ack_channel is not None}
    phones = PhoneAck(store, ingest, clock, channels, zone=UTC)
    outbox = Outbox(store, ingest, built, clock, zone=UTC, attempted=phones.note)
    tasks = [asyncio.create_task(outbox.run()), asyncio.create_task(phones.run())]
    try:
        yield Watch(store, ingest)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        await store.close()


async def until(true: Callable[[], object], what: str, timeout_s: float = 10.0) -> float:
    """Seconds until it was true."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < timeout_s, what
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def phone(url: str, **changes: object) -> ReceiverSettings:
    return receiver("phone", **{"url": Secret(url), "acknowledge": True, **changes})


@pytest.fixture
async def phones(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakePhones]:
    async with FakePhones() as fakes:
        fakes.stand_in(monkeypatch)
        yield fakes


async def test_pushover_rings_until_its_receipt_is_acknowledged(phones: FakePhones, tmp_path: Path) -> None:
    async with watch(tmp_path, phone(PUSHOVER_URL)) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.receipts, "the page")
        assert (phones.pushed[0]["priority"], phones.pushed[0]["retry"]) == ("2", "60")
        phones.receipts["rec0"] = True
        took_s = await until(lambda: night.incident.acknowledged_at, "the acknowledgement")
        assert took_s <= 5
        by_whom = await night.store.read_in_turn(lambda reader: reader.acknowledged())
        assert by_whom[night.incident.id].reason == "acknowledged by phone"
        assert by_whom[night.incident.id].author == "phone"


async def test_an_acknowledgement_is_found_after_a_restart_and_the_end_stops_the_ringing(
    phones: FakePhones, tmp_path: Path
) -> None:
    async with watch(tmp_path, phone(PUSHOVER_URL)) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.receipts, "the page")
        await asyncio.sleep(0.1)  # the delivery is noted
    phones.receipts["rec0"] = True
    async with watch(tmp_path, phone(PUSHOVER_URL)) as night:
        await until(lambda: night.incident.acknowledged_at, "the acknowledgement")
        await night.look(Verdict.PASS, 2)
        await until(lambda: len(phones.pushed) == 2, "the end")
        assert phones.pushed[1]["priority"] != "2"
        await night.look(Verdict.FAIL, 3)
        await until(lambda: len(phones.receipts) == 2, "the next page")
        await night.look(Verdict.PASS, 2)
        await until(lambda: "rec1" in phones.cancelled, "nobody answered, and it is over: the phone stops")
        receipts = await night.store.receipts("phone")
        assert receipts == ()


async def test_only_the_newest_repetition_of_a_page_rings(phones: FakePhones, tmp_path: Path) -> None:
    repeated = phone(PUSHOVER_URL, escalate=EscalateSettings(after_s=1.0, every_s=60.0))
    async with watch(tmp_path, repeated) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.receipts, "the page")
        await asyncio.sleep(1.1)
        await night.ingest.tick()
        await until(lambda: phones.cancelled == ["rec0"], "the first page is taken back")
        assert phones.receipts.keys() == {"rec0", "rec1"}


async def test_a_telegram_button_acknowledges_and_shows_it(phones: FakePhones, tmp_path: Path) -> None:
    async with watch(tmp_path, phone(TELEGRAM_URL)) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.sent, "the page")
        assert "no text" in phones.sent[0]["text"]
        phones.press()
        took_s = await until(lambda: night.incident.acknowledged_at, "the acknowledgement")
        assert took_s <= 5
        await until(lambda: phones.toasts and phones.edited, "what the phone shows")
        assert phones.toasts[0].startswith("acknowledged by phone ")
        assert phones.edited[0]["reply_markup"]["inline_keyboard"][0][0]["text"] == phones.toasts[0]
        await night.look(Verdict.PASS, 2)
        await until(lambda: len(phones.sent) == 2, "the end")
        assert "reply_markup" not in phones.sent[1]


async def test_a_button_pressed_elsewhere_or_forged_or_of_another_incident_counts_for_nothing(
    phones: FakePhones, tmp_path: Path
) -> None:
    async with watch(tmp_path, phone(TELEGRAM_URL)) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.sent, "the page")
        phones.press(chat=666)
        real = phones.sent[0]["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
        phones.answer_in_telegram(real[:-1] + ("0" if real[-1] != "0" else "1"), 4711)
        phones.answer_in_telegram(real.replace(night.incident.id, "0000aaaa"), 4711)
        phones.answer_in_telegram("ack", 4711)
        phones.update({"data": 7, "message": []})
        await until(lambda: not phones.updates, "every update is read and left behind")
        assert night.incident.acknowledged_at is None
        phones.press()
        await until(lambda: night.incident.acknowledged_at, "the real one counts")
        await night.look(Verdict.PASS, 2)
        await night.look(Verdict.FAIL, 3)
        await until(lambda: len(phones.sent) == 3, "another incident")
        phones.press(0)
        await until(lambda: not phones.updates, "the old button is read")
        assert night.incident.acknowledged_at is None, "an old button does not answer for a new incident"


async def test_an_ntfy_action_goes_to_a_second_topic_that_only_the_page_names(
    phones: FakePhones, tmp_path: Path
) -> None:
    async with watch(tmp_path, phone(phones.ntfy_url)) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.topics.get("pages"), "the page")
        forged = {"event": "message", "message": f"ack {night.incident.id} 0123456789abcdef", "actions": ""}
        topic = phones.topics["pages"][0]["actions"].split(",")[2].strip().rpartition("/")[2]
        phones.topics[topic] = [forged, {"message": 3}, {"event": "open"}]
        phones.topics["pages"].append({"message": "ack " + night.incident.id, "actions": ""})
        await asyncio.sleep(2.5)
        assert night.incident.acknowledged_at is None
        assert phones.tap() == topic
        took_s = await until(lambda: night.incident.acknowledged_at, "the acknowledgement")
        assert took_s <= 5
        await until(
            lambda: phones.topics["pages"][-1].get("title", "").startswith("acknowledged by phone"), "told back"
        )
        assert phones.topics["pages"][-1]["priority"] == 2


async def test_the_login_of_an_ntfy_server_is_used_to_read_and_is_in_no_message(
    phones: FakePhones, tmp_path: Path
) -> None:
    url = phones.ntfy_url.replace("127.0.0.1", "me:s3cret-word@127.0.0.1")
    async with watch(tmp_path, phone(url)) as night:
        await night.look(Verdict.FAIL, 3)
        await until(lambda: len(phones.logins) >= 2, "page and poll")
        assert set(phones.logins) == {"Basic bWU6czNjcmV0LXdvcmQ="}
        assert "s3cret-word" not in str(phones.topics)


async def test_warnings_and_ends_ask_for_no_answer_and_an_idle_night_asks_nobody(
    phones: FakePhones, tmp_path: Path
) -> None:
    async with watch(tmp_path, phone(phones.ntfy_url)) as night:
        await night.look(Verdict.FAIL, 3, Severity.WARN)
        await until(lambda: phones.topics.get("pages"), "the warning")
        await asyncio.sleep(2.5)
        assert phones.topics["pages"][0]["actions"] == ""
        assert len(phones.logins) == 1, "only the message itself"


async def test_a_service_that_cannot_be_asked_harms_nobody_and_is_asked_again(
    phones: FakePhones, tmp_path: Path
) -> None:
    async with watch(tmp_path, phone(PUSHOVER_URL)) as night:
        phones.dead = True
        await night.look(Verdict.FAIL, 3)
        await until(lambda: phones.receipts, "the page")
        phones.receipts["rec0"] = True
        await asyncio.sleep(2.5)
        assert night.incident.acknowledged_at is None
        phones.dead = False
        await until(lambda: night.incident.acknowledged_at, "the acknowledgement")
