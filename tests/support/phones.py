"""Pushover, Telegram and ntfy as far as pages and their acknowledgements go, with their limits and states."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tests.support.loopback import LoopbackServer

PUSHOVER_URL = "pover://" + "u" * 30 + "@" + "a" * 30
TELEGRAM_URL = "tgram://123456789:abcdefghijklmnopqrstuvwxyzABCDEFGHI/4711"


@dataclass
class FakePhones(LoopbackServer):
    """The three services on one loopback port. Attributes hold what arrived; methods are what a person does."""

    pushed: list[dict[str, str]] = field(default_factory=list)
    receipts: dict[str, bool] = field(default_factory=dict)
    """Pushover's receipts, and whether each was acknowledged."""
    cancelled: list[str] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    newest_update: int = 1000
    toasts: list[str] = field(default_factory=list)
    edited: list[dict[str, Any]] = field(default_factory=list)
    topics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    logins: list[str] = field(default_factory=list)
    dead: bool = False

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/1/messages.json", self._push)
        app.router.add_get("/1/receipts/{receipt}.json", self._receipt)
        app.router.add_post("/1/receipts/{receipt}/cancel.json", self._cancel)
        app.router.add_post("/bot{token}/{method}", self._bot)
        app.router.add_get("/{topic}/json", self._poll)
        app.router.add_post("/", self._publish_json)
        app.router.add_post("/{topic}", self._publish)
        return app

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have apprise's plugins send here."""
        from apprise.plugins.pushover import NotifyPushover
        from apprise.plugins.telegram import NotifyTelegram

        monkeypatch.setattr(NotifyPushover, "notify_url", f"http://127.0.0.1:{self.port}/1/messages.json")
        monkeypatch.setattr(NotifyTelegram, "notify_url", f"http://127.0.0.1:{self.port}/bot")

    @property
    def ntfy_url(self) -> str:
        return f"ntfy://127.0.0.1:{self.port}/pages"

    def press(self, message: int = -1, *, chat: int = 4711) -> None:
        """Somebody presses the button of a Telegram message, in `chat`."""
        (button,) = self.sent[message]["reply_markup"]["inline_keyboard"][0]
        self.answer_in_telegram(button["callback_data"], chat)

    def answer_in_telegram(self, data: str, chat: int) -> None:
        query = {"id": "q", "data": data, "message": {"message_id": 1, "chat": {"id": chat}}}
        self.update(query)

    def update(self, query: dict[str, Any]) -> None:
        """Something that `getUpdates` gives until it is confirmed by a higher offset."""
        self.newest_update += 1
        self.updates.append({"update_id": self.newest_update, "callback_query": query})

    def tap(self) -> str:
        """Somebody taps the action of the newest ntfy message that has one; returns the topic it goes to."""
        actions = [one["actions"] for one in self.topics["pages"] if one["actions"]]
        found = re.fullmatch(r"http, Acknowledge, (\S+), method=POST, body=([^,]+), clear=true", actions[-1])
        assert found is not None, actions[-1]
        topic = found[1].rpartition("/")[2]
        self.topics.setdefault(topic, []).append({"event": "message", "message": found[2], "actions": ""})
        return topic

    async def _push(self, request: web.Request) -> web.Response:
        said = {name: str(value) for name, value in (await request.post()).items()}
        if len(said["message"]) > 1024 or len(said["title"]) > 250:
            return web.json_response({"status": 0, "errors": ["message too long"]}, status=400)
        self.pushed.append(said)
        if said["priority"] != "2":
            return web.json_response({"status": 1, "request": "r"})
        if int(said["retry"]) < 30 or not int(said["expire"]) <= 10800:
            return web.json_response({"status": 0, "errors": ["retry or expire"]}, status=400)
        receipt = f"rec{len(self.receipts)}"
        self.receipts[receipt] = False
        return web.json_response({"status": 1, "request": "r", "receipt": receipt})

    async def _receipt(self, request: web.Request) -> web.Response:
        if self.dead:
            return web.Response(status=503)
        assert request.query["token"] == "a" * 30
        return web.json_response({"status": 1, "acknowledged": int(self.receipts[request.match_info["receipt"]])})

    async def _cancel(self, request: web.Request) -> web.Response:
        self.cancelled.append(request.match_info["receipt"])
        return web.json_response({"status": 1})

    async def _bot(self, request: web.Request) -> web.Response:
        said = await request.json()
        match request.match_info["method"]:
            case "sendMessage":
                self.sent.append(said)
                result: Any = {"message_id": len(self.sent), "chat": {"id": int(said["chat_id"])}}
            case "getUpdates":
                self.updates = [one for one in self.updates if one["update_id"] >= said.get("offset", 0)]
                result = self.updates
            case "answerCallbackQuery":
                self.toasts.append(said["text"])
                result = True
            case "editMessageReplyMarkup":
                self.edited.append(said)
                result = True
            case _:
                return web.json_response({"ok": False}, status=404)
        return web.json_response({"ok": True, "result": result})

    async def _publish_json(self, request: web.Request) -> web.Response:
        said = await request.json()
        self.logins.append(request.headers.get("Authorization", ""))
        said["actions"] = request.headers.get("X-Actions", "")
        self.topics.setdefault(said["topic"], []).append(said)
        return web.json_response({"id": "x"})

    async def _publish(self, request: web.Request) -> web.Response:
        said = {"event": "message", "message": await request.text(), "actions": ""}
        self.topics.setdefault(request.match_info["topic"], []).append(said)
        return web.json_response({"id": "x"})

    async def _poll(self, request: web.Request) -> web.Response:
        self.logins.append(request.headers.get("Authorization", ""))
        said = self.topics.get(request.match_info["topic"], [])
        return web.Response(text="".join(json.dumps(one) + "\n" for one in said))
