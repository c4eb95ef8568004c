"""The web part in this process, over a store whose history a test has written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from structlog.testing import capture_logs

from tests.support.clock import ManualClock
from watchdog.config import Config, WebSettings
from watchdog.model import Observation
from watchdog.store import Store
from watchdog.web.metrics import Metrics
from watchdog.web.server import RETRY_S, Sources, WebServer


@dataclass
class PretendedProgress:
    """A scheduler as the web part sees it."""

    last_completed_at: dict[str, float] = field(default_factory=lambda: {"generation/deepseek": 1.0})
    late: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()

    def unfinished(self) -> tuple[str, ...]:
        """Checks without a first result."""
        return self.fresh

    def overdue(self, now: float) -> tuple[str, ...]:
        """Checks that are stuck."""
        return self.late


@dataclass
class Served:
    """A running web part. `asked_for` names the servers that were probed through `/probe`."""

    url: str
    store: Store
    clock: ManualClock
    progress: PretendedProgress
    metrics: Metrics
    asked_for: list[str]
    answers: dict[str, Observation]

    async def get(self, path: str = "", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
        """Status, headers and text of one request."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, headers=headers, allow_redirects=False) as reply,
        ):
            return reply.status, dict(reply.headers), await reply.text()


@asynccontextmanager
async def served(
    state_dir: Path,
    config: Config,
    now: float,
    *,
    settings: WebSettings | None = None,
    before_it_listens: Callable[[Sequence[Mapping[str, Any]]], None] | None = None,
) -> AsyncIterator[Served]:
    """Serve what is in `state_dir` as of `now`, on a free port.

    `before_it_listens` gets the log when the server could not listen at once; then it tries again.
    """
    store, clock, progress = Store.open(state_dir, now, linger_s=0.0), ManualClock(now), PretendedProgress()
    metrics, asked_for, answers = Metrics(config, version="0.1.0"), list[str](), dict[str, Observation]()

    async def probe(server: str) -> Observation | None:
        asked_for.append(server)
        await asyncio.sleep(0.3)
        return answers.get(server)

    sources = Sources(
        store=store, progress=progress, metrics=metrics, clock=clock, config=lambda: config, run_probe=probe,
        version="0.1.0",
    )  # fmt: skip
    structlog.reset_defaults()
    with capture_logs() as logs:
        task = asyncio.create_task(WebServer(settings or WebSettings(listen="127.0.0.1:0"), sources).run())
        try:
            async with asyncio.timeout(10):
                while not (ready := [line for line in logs if line["event"] == "web_listening"]):
                    assert not task.done(), task.result()
                    if before_it_listens is not None and logs:
                        before_it_listens(logs)
                        await clock.advance(RETRY_S)
                    await asyncio.sleep(0.01)
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await store.close()
            raise
    try:
        yield Served(ready[0]["url"], store, clock, progress, metrics, asked_for, answers)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()
