"""Real places for alerts to go: a webhook that can misbehave, a mail server, and a receiver that only remembers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from enum import StrEnum
from typing import Any, Self

from aiohttp import web
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.loopback import LoopbackServer
from watchdog.model import Delivery, Incident, Outcome, OutcomeReason, Text
from watchdog.notify.ack_channels import AckChannel
from watchdog.policy import Grouping


class Mood(StrEnum):
    """How the webhook answers."""

    WELL = "well"
    ERROR = "500"
    REDIRECT = "302"
    HANG = "hang"
    SLOW = "slow"
    DRIP = "drip"
    TWICE = "accepts, then breaks the connection"


class WebhookSink(LoopbackServer):
    """A webhook on loopback. `arrived` holds every JSON body it accepted; `refused` counts the others.

    `untold` counts what it accepted from a sender that cannot know: gone (timed out, killed) or cut off too early.
    """

    def __init__(self, mood: Mood = Mood.WELL) -> None:
        """Answer in `mood`; `moods`, if not empty, are used up first, one a request."""
        self.mood = mood
        self.moods: list[Mood] = []
        self.arrived: list[dict[str, Any]] = []
        self.refused = 0
        self.untold = 0
        self.slow_s = 1.0
        self.news = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        return app

    def url(self, scheme: str = "json") -> str:
        """The apprise URL of this webhook."""
        return f"{scheme}://127.0.0.1:{self.port}/hook"

    @property
    def titles(self) -> list[str]:
        """Titles of what arrived."""
        return [body["title"] for body in self.arrived]

    async def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Until `count` messages have arrived."""
        async with asyncio.timeout(timeout_s):
            while len(self.arrived) < count:
                self.news.clear()
                await self.news.wait()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        mood = self.moods.pop(0) if self.moods else self.mood
        body = json.loads(await request.text() or "{}")
        if mood is Mood.ERROR:
            self.refused += 1
            return web.Response(status=500)
        if mood is Mood.REDIRECT:
            self.refused += 1
            raise web.HTTPFound("/elsewhere")
        if mood is Mood.HANG:
            self.refused += 1
            await asyncio.sleep(60)
            return web.Response(status=504)
        if mood is Mood.DRIP:
            self.refused += 1
            return await self._drip(request)
        if mood is Mood.SLOW:
            await asyncio.sleep(self.slow_s)
        self.arrived.append(body)
        self.news.set()
        if mood is Mood.TWICE and request.transport is not None:
            request.transport.close()
        self.untold += request.transport is None or request.transport.is_closing()
        return web.Response(text="ok")

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            for _ in range(100):
                await response.write(b" ")
                await asyncio.sleep(0.5)
        return response


class SmtpSink:
    """A mail server on loopback; `arrived` holds parsed messages."""

    def __init__(self) -> None:
        """Nothing listens before `async with`."""
        self.arrived: list[Any] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SMTP(self, loop=loop), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        """Take one mail (called by aiosmtpd under this name)."""
        self.arrived.append(message_from_bytes(envelope.content))
        return "250 taken"


@dataclass
class RecordingReceiver:
    """A receiver that remembers what it accepted, and refuses while `broken`."""

    name: str
    broken: bool = False
    refresh_s: float | None = None
    ack_channel: AckChannel | None = None
    grouping: Grouping = Grouping.NONE
    accepted: list[tuple[Delivery, Text]] = field(default_factory=list)
    refreshed: list[tuple[Incident, ...]] = field(default_factory=list)
    tried: int = 0

    async def send(self, delivery: Delivery, text: Text, now: float) -> Outcome:
        """Accept or refuse at once."""
        self.tried += 1
        if self.broken:
            return Outcome(OutcomeReason.REFUSED, "broken")
        self.accepted.append((delivery, text))
        return Outcome(OutcomeReason.DELIVERED)

    async def refresh(self, firing: Iterable[Incident], now: float) -> Outcome:
        """Remember what fires."""
        self.refreshed.append(tuple(firing))
        return Outcome(OutcomeReason.DELIVERED)

    async def close(self) -> None:
        """Nothing to close."""

    @property
    def kinds(self) -> list[str]:
        """What was accepted, as the words titles begin with."""
        return [delivery.kind.value for delivery, _text in self.accepted]

    @property
    def titles(self) -> list[str]:
        """Titles of what was accepted."""
        return [text.title for _delivery, text in self.accepted]
