"""The HTTP server: routes, and what each of them reads. It changes nothing; `/probe` alone starts something."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog
from aiohttp import web

from watchdog.clock import Clock
from watchdog.config import Config, WebSettings
from watchdog.metrics import Metrics
from watchdog.metrics.probe import probe_exposition
from watchdog.overview.now import Now
from watchdog.overview.scene import Scene
from watchdog.overview.span import Length
from watchdog.store import Reader, Store
from watchdog.web.badge import badge, icon
from watchdog.web.guard import Guard
from watchdog.web.page import page
from watchdog.web.reading import reading_of
from watchdog.web.scrapes import RunProbe, ScrapedProbes

log = structlog.get_logger("web")

RETRY_S = 30.0
STORAGE_ANSWERS_WITHIN_S = 5.0
KEEP_PAGE_S = 2.0
"""Who reloads faster than this gets the same page."""
MOST_KEPT = 32
ANSWER_BEFORE_S = 0.5
"""A scrape is answered this long before its own limit."""
SCRAPE_LIMIT = "X-Prometheus-Scrape-Timeout-Seconds"
SVG = "image/svg+xml"


class Progress(Protocol):
    """What the scheduler knows of the checks' progress."""

    @property
    def last_completed_at(self) -> dict[str, float]:
        """Check key → monotonic seconds of its last completed run."""
        ...

    def unfinished(self) -> tuple[str, ...]:
        """Keys of the checks that have not completed a run yet."""
        ...

    def overdue(self, now: float) -> tuple[str, ...]:
        """Keys of the checks whose run should long have ended; `now` is monotonic seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the pages are made of. `config` gives the configuration in force, `run_probe` makes one probe now."""

    store: Store
    progress: Progress
    metrics: Metrics
    clock: Clock
    config: Callable[[], Config]
    run_probe: RunProbe
    version: str


class WebServer:
    """Serves at `settings.listen` until it is cancelled; an address that is taken is tried again and again."""

    def __init__(self, settings: WebSettings, sources: Sources) -> None:
        """Nothing listens before `run`."""
        self._settings = settings
        self._from = sources
        self._guard = Guard(settings)
        self._scrapes = ScrapedProbes(sources.run_probe, sources.clock)
        self._started_at = sources.clock.wall()
        self._rendering = asyncio.Lock()
        self._kept: dict[tuple[str, str | None], tuple[float, str]] = {}

    async def run(self) -> None:
        """Serve."""
        app = web.Application(middlewares=[self._guard.middleware])
        app.router.add_get("/", self._page)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/api/status", self._status)
        app.router.add_get("/badge.svg", self._badge)
        app.router.add_get("/icon.svg", self._icon)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/probe", self._probe)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.Event().wait()
        finally:
            await self._scrapes.stop()
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        host, _, port = self._settings.listen.rpartition(":")
        while True:
            site = web.TCPSite(runner, host.strip("[]"), int(port))
            try:
                await site.start()
            except OSError as error:
                advice = "Watching and alerting go on without the page. Free the port, or change `web.listen`."
                log.error("web_cannot_listen", listen=self._settings.listen, problem=error.strerror, advice=advice)
                await site.stop() if site in runner.sites else None
                await self._from.clock.sleep(RETRY_S)
            else:
                log.info("web_listening", url=f"http://{host}:{runner.addresses[0][1]}/")
                return

    async def _page(self, request: web.Request) -> web.Response:
        asked, server = request.query.get("range", Length.DAY.value), request.query.get("server")
        if asked not in tuple(Length):
            return web.Response(status=400, text=f"`range` is one of {', '.join(Length)}.\n")
        async with self._rendering:
            kept = self._kept.get((asked, server))
            if kept is None or self._from.clock.monotonic() - kept[0] > KEEP_PAGE_S:
                text = await self._from.store.read(lambda reader: self._render(reader, Length(asked), server))
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                kept = (self._from.clock.monotonic(), text)
                self._kept[asked, server] = kept
        known = server is None or any(one.name == server for one in self._from.config().servers)
        return web.Response(text=kept[1], content_type="text/html", status=200 if known else 404)

    def _render(self, reader: Reader, length: Length, server: str | None) -> str:
        return page(Scene.read(reader, self._from.clock.wall(), length, server=server), self._from.version)

    async def _now(self) -> Now:
        return await self._from.store.read(lambda reader: Now.read(reader, self._from.clock.wall()))

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response((await self._now()).as_json(), dumps=json.dumps)

    async def _badge(self, _request: web.Request) -> web.Response:
        elsewhere = {"Cross-Origin-Resource-Policy": "cross-origin"}
        return web.Response(text=badge(await self._now()), content_type=SVG, headers=elsewhere)

    async def _icon(self, _request: web.Request) -> web.Response:
        return web.Response(text=icon(await self._now()), content_type=SVG)

    async def _health(self, request: web.Request) -> web.Response:
        """200 only while the checks make progress and the state is on the disk."""
        late = self._from.progress.overdue(self._from.clock.monotonic())
        trouble = self._from.store.trouble
        problem = trouble.text if trouble is not None else await self._storage_problem()
        status = "ok"
        if problem is not None:
            status = "storage"
        elif late:
            status = "late"
        elif self._from.progress.unfinished() and not self._from.progress.last_completed_at:
            status = "starting"
        said: dict[str, object] = {"version": 1, "status": status}
        if self._guard.knows(request):
            said |= {"late": list(late), "storage": problem}
        return web.json_response(said, status=200 if status == "ok" else 503)

    async def _storage_problem(self) -> str | None:
        """Whether the store's own thread and its database still take a transaction."""
        try:
            async with asyncio.timeout(STORAGE_ANSWERS_WITHIN_S):
                await self._from.store.deliveries(since_at=self._from.clock.wall())
        except TimeoutError:
            return f"the state database has not answered for {STORAGE_ANSWERS_WITHIN_S:g} s"
        return None

    async def _metrics(self, request: web.Request) -> web.Response:
        now = self._from.clock.wall()
        receivers = [one.name for one in self._from.config().receivers]
        reading = await self._from.store.read(lambda reader: reading_of(reader, self._started_at, now, receivers))
        body, content_type = self._from.metrics.exposition(request.headers.get("Accept", ""), reading)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _probe(self, request: web.Request) -> web.Response:
        if not self._settings.probe_on_scrape:
            words = "Probes run on a schedule here; /metrics has their results. See `web.probe_on_scrape`.\n"
            return web.Response(status=403, text=words)
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return web.Response(status=403, text="Another site's page may not start a probe.\n")
        name = request.query.get("server", "")
        server = next((one for one in self._from.config().servers if one.name == name), None)
        if server is None:
            return web.Response(status=404, text="`server` is the name of a configured server.\n")
        seen = await self._scrapes.ask(name, server.probe.interval_s, _limit_of(request))
        body, content_type = probe_exposition(name, seen, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


def _limit_of(request: web.Request) -> float | None:
    """How long the scrape may take, as Prometheus says it."""
    try:
        limit_s = float(request.headers.get(SCRAPE_LIMIT, ""))
    except ValueError:
        return None
    return max(0.1, limit_s - ANSWER_BEFORE_S) if limit_s > 0 else None
