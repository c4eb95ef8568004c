"""How a person acknowledges a page on the phone: Pushover's receipts, a Telegram button, an ntfy action.

Outbound only. A channel has two sides: on the receiver's thread it gives a page the means to be answered, and in the
event loop it asks the service what was answered. What is answered carries a code that only our own message had.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urljoin, urlsplit

from watchdog.config import ReceiverSettings
from watchdog.http_call import HttpReply, http_call
from watchdog.json_values import loads_untrusted
from watchdog.model import Json
from watchdog.notify.exchange import Exchange

_CALL_TIMEOUT_S = 4.0
_READ_BYTES = 1 << 18
_CODE_LENGTH = 16
_BUTTON = "Acknowledge"
_DONE = re.compile(r"ack ([0-9a-z-]{1,20}) ([0-9a-f]{16})")


class AckError(Exception):
    """The service did not do it; the text is for the log, without secrets. `refused`: it never will."""

    def __init__(self, what: str, reply: HttpReply | None = None) -> None:
        status = None if reply is None else reply.status
        why = "" if reply is None else f": {reply.problem or f'HTTP {status}'}"
        super().__init__(what + why)
        self.refused = status is not None and 400 <= status < 500 and status != 429


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a service handed us for one delivered page, to ask about it or to take it back; kept until that is done."""

    row: int
    incident_id: str
    handle: str


class AckChannel(Protocol):
    """One receiver's way to answer a page."""

    def ask(self, plugin: Any, exchange: Exchange, incident_id: str) -> None:
        """On the receiver's thread: let the page that is sent next carry a way to acknowledge it."""
        ...

    def handle(self, answer: bytes) -> str:
        """What to keep of the service's answer to the page; "" for nothing."""
        ...

    async def acknowledged(self, incident_ids: Collection[str], receipts: Collection[Receipt]) -> set[str]:
        """Which of the open incidents a person has acknowledged on the phone. Raises `AckError`."""
        ...

    async def confirm(self, incident_id: str, said: str) -> None:
        """Tell the phone that it was heard: `said` is one short line. Raises `AckError`."""
        ...

    async def take_back(self, receipt: Receipt, said: str) -> None:
        """The page needs no answer any more. Raises `AckError` if that should be tried again."""
        ...


def channel_for(settings: ReceiverSettings, plugin: Callable[[], Any]) -> AckChannel | None:
    """The channel of a receiver that asks for one; `plugin` gives apprise's object of its URL and may block."""
    if not settings.acknowledge or settings.url is None:
        return None
    url = settings.url.reveal()
    scheme = url.strip().partition("://")[0].lower()
    if scheme == "pover":
        return PushoverReceipts(plugin)
    if scheme == "tgram":
        return TelegramButtons(plugin, _Codes(url))
    return NtfyReplies(plugin, _Codes(url))


class _Codes:
    """Codes that only who saw our message can know, one for each incident. The receiver's address is the secret."""

    def __init__(self, url: str) -> None:
        self._key = hashlib.sha256(b"inference-watchdog acknowledge " + url.encode()).digest()

    def topic(self) -> str:
        """An ntfy topic that nobody guesses."""
        return "iw-ack-" + hmac.new(self._key, b"topic", hashlib.sha256).hexdigest()[:24]

    def answer(self, incident_id: str) -> str:
        """The text that acknowledges the incident."""
        code = hmac.new(self._key, incident_id.encode(), hashlib.sha256).hexdigest()[:_CODE_LENGTH]
        return f"ack {incident_id} {code}"

    def incident_in(self, text: object) -> str | None:
        """The incident that `text` acknowledges, or None if it is not from one of our messages."""
        found = _DONE.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 100 else None
        if found is None or not hmac.compare_digest(self.answer(found[1]), found[0]):
            return None
        return found[1]


def _json(reply: HttpReply, what: str) -> Any:
    """The JSON of a good answer; raises `AckError` in plain words."""
    if reply.status is None or reply.status >= 300:
        raise AckError(what, reply)
    try:
        return loads_untrusted(reply.body)
    except ValueError:
        raise AckError(f"{what}: the answer is not JSON") from None


def _field(value: Json, *names: str) -> Json:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class PushoverReceipts:
    """A page is an emergency message: the phone repeats it until it is acknowledged, and the receipt says so."""

    _RETRY_S, _EXPIRE_S = 60, 3600

    def __init__(self, plugin: Callable[[], Any]) -> None:
        self._plugin = plugin

    def ask(self, plugin: Any, exchange: Exchange, incident_id: str) -> None:  # noqa: ARG002 - part of `AckChannel`
        plugin.priority = 2
        plugin.interval = getattr(plugin, "interval", self._RETRY_S)
        plugin.expire = getattr(plugin, "expire", self._EXPIRE_S)

    def handle(self, answer: bytes) -> str:
        try:
            receipt = _field(loads_untrusted(answer), "receipt")
        except ValueError:
            return ""
        return receipt if isinstance(receipt, str) and re.fullmatch(r"[A-Za-z0-9]{1,64}", receipt) else ""

    async def acknowledged(self, incident_ids: Collection[str], receipts: Collection[Receipt]) -> set[str]:
        plugin = await asyncio.to_thread(self._plugin)
        found = set()
        for receipt in receipts:
            if receipt.incident_id in incident_ids:
                url = urljoin(plugin.notify_url, f"receipts/{receipt.handle}.json?token={quote(plugin.token)}")
                reply = await http_call("GET", url, timeout_s=_CALL_TIMEOUT_S, read_bytes=_READ_BYTES)
                if _field(_json(reply, "Pushover's receipt"), "acknowledged") == 1:
                    found.add(receipt.incident_id)
        return found

    async def confirm(self, incident_id: str, said: str) -> None:
        """Nothing: the app itself shows it."""

    async def take_back(self, receipt: Receipt, said: str) -> None:  # noqa: ARG002 - part of `AckChannel`
        plugin = await asyncio.to_thread(self._plugin)
        reply = await http_call(
            "POST",
            urljoin(plugin.notify_url, f"receipts/{receipt.handle}/cancel.json"),
            timeout_s=_CALL_TIMEOUT_S,
            data=f"token={quote(plugin.token)}".encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            read_bytes=_READ_BYTES,
        )
        if reply.status is None or reply.status >= 500:
            raise AckError("Pushover's cancel", reply)


class TelegramButtons:
    """A page has a button; what was pressed is read with `getUpdates`. Only the configured chats count."""

    def __init__(self, plugin: Callable[[], Any], codes: _Codes) -> None:
        self._plugin, self._codes = plugin, codes
        self._next_update: int | None = None
        self._pressed: dict[str, str] = {}
        """Incident → the callback query that is to be answered."""

    def ask(self, plugin: Any, exchange: Exchange, incident_id: str) -> None:  # noqa: ARG002 - part of `AckChannel`
        button = {"text": _BUTTON, "callback_data": self._codes.answer(incident_id)}

        def add_button(request: Any) -> None:
            if urlsplit(request.url).path.endswith("/sendMessage"):
                message = json.loads(request.body)
                request.prepare_body(json.dumps(message | {"reply_markup": {"inline_keyboard": [[button]]}}), None)

        exchange.amend = add_button

    def handle(self, answer: bytes) -> str:
        try:
            sent = _field(loads_untrusted(answer), "result")
        except ValueError:
            return ""
        chat, message = _field(sent, "chat", "id"), _field(sent, "message_id")
        return f"{chat}:{message}" if isinstance(chat, int) and isinstance(message, int) else ""

    async def acknowledged(self, incident_ids: Collection[str], receipts: Collection[Receipt]) -> set[str]:  # noqa: ARG002 - part of `AckChannel`
        plugin = await asyncio.to_thread(self._plugin)
        chats = {str(chat) for chat, _topic in plugin.targets}
        wanted: dict[str, Any] = {"timeout": 0, "allowed_updates": ["callback_query"]}
        if self._next_update is not None:
            wanted["offset"] = self._next_update
        updates = _field(await self._call("getUpdates", wanted), "result")
        found = set()
        for update in updates if isinstance(updates, list) else ():
            number, query = _field(update, "update_id"), _field(update, "callback_query")
            if isinstance(number, int):
                self._next_update = max(self._next_update or 0, number + 1)
            chat = _field(query, "message", "chat")
            names = {str(_field(chat, "id")), f"@{_field(chat, 'username')}"}
            incident = self._codes.incident_in(_field(query, "data"))
            if incident is not None and incident in incident_ids and names & chats:
                found.add(incident)
                self._pressed[incident] = str(_field(query, "id"))
        return found

    async def confirm(self, incident_id: str, said: str) -> None:
        query = self._pressed.pop(incident_id, None)
        if query is not None:
            await self._call("answerCallbackQuery", {"callback_query_id": query, "text": said})

    async def take_back(self, receipt: Receipt, said: str) -> None:
        chat, _, message = receipt.handle.rpartition(":")
        rest = [[{"text": said, "callback_data": "done"}]] if said else []
        try:
            await self._call(
                "editMessageReplyMarkup",
                {"chat_id": int(chat), "message_id": int(message), "reply_markup": {"inline_keyboard": rest}},
            )
        except AckError as error:
            if not error.refused:  # it is too old, or was deleted
                raise

    async def _call(self, method: str, wanted: dict[str, Any]) -> Json:
        plugin = await asyncio.to_thread(self._plugin)
        url = f"{plugin.notify_url}{plugin.bot_token}/{method}"
        reply = await http_call("POST", url, timeout_s=_CALL_TIMEOUT_S, json=wanted, read_bytes=_READ_BYTES)
        answer: Json = _json(reply, f"Telegram's {method}")
        return answer


class NtfyReplies:
    """A page has an action that posts to a second topic, whose name only our message holds; we read that topic."""

    def __init__(self, plugin: Callable[[], Any], codes: _Codes) -> None:
        self._plugin, self._codes = plugin, codes

    def ask(self, plugin: Any, exchange: Exchange, incident_id: str) -> None:
        answer = self._codes.answer(incident_id)
        action = (
            f"http, {_BUTTON}, {self._address(plugin)}/{self._codes.topic()}, method=POST, body={answer}, clear=true"
        )

        def add_action(request: Any) -> None:
            others = request.headers.get("X-Actions")
            request.headers["X-Actions"] = f"{others}; {action}" if others else action

        exchange.amend = add_action

    def handle(self, answer: bytes) -> str:  # noqa: ARG002 - part of `AckChannel`
        return ""

    async def acknowledged(self, incident_ids: Collection[str], receipts: Collection[Receipt]) -> set[str]:  # noqa: ARG002 - part of `AckChannel`
        plugin = await asyncio.to_thread(self._plugin)
        url = f"{self._address(plugin)}/{self._codes.topic()}/json?poll=1&since=all"
        reply = await http_call(
            "GET", url, timeout_s=_CALL_TIMEOUT_S, headers=self._login(plugin), read_bytes=_READ_BYTES
        )
        if reply.status != 200:
            raise AckError("ntfy's second topic", reply)
        answered = {self._codes.incident_in(_field(line, "message")) for line in _json_lines(reply.body)}
        return {incident for incident in incident_ids if incident in answered}

    async def confirm(self, incident_id: str, said: str) -> None:
        plugin = await asyncio.to_thread(self._plugin)
        for topic in plugin.topics:
            quiet = {"topic": topic, "priority": 2, "title": said, "message": f"incident {incident_id}: no reminders."}
            address, login = self._address(plugin), self._login(plugin)
            reply = await http_call("POST", address, timeout_s=_CALL_TIMEOUT_S, json=quiet, headers=login)
            if reply.status != 200:
                raise AckError("ntfy", reply)

    async def take_back(self, receipt: Receipt, said: str) -> None:
        """Nothing: an action stays in the message."""

    def _address(self, plugin: Any) -> str:
        if str(plugin.mode) == "cloud":
            return str(plugin.cloud_notify_url)
        port = f":{plugin.port}" if plugin.port else ""
        return f"{'https' if plugin.secure else 'http'}://{plugin.host}{port}"

    def _login(self, plugin: Any) -> dict[str, str]:
        if getattr(plugin, "token", None):
            return {"Authorization": f"Bearer {plugin.token}"}
        if plugin.user:
            pair = base64.b64encode(f"{plugin.user}:{plugin.password or ''}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}


def _json_lines(text: str) -> Iterator[Json]:
    for line in text.splitlines():
        try:
            yield loads_untrusted(line)
        except ValueError:
            continue
