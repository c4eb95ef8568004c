"""One apprise service as a receiver: its own thread, its own deadline, its own `Apprise` object.

apprise's own limits are per socket operation, and its shared thread pool lets one hung target starve the others; so
its timeouts are off here, its call runs on a thread of this receiver alone, and we stop waiting after `timeout_s`.
"""

from __future__ import annotations

import asyncio
import copy
import http.client
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from watchdog.config import ReceiverSettings
from watchdog.message.redaction import Redactor
from watchdog.message.shortening import fitted, plain
from watchdog.model import Delivery, Incident, NotificationKind, Outcome, OutcomeReason, Severity, Text
from watchdog.notify.ack_channels import channel_for
from watchdog.notify.exchange import Exchange, cause_of, mail_cause
from watchdog.notify.services import Manner, close_by_alias, limits_of, plain_for
from watchdog.notify.urls import leave_deleted_directory, mute_loggers
from watchdog.policy import Grouping
from watchdog.text import clean_line

if TYPE_CHECKING:
    import apprise

_MOST_STUCK = 3
"""Threads of one receiver that may hang at the same time; after that nothing is sent until one of them ends."""
_DETAIL = 300
_ANSWER = 120


@dataclass(slots=True)
class _Sending:
    """One call that runs on a thread of its own; it may outlive our patience."""

    row: int
    done: asyncio.Future[Outcome]


class AppriseReceiver:
    """Sends through one apprise URL."""

    refresh_s: float | None = None

    def __init__(self, settings: ReceiverSettings, redactor: Redactor) -> None:
        if settings.url is None:
            raise ValueError(f"receiver {settings.name} has no url")
        self.name = settings.name
        self._url = settings.url
        self._timeout_s = settings.timeout_s
        self._hide = redactor
        self._plugin: apprise.NotifyBase | None = None
        self._plugin_lock = threading.Lock()
        self._running: dict[int, _Sending] = {}
        self._manner = Manner.of(self._url.reveal())
        self.grouping = Grouping.KEYED if self._manner.opens_and_closes else Grouping.LISTED
        self.ack_channel = channel_for(settings, self._opened_plugin)

    async def send(self, delivery: Delivery, text: Text, now: float) -> Outcome:  # noqa: ARG002 - part of `Receiver`
        """Hand over one message within `timeout_s`.

        If an earlier attempt at the same message still hangs, it is waited for instead of sending twice: slow services
        do deliver after we stopped waiting.
        """
        sending = self._running.get(delivery.row)
        if sending is None:
            if sum(not other.done.done() for other in self._running.values()) >= _MOST_STUCK:
                return Outcome(OutcomeReason.STUCK, f"{_MOST_STUCK} earlier messages hang in the service")
            sending = self._start(delivery.row, lambda: self._deliver(delivery, text))
        try:
            outcome = await asyncio.wait_for(asyncio.shield(sending.done), self._timeout_s)
        except TimeoutError:
            return Outcome(OutcomeReason.TIMEOUT, f"no answer within {self._timeout_s:g} s", self._timeout_s)
        self._running.pop(delivery.row, None)
        return outcome

    async def refresh(self, firing: Iterable[Incident], now: float) -> Outcome:  # noqa: ARG002 - part of `Receiver`
        """Nothing: an apprise service keeps no state."""
        return Outcome(OutcomeReason.DELIVERED)

    async def close(self) -> None:
        """Nothing to wait for: threads that hang are daemon threads and die with the process."""

    def _start(self, row: int, work: Callable[[], Outcome]) -> _Sending:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome] = loop.create_future()

        def run() -> None:
            outcome = work()
            with suppress(RuntimeError):  # the loop is closed: we stopped waiting, and the row is tried again
                loop.call_soon_threadsafe(_settle, done, outcome)

        self._running[row] = _Sending(row, done)
        threading.Thread(target=run, name=f"notify-{self.name}", daemon=True).start()
        return self._running[row]

    def _deliver(self, delivery: Delivery, text: Text) -> Outcome:
        """On the receiver's thread: call apprise and read its result, target by target."""
        exchange = Exchange.lasting(self._timeout_s)
        try:
            # A copy: another thread may still be sending with the original.
            plugin = copy.copy(self._opened_plugin())
            self._manner.prepare(plugin, delivery)
            asks = self.ack_channel is not None and _waits_for_an_answer(delivery)
            if asks and self.ack_channel is not None:
                self.ack_channel.ask(plugin, exchange, delivery.key)
            with exchange:
                outcome = self._hand_over(plugin, delivery, text, exchange)
                if exchange.status in _NOT_THIS_TEXT:
                    outcome = self._hand_over(plugin, delivery, plain(text), exchange)
            if outcome.delivered and asks and self.ack_channel is not None:
                return replace(outcome, receipt=self.ack_channel.handle(exchange.answer))
        except Exception as error:  # noqa: BLE001 - plugins of many authors: whatever one raises is a failed attempt
            return Outcome(OutcomeReason.UNUSABLE, self._plain(f"{type(error).__name__}: {error}"))
        return outcome

    def _hand_over(self, plugin: Any, delivery: Delivery, text: Text, exchange: Exchange) -> Outcome:
        """One message through apprise, cut to the service's room."""
        if delivery.kind.is_end and self._manner.closes_by_alias:
            exchange.begin()
            return self._outcome(close_by_alias(plugin, delivery.key), (), exchange)
        import apprise  # noqa: PLC0415 - 27 MiB and a quarter of a second, only for who sends

        exchange.begin()
        cut = fitted(
            Text(plain_for(plugin, text.title), plain_for(plugin, text.body)), limits_of(self._manner.service, plugin)
        )
        result = apprise.Apprise(plugin, asset=plugin.asset).notify(
            body=cut.body,
            title=cut.title,
            notify_type=apprise.NotifyType(_TYPES.get(delivery.kind) or _SEVERITIES[delivery.severity]),
            body_format=apprise.NotifyFormat.TEXT,
            log_level=logging.WARNING,
        )
        said = [entry.message for target in result for attempt in target.attempts for entry in attempt]
        if not result and exchange.status is None:
            cause = cause_of(exchange.error) if exchange.error is not None else mail_cause(plugin)
            said = [cause] if cause else said
        return self._outcome(bool(result), said, exchange, timed_out=result.status.name == "TIMEOUT")

    def _outcome(self, good: bool, said: Iterable[str], exchange: Exchange, *, timed_out: bool = False) -> Outcome:
        if good:
            return Outcome(OutcomeReason.DELIVERED)
        words = _answer_of(exchange) if exchange.refused else "; ".join(dict.fromkeys(said))
        return Outcome(
            OutcomeReason.TIMEOUT if timed_out else OutcomeReason.REFUSED,
            self._plain(words or "the service did not take it"),
            answered=exchange.refused,
            permanent=exchange.status in _FOR_GOOD,
            retry_after_s=exchange.retry_after_s,
        )

    def _opened_plugin(self) -> apprise.NotifyBase:
        with self._plugin_lock:
            if self._plugin is None:
                self._plugin = open_plugin(self._url.reveal())
            return self._plugin

    def _plain(self, text: str) -> str:
        return clean_line(self._hide(text))[:_DETAIL]


def _answer_of(exchange: Exchange) -> str:
    """The service's own answer, such as `HTTP 400 Bad Request: chat not found`."""
    status = exchange.status or 0
    phrase = http.client.responses.get(status, "")
    answer = clean_line(exchange.answer.decode("utf-8", "replace"))[:_ANSWER].strip()
    return f"HTTP {status} {phrase}".strip() + (f": {answer}" if answer else "")


_NOT_THIS_TEXT = frozenset({400, 413, 422})
"""Answers that may be about the text: it is sent once more, shorter and plainer."""
_FOR_GOOD = _NOT_THIS_TEXT | {401, 403, 404, 410}
"""Answers that say that the same message will never be taken."""
_TYPES = {NotificationKind.RESOLVED: "success", NotificationKind.QUIET: "info"}
_SEVERITIES = {Severity.PAGE: "failure", Severity.WARN: "warning", Severity.INFO: "info"}


def _settle(done: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)


def _waits_for_an_answer(delivery: Delivery) -> bool:
    """Whether this message is a page that somebody has to acknowledge: it is neither over nor acknowledged."""
    incidents = [member.incident for member in delivery.each if member.incident is not None]
    waits = any(one.closed_at is None and one.acknowledged_at is None for one in incidents)
    return waits and delivery.severity is Severity.PAGE and not delivery.kind.is_end


def open_plugin(url: str) -> apprise.NotifyBase:
    """apprise's object for `url`, set up the way we use it.

    Raises `ValueError` (without the URL) if apprise does not accept it.
    """
    mute_loggers()
    leave_deleted_directory()
    import apprise  # noqa: PLC0415 - see above

    # Without a limit of its own apprise sends on the calling thread, which is ours.
    asset = apprise.AppriseAsset(service_timeout=0, storage_mode=apprise.PersistentStoreMode.MEMORY)
    asset.http_redirects = False
    service = apprise.Apprise(asset=asset)
    if not service.add(url) or len(service) != 1:
        raise ValueError("apprise does not accept the url of this receiver; `inference-watchdog validate` says why")
    return service[0]


def phone_words(url: str) -> str:
    """What to switch on at the phone so that a page to this URL is heard at night; "" where nothing is known."""
    service = Manner.of(url).service
    return "" if service is None else service.phone


def manner_words(url: str) -> str:
    """How loud the messages to an apprise URL ring, and what its service does with them. Imports apprise."""
    manner = Manner.of(url)
    return manner.words(limits_of(manner.service, open_plugin(url)))
