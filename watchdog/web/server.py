"""The HTTP server: routes, and what each of them reads. It changes nothing; only `/probe` starts something."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import structlog
from aiohttp import web

from watchdog.clock import Clock
from watchdog.config import Config, WebSettings
from watchdog.http_call import PROGRAM, Role
from watchdog.kinds import GENERATION
from watchdog.model import CheckProgress, Observation, Severity
from watchdog.overview.html import tag
from watchdog.overview.statistics import Length, blind_seconds, windows_hiding
from watchdog.overview.status import Status, headline
from watchdog.store import PLAN, Reader, Store
from watchdog.web.access import Access, BoundedRunner, Connections
from watchdog.web.metrics import Metrics, StateMetrics, probe_exposition
from watchdog.web.page import PageData, page

log = structlog.get_logger("web")

RETRY_S = 30.0
STORAGE_ANSWERS_WITHIN_S = 5.0
KEEP_PAGE_S = 2.0
"""Who reloads faster than this gets the same page."""
KEEP_TIMES = 9.0
"""A page that took long to draw is kept so many times as long: visitors get a tenth of a core at most."""
MOST_KEPT = 32
ANSWER_BEFORE_S = 0.5
"""A scrape is answered this long before its own limit."""
SCRAPE_LIMIT = "X-Prometheus-Scrape-Timeout-Seconds"
SVG = "image/svg+xml"
RunProbe = Callable[[str], Awaitable[Observation | None]]
"""Server name → the observation of a probe made now; None if there is no such server."""
NOT_ASKED_GRACE_S = 60.0
"""A scrape may come this much later than the interval and the timeout of a probe."""
FRESH_SHARE = 0.5
"""Two scrapes within half of a server's interval share one probe: a pair of Prometheus servers causes one."""


@dataclass(frozen=True, slots=True)
class _Last:
    observation: Observation
    at: float


class ScrapedProbes:
    """Probes that are made when they are asked for; one in flight per server, however often they are asked for."""

    def __init__(self, run: RunProbe, clock: Clock) -> None:
        """`run` makes one probe and takes its result in as any other."""
        self._run = run
        self._clock = clock
        self._last: dict[str, _Last] = {}
        self._running: dict[str, asyncio.Task[Observation | None]] = {}

    async def ask(self, server: str, interval_s: float, within_s: float | None) -> Observation | None:
        """A result not older than half of `interval_s`; None if there is none `within_s`, but the probe goes on."""
        last = self._last.get(server)
        if last is not None and self._clock.monotonic() - last.at < FRESH_SHARE * interval_s:
            return last.observation
        task = self._running.get(server)
        if task is None:
            task = asyncio.create_task(self._probe(server), name=f"scraped {server}")
            self._running[server] = task
        done, _ = await asyncio.wait((task,), timeout=within_s)
        return task.result() if done else None

    async def _probe(self, server: str) -> Observation | None:
        began = self._clock.monotonic()
        try:
            observation = await self._run(server)
        finally:
            del self._running[server]
        if observation is not None:
            self._last[server] = _Last(observation, began)
        return observation

    async def stop(self) -> None:
        """Cancel what runs; a cancelled probe counts for nothing."""
        running = tuple(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def state_metrics(reader: Reader, started_at: float, now: float, receivers: Iterable[str]) -> StateMetrics:
    """The state at `now` for `/metrics`; blind times count from `started_at`, so that they only ever grow."""
    snapshot = reader.snapshot(now)
    checks = sorted(reader.memory(PLAN) or {})
    open_now = Counter(incident.severity.value for incident in snapshot.open_incidents)
    firing = {incident.key for incident in snapshot.open_incidents}
    waiting = {one.name: one.waiting for one in snapshot.receivers}
    blind = reader.blind_windows(started_at)
    return StateMetrics(
        open_incidents={severity.value: open_now[severity.value] for severity in Severity},
        firing={check: int(check in firing) for check in checks},
        blind_s={check: blind_seconds(windows_hiding(blind, check), started_at, now) for check in checks},
        waiting={name: waiting.get(name, 0) for name in receivers},
        storage_ok=snapshot.storage is None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the pages are made of. `config` gives the configuration in force, `run_probe` makes one probe now."""

    store: Store
    progress: CheckProgress
    metrics: Metrics
    clock: Clock
    config: Callable[[], Config]
    run_probe: RunProbe
    version: str
    instance: str = ""


class WebServer:
    def __init__(self, settings: WebSettings, sources: Sources) -> None:
        self._settings = settings
        self._from = sources
        self._access = Access(settings)
        self._scrapes = ScrapedProbes(sources.run_probe, sources.clock)
        self._started_at = sources.clock.wall()
        self._began = sources.clock.monotonic()
        self._rendering = asyncio.Lock()
        self._kept: dict[tuple[str, str | None], tuple[float, str]] = {}
        self._kept_status: tuple[float, Status] | None = None
        self._reading_status = asyncio.Lock()

    async def run(self) -> None:
        """Serve until cancelled; an address that is in use is tried again and again."""
        connections = Connections()
        app = web.Application(middlewares=[connections.middleware, self._access.middleware])
        app.router.add_get("/", self._page)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/api/status", self._status)
        app.router.add_get("/badge.svg", self._badge)
        app.router.add_get("/icon.svg", self._icon)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/probe", self._probe)
        runner = BoundedRunner(app, connections)
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
                advice = "Watching and alerting go on without the page. Free the port or change `web.listen`."
                log.error("web_cannot_listen", listen=self._settings.listen, problem=error.strerror, advice=advice)
                await site.stop() if site in runner.sites else None
                await self._from.clock.sleep(RETRY_S)
            else:
                log.info("web_listening", url=f"http://{host}:{runner.addresses[0][1]}/")
                return

    async def _page(self, request: web.Request) -> web.Response:
        asked, server = request.query.get("range", Length.DAY.value), request.query.get("server")
        if asked not in tuple(Length):
            return web.Response(status=400, text=f"`range` must be one of {', '.join(Length)}.\n")
        async with self._rendering:
            kept = self._kept.get((asked, server))
            began = self._from.clock.monotonic()
            if kept is None or began > kept[0]:
                text = await self._from.store.read(lambda reader: self._render(reader, Length(asked), server))
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                kept = (self._kept_until(began), text)
                self._kept[asked, server] = kept
        known = server is None or any(one.name == server for one in self._from.config().servers)
        return web.Response(text=kept[1], content_type="text/html", status=200 if known else 404)

    def _render(self, reader: Reader, length: Length, server: str | None) -> str:
        return page(PageData.read(reader, self._from.clock.wall(), length, server=server), self._from.version)

    async def _current(self) -> Status:
        """The status, not read for everyone who asks: with a long history that takes seconds."""
        async with self._reading_status:
            kept, now = self._kept_status, self._from.clock.monotonic()
            if kept is None or now > kept[0]:
                read = await self._from.store.read(lambda reader: Status.read(reader, self._from.clock.wall()))
                kept = self._kept_status = (self._kept_until(now), read)
            return kept[1]

    def _kept_until(self, began: float) -> float:
        """Until when (monotonic seconds) what was read and drawn since `began` is good enough."""
        now = self._from.clock.monotonic()
        return now + max(KEEP_PAGE_S, KEEP_TIMES * (now - began))

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response((await self._current()).as_json(), dumps=json.dumps)

    async def _badge(self, _request: web.Request) -> web.Response:
        elsewhere = {"Cross-Origin-Resource-Policy": "cross-origin"}
        return web.Response(text=badge(await self._current()), content_type=SVG, headers=elsewhere)

    async def _icon(self, _request: web.Request) -> web.Response:
        return web.Response(text=icon(await self._current()), content_type=SVG)

    async def _health(self, request: web.Request) -> web.Response:
        """200 only while the checks make progress, the state is on the disk and pages arrive."""
        late = (*self._from.progress.overdue(self._from.clock.monotonic()), *self._not_asked_for())
        trouble = self._from.store.trouble
        now, unheard = self._from.clock.wall(), None
        if trouble is not None:
            problem: str | None = trouble.text
        else:
            problem, unheard = await self._ask_storage(now)
        status = "ok"
        if problem is not None:
            status = "storage"
        elif late:
            status = "late"
        elif unheard is not None:
            status = "undelivered"
        elif self._from.progress.unfinished() and not self._from.progress.last_completed_at:
            status = "starting"
        body: dict[str, object] = {
            "version": 1,
            "status": status,
            "program": PROGRAM,
            "instance": self._from.instance,
            "role": Role.STANDBY if self._from.config().standby_of else Role.FIRST,
        }
        if self._access.knows(request):
            body |= {"late": list(late), "storage": problem, "undelivered": unheard}
        return web.json_response(body, status=200 if status == "ok" else 503)

    async def _ask_storage(self, now: float) -> tuple[str | None, str | None]:
        """Why the store does not answer, None while it still takes a transaction; and why no page arrives."""
        try:
            async with asyncio.timeout(STORAGE_ANSWERS_WITHIN_S):
                return None, await self._from.store.read_in_turn(lambda reader: reader.unheard_page(now))
        except TimeoutError:
            return f"the state database has not answered for {STORAGE_ANSWERS_WITHIN_S:g} s", None

    def _not_asked_for(self) -> list[str]:
        """Checks that Prometheus was to ask for and has not: they are not made."""
        if not self._settings.probe_on_scrape:
            return []
        now, done = self._from.clock.monotonic(), self._from.progress.last_completed_at
        late = []
        for server in self._from.config().servers:
            key = GENERATION.key(server.name)
            limit_s = server.probe.interval_s + server.probe.timeout_s + NOT_ASKED_GRACE_S
            if now - max(done.get(key, 0.0), self._began) > limit_s:
                late.append(key)
        return late

    async def _metrics(self, request: web.Request) -> web.Response:
        now = self._from.clock.wall()
        receivers = [one.name for one in self._from.config().receivers]
        state = await self._from.store.read(lambda reader: state_metrics(reader, self._started_at, now, receivers))
        body, content_type = self._from.metrics.exposition(request.headers.get("Accept", ""), state)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _probe(self, request: web.Request) -> web.Response:
        if not self._settings.probe_on_scrape:
            words = "Probes run on a schedule; /metrics has their results. See `web.probe_on_scrape`.\n"
            return web.Response(status=403, text=words)
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return web.Response(status=403, text="Another site's page may not start a probe.\n")
        name = request.query.get("server", "")
        server = next((one for one in self._from.config().servers if one.name == name), None)
        if server is None:
            return web.Response(status=404, text="`server` must name a configured server.\n")
        observation = await self._scrapes.ask(name, server.probe.interval_s, _scrape_limit_s(request))
        body, content_type = probe_exposition(name, observation, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


def _scrape_limit_s(request: web.Request) -> float | None:
    """Seconds in which the scrape must be answered, as Prometheus states them; None if it does not."""
    try:
        limit_s = float(request.headers.get(SCRAPE_LIMIT, ""))
    except ValueError:
        return None
    return max(0.1, limit_s - ANSWER_BEFORE_S) if limit_s > 0 else None


# The whole state as a badge and as an icon.

COLOURS = {"well": "#1a7440", "warning": "#8a5a00", "firing": "#c1121f", "stale": "#59636e"}
LEFT = "inference-watchdog"
_LETTER = 6.6
_PAD = 8.0


def badge(status: Status) -> str:
    """`inference-watchdog | All is well` as SVG."""
    kind, words = headline(status)
    left, right = len(LEFT) * _LETTER + 2 * _PAD, len(words) * _LETTER + 2 * _PAD
    return tag(
        "svg",
        tag("title", f"{LEFT}: {words}"),
        tag("rect", width=left + right, height=20, rx=4, fill="#2c333d"),
        tag("path", d=f"M{left:g} 0h{right - 4:g}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{right - 4:g}z", fill=COLOURS[kind]),
        tag(
            "g",
            tag("text", LEFT, x=left / 2, y=14, textLength=left - 2 * _PAD),
            tag("text", words, x=left + right / 2, y=14, textLength=right - 2 * _PAD),
            fill="#fff",
            text_anchor="middle",
            font_family="Verdana,DejaVu Sans,sans-serif",
            font_size=11,
        ),
        xmlns="http://www.w3.org/2000/svg",
        width=left + right,
        height=20,
        role="img",
        aria_label=f"{LEFT}: {words}",
    )


def icon(status: Status) -> str:
    """A dot in the colour of the state; with a bar when something is wrong."""
    kind, _ = headline(status)
    mark = tag("path", d="M16 7v11m0 4v3", stroke="#fff", stroke_width=4) if kind in ("firing", "stale") else None
    dot = tag("circle", cx=16, cy=16, r=15, fill=COLOURS[kind])
    return tag("svg", dot, mark, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 32 32")
