"""Receivers against real webhooks and mail servers, well-behaved and not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import pytest

from tests.support.receivers import Mood, SmtpSink, WebhookSink
from watchdog.config import ReceiverSettings, Secret
from watchdog.message import finish
from watchdog.model import Delivery, NotificationKind, OutcomeReason, Severity, Text
from watchdog.notify import AppriseReceiver, build, url_problem

NOW = 1_795_000_000.0


class _Everything(logging.Handler):
    """Keeps what reaches the root logger, except the access log of the webhook that this test itself runs."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "aiohttp.access":
            self.lines.append(record.getMessage())


@pytest.fixture
def root_log() -> Iterator[list[str]]:
    """What a program that logs at DEBUG would write (pytest's own capture also hears loggers that do not propagate)."""
    root, handler = logging.getLogger(), _Everything()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(level)


def delivery(row: int = 1, **changes: Any) -> Delivery:
    values: dict[str, Any] = {
        "row": row,
        "receiver": "hook",
        "incident_id": "6f39e044",
        "kind": NotificationKind.FIRING,
        "severity": Severity.PAGE,
        "title": "FIRING deepseek: no text for 6 min",
        "body": "line *one* _two_ [x](y)\n- kernel: <AER> & co",
        "created_at": NOW,
        "attempt": 1,
    }
    return Delivery(**{**values, **changes})


def text_of(sent: Delivery) -> Text:
    return finish(sent, now=NOW, zone=UTC)


def receiver_at(url: str, timeout_s: float = 5.0) -> AppriseReceiver:
    made = build(ReceiverSettings(name="hook", url=Secret(url), timeout_s=timeout_s))
    assert isinstance(made, AppriseReceiver)
    return made


async def test_a_webhook_gets_title_body_and_type_untouched() -> None:
    async with WebhookSink() as sink:
        outcome = await receiver_at(sink.url()).send(delivery(), text_of(delivery()), NOW)
        assert outcome.reason is OutcomeReason.DELIVERED
        (arrived,) = sink.arrived
        assert arrived["title"] == "FIRING deepseek: no text for 6 min"
        assert arrived["message"].startswith("line *one* _two_ [x](y)\n- kernel: <AER> & co")
        assert arrived["message"].endswith("incident 6f39e044 · attempt 1")
        assert arrived["type"] == "failure"


@pytest.mark.parametrize(
    ("kind", "severity", "word"),
    [
        (NotificationKind.FIRING, Severity.PAGE, "failure"),
        (NotificationKind.STILL_FIRING, Severity.PAGE, "failure"),
        (NotificationKind.NEW, Severity.WARN, "warning"),
        (NotificationKind.NEW, Severity.INFO, "info"),
        (NotificationKind.RESOLVED, Severity.PAGE, "success"),
        (NotificationKind.QUIET, Severity.PAGE, "info"),
    ],
)
async def test_the_type_of_a_message_follows_its_kind_and_severity(
    kind: NotificationKind, severity: Severity, word: str
) -> None:
    async with WebhookSink() as sink:
        sent = delivery(kind=kind, severity=severity)
        assert (await receiver_at(sink.url()).send(sent, text_of(sent), NOW)).delivered
        assert sink.arrived[0]["type"] == word


@pytest.mark.parametrize("mood", [Mood.ERROR, Mood.REDIRECT])
async def test_an_error_or_a_redirect_is_no_delivery(mood: Mood) -> None:
    async with WebhookSink(mood) as sink:
        outcome = await receiver_at(sink.url()).send(delivery(), text_of(delivery()), NOW)
        assert outcome.reason is OutcomeReason.REFUSED
        assert sink.arrived == []
        assert sink.refused == 1


async def test_a_closed_port_is_no_delivery_and_says_nothing_of_the_url() -> None:
    async with WebhookSink() as sink:
        url = sink.url().replace("/hook", "/hook-with-a-token-1234567")
    outcome = await receiver_at(url).send(delivery(), text_of(delivery()), NOW)
    assert not outcome.delivered
    assert "token" not in outcome.detail


@pytest.mark.parametrize("mood", [Mood.HANG, Mood.DRIP])
@pytest.mark.alone
async def test_a_webhook_that_hangs_or_drips_is_left_after_our_own_deadline(mood: Mood) -> None:
    async with WebhookSink(mood) as sink:
        began = time.monotonic()
        outcome = await receiver_at(sink.url(), timeout_s=0.5).send(delivery(), text_of(delivery()), NOW)
        assert outcome.reason is OutcomeReason.TIMEOUT
        assert time.monotonic() - began < 2.0


async def test_a_slow_webhook_that_took_the_message_after_all_gets_it_once() -> None:
    async with WebhookSink(Mood.SLOW) as sink:
        receiver = receiver_at(sink.url(), timeout_s=0.3)
        first = await receiver.send(delivery(), text_of(delivery()), NOW)
        assert first.reason is OutcomeReason.TIMEOUT
        await sink.wait_for(1)
        second = await receiver.send(delivery(attempt=2), text_of(delivery(attempt=2)), NOW)
        assert second.delivered
        assert len(sink.arrived) == 1


async def test_no_more_than_a_few_threads_ever_hang() -> None:
    async with WebhookSink(Mood.HANG) as sink:
        receiver = receiver_at(sink.url(), timeout_s=0.1)
        outcomes = [await receiver.send(delivery(row), text_of(delivery(row)), NOW) for row in range(5)]
        assert [outcome.reason for outcome in outcomes[-2:]] == [OutcomeReason.STUCK] * 2


@pytest.mark.alone
async def test_a_receiver_that_hangs_starves_no_other() -> None:
    async with WebhookSink(Mood.HANG) as stuck, WebhookSink() as well:
        hanging = [receiver_at(stuck.url(), timeout_s=20.0) for _ in range(8)]
        tasks = [asyncio.create_task(one.send(delivery(), text_of(delivery()), NOW)) for one in hanging]
        await asyncio.sleep(0.2)
        began = time.monotonic()
        assert (await receiver_at(well.url()).send(delivery(), text_of(delivery()), NOW)).delivered
        assert time.monotonic() - began < 2.0
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_mail_arrives_as_plain_text_with_the_title_as_subject() -> None:
    async with SmtpSink() as sink:
        url = f"mailto://127.0.0.1:{sink.port}?from=watchdog@example.org&to=me@example.org&format=text&mode=insecure"
        receiver = build(ReceiverSettings(name="mail", url=Secret(url)))
        assert (await receiver.send(delivery(), text_of(delivery()), NOW)).delivered
        (mail,) = sink.arrived
        assert mail["Subject"] == "FIRING deepseek: no text for 6 min"
        assert "incident 6f39e044 · attempt 1" in mail.get_payload(decode=True).decode()


async def test_a_url_apprise_rejects_is_a_failed_attempt_without_the_url(root_log: list[str]) -> None:
    outcome = await receiver_at("slack://only-one-secret-token").send(delivery(), text_of(delivery()), NOW)
    assert outcome.reason is OutcomeReason.UNUSABLE
    assert "secret" not in outcome.detail
    assert "secret" not in "".join(root_log)


async def test_nothing_of_a_url_is_logged_even_at_debug(root_log: list[str]) -> None:
    async with WebhookSink() as sink:
        url = f"json://user-name-xyz:pass-word-xyz@127.0.0.1:{sink.port}/path-token-xyz?+X-Key=header-value-xyz"
        receiver = receiver_at(url)
        await receiver.send(delivery(), text_of(delivery()), NOW)
        sink.mood = Mood.ERROR
        outcome = await receiver.send(delivery(2), text_of(delivery(2)), NOW)
    assert "xyz" not in outcome.detail + "".join(root_log)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("jsno://127.0.0.1", "did you mean `json://`"),
        ("https://hooks.example.org/x", "did you mean `jsons://`"),
        ("ntfy://", "no topic"),
        ("discord://x/y", "webhook's number"),
        ("bark://127.0.0.1/", "names nobody"),
        ("json://a.example,json://b.example", "2 URLs in one"),
        ("slack://one", "slack://{token_a}/{token_b}/{token_c}"),
        ("me@example.org", "not a URL"),
        ("syslog://", "no daemon should alert"),
    ],
)
def test_a_url_that_could_never_deliver_is_explained_without_repeating_it(url: str, words: str) -> None:
    problem = url_problem(url)
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1:8080/hook",
        "ntfys://my-alerts",
        "mailtos://user:pass@example.org?to=me@example.org",
        "discord://123456789012345678/abcdefghijklmnopqrstuvwxyz",
    ],
)
def test_a_good_url_has_no_problem(url: str) -> None:
    assert url_problem(url) is None
