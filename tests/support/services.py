"""Every service of `services.yaml` on one loopback port: what it was sent, how loud, and what is open there now.

It reads the requests that apprise's plugins really make, and refuses what the service documents that it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from aiohttp import web

from tests.support.loopback import LoopbackServer

KEY = "12345678-1234-1234-1234-123456789012"
URLS = {
    "ntfy": "ntfys://pages-topic",
    "gotify": "gotifys://gotify.example/Abcdefghijklmno",
    "pover": "pover://" + "u" * 30 + "@" + "a" * 30,
    "bark": "barks://bark.example/devicekey",
    "tgram": "tgram://123456789:abcdefghijklmnopqrstuvwxyzABCDEFGHI/4711",
    "pagerduty": "pagerduty://A" + "1" * 31 + "@B" + "2" * 19,
    "opsgenie": f"opsgenie://{KEY}",
    "jira": f"jira://{KEY}",
    "ilert": "ilert://il1api0123456789abcdef",
    "squadcast": "squadcast://" + "a" * 40,
    "incidentio": "incidentio://source123/token0123456789",
    "firehydrant": "firehydrant://tokenabc0123",
    "goalert": f"goalerts://goalert.example/{KEY}",
    "opsimate": "opsimates://apikey0123@opsimate.example",
    "signl4": "signl4://teamsecret",
    "pagertree": "pagertree://int_0123456789",
    "splunk": f"splunk://route@{KEY}",
    "prowl": "prowl://" + "a" * 40,
    "psafer": "psafers://" + "a" * 20,
    "join": "join://" + "a" * 32 + "/" + "d" * 32,
    "lauther": "lauther://lpt_0123456789abcdef",
    "spush": "spush://HuxgBB",
    "pushward": "pushward://hlk_0123456789",
    "pinglet": "pinglets://token0123@pinglet.example/home/alerts",
    "youlmk": "youlmk://k_" + "a" * 14,
    "gorush": "gorushs://gorush.example/ios/devicetoken",
    "fcm": "fcm://apikey/device",
    "lametric": "lametric://" + "a" * 64 + "@192.0.2.9",
    "exotel": "exotel://sid:token@15551231234/15551231235",
    "dapnet": "dapnet://user:pass@DF1ABC",
    "smseagle": "smseagles://token@sms.example/+15551231234",
    "kaleyra": "kaleyra://sid:key@sender/15551231234",
    "seven": "seven://apikey0123/15551231234",
    "nctalk": "nctalks://user:pass@cloud.example/roomid",
    "notifyapp": "notifyapp://device_1/token0123456789",
    "trigv": "trigv://trgv_" + "a" * 8 + "_" + "b" * 32,
}
"""One address of each service; the first scheme of its row."""


@dataclass(frozen=True)
class Request:
    """One request of a plugin: where it was meant to go, and what it said."""

    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    said: Mapping[str, Any]


def _pagerduty(request: Request) -> tuple[str, bool] | None:
    said = request.said
    if said["event_action"] == "trigger" and len(said["payload"]["summary"]) > 1024:
        return None
    return said.get("dedup_key", ""), said["event_action"] == "resolve"


def _by_alias(request: Request) -> tuple[str, bool] | None:
    parts = request.path.strip("/").split("/")
    if parts[-1] == "close":
        return (parts[-2], True) if request.query.get("identifierType") == "alias" else None
    if len(request.said["message"]) > 130 or len(request.said["description"]) > 15000:
        return None
    return request.said.get("alias", ""), False


def _field(key: str, status: str, closed: str) -> Callable[[Request], tuple[str, bool]]:
    return lambda request: (str(request.said.get(key, "")), request.said.get(status) == closed)


EVENTS: dict[str, Callable[[Request], tuple[str, bool] | None]] = {
    "pagerduty": _pagerduty,
    "opsgenie": _by_alias,
    "jira": _by_alias,
    "ilert": _field("alertKey", "eventType", "RESOLVE"),
    "squadcast": _field("event_id", "status", "resolve"),
    "incidentio": _field("deduplication_key", "status", "resolved"),
    "firehydrant": _field("idempotency_key", "status", "CLOSED"),
    "goalert": _field("dedup", "action", "close"),
    "opsimate": _field("id", "status", "resolved"),
    "signl4": _field("X-S4-ExternalID", "X-S4-Status", "resolved"),
    "pagertree": _field("id", "event_type", "resolve"),
    "splunk": _field("entity_id", "message_type", "RECOVERY"),
}
"""How an on-call service reads a request: (key, whether it closes), or None for one that it refuses with 400."""

LONGEST: dict[str, tuple[str, int]] = {
    "pover": ("message", 1024),
    "tgram": ("text", 4096),
    "ntfy": ("message", 4096),
    "dapnet": ("text", 80),
    "seven": ("text", 160),
    "join": ("text", 1000),
    "splunk": ("state_message", 400),
}
"""Where a service holds the text, and how much it takes."""


@dataclass
class FakeServices(LoopbackServer):
    """All of them. `opened` and `closed` hold keys as a person would see them there; `open_now` is what still rings."""

    scheme: str
    requests: list[Request] = field(default_factory=list)
    refused: int = 0
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    open_now: set[str] = field(default_factory=set)
    keyless: int = 0
    answer_with: int = 0
    """If not 0: the status of every answer."""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._take)
        return app

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have what apprise sends to the world come here: `https://host/path` as `http://127.0.0.1:port/host/path`."""
        from requests.adapters import HTTPAdapter

        plain = HTTPAdapter.send

        def send(adapter: Any, request: Any, *arguments: Any, **options: Any) -> Any:
            split = urlsplit(request.url)
            if split.hostname != "127.0.0.1":
                query = f"?{split.query}" if split.query else ""
                request.url = f"http://127.0.0.1:{self.port}/{split.hostname}{split.path}{query}"
            return plain(adapter, request, *arguments, **options)

        monkeypatch.setattr(HTTPAdapter, "send", send)

    async def _take(self, request: web.Request) -> web.Response:
        host, _, path = request.match_info["tail"].partition("/")
        text = (await request.read()).decode("utf-8", "replace")
        try:
            said = json.loads(text)
        except ValueError:
            said = dict(parse_qsl(text, keep_blank_values=True))
        said = said if isinstance(said, dict) else {"list": said}
        seen = Request(host, "/" + path, dict(request.query), dict(request.headers), said | dict(request.query))
        if self.answer_with or not self._accepts(seen):
            self.refused += 1
            return web.json_response({"errors": ["no"]}, status=self.answer_with or 400)
        self.requests.append(seen)
        if path.startswith(".well-known/"):
            return web.Response(status=404)
        if seen.host == "hooks.slack.com":
            return web.Response(text="ok")
        result = {"message_id": 1, "status": "ok"}
        body = {"status": 1, "success": True, "ok": True, "id": 1, "requestId": "r1", "result": result}
        login = {"access_token": "t", "home_server": host, "user_id": f"@bot:{host}", "room_id": f"!r:{host}"}
        return web.json_response(body | (login if path.startswith("_matrix/") else {}), status=self._good)

    @property
    def _good(self) -> int:
        return {"pagerduty": 202, "opsgenie": 202, "jira": 202, "nctalk": 201, "dapnet": 201, "ilert": 202}.get(
            self.scheme, 200
        )

    def _accepts(self, request: Request) -> bool:
        text, most = LONGEST.get(self.scheme, ("", 1))
        said = str(request.said.get(text, ""))
        if len(said.encode() if self.scheme == "ntfy" else said) > most:
            return False
        read = EVENTS.get(self.scheme)
        if read is None:
            return True
        event = read(request)
        if event is None:
            return False
        key, closes = event
        self.keyless += not key
        if closes:
            if key in self.open_now:
                self.closed.append(key)
            self.open_now.discard(key)
        else:
            if key not in self.open_now:
                self.opened.append(key)
            self.open_now.add(key)
        return True
