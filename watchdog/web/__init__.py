"""The status page, /healthz, /api/status, the badge, /metrics and /probe.

`WebLifecycle` is the daemon's side of them: nothing is loaded, counted or opened unless the configuration has `web:`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog

from watchdog.clock import Clock, run_while
from watchdog.config import Config
from watchdog.kinds import GENERATION
from watchdog.model import Check, CheckProgress, CheckResult, Delivery, Incident, Observation, Outcome, TransitionKind
from watchdog.store import Store

if TYPE_CHECKING:
    from watchdog.web.metrics import Metrics

log = structlog.get_logger("web")

RunCheck = Callable[[Check], Awaitable[CheckResult]]


class WebLifecycle:
    """Starts, restarts and ends the web server and its counters as the configuration says."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        progress: CheckProgress,
        *,
        check_of: Callable[[str], Check | None],
        run_check: RunCheck,
        instance: str = "",
    ) -> None:
        """Nothing is loaded before `follow` finds `web:`.

        `check_of` returns the running check of a key; `run_check` runs one now and takes in its result like any other.
        """
        self._store = store
        self._clock = clock
        self._progress = progress
        self._check_of = check_of
        self._run_check = run_check
        self._instance = instance
        self._config = Config()
        self._metrics: Metrics | None = None
        self._changed = asyncio.Event()

    def follow(self, config: Config) -> None:
        """Serve what `config` says from now on."""
        self._config = config
        if config.web is None:
            self._metrics = None
        elif self._metrics is None:
            self._metrics = _metrics(config)
        else:
            self._metrics.follow(config)
        self._changed.set()

    def is_scraped(self, check: Check) -> bool:
        """Whether `check` runs only when Prometheus asks for it."""
        web = self._config.web
        return web is not None and web.probe_on_scrape and GENERATION.has(check.key)

    def observed(self, observation: Observation) -> None:
        if self._metrics is not None:
            self._metrics.observed(observation)

    def changed(self, incident: Incident, change: TransitionKind) -> None:
        if self._metrics is not None:
            self._metrics.changed(incident, change)

    def attempted(self, delivery: Delivery, outcome: Outcome) -> None:
        if self._metrics is not None:
            self._metrics.attempted(delivery, outcome.reason)

    async def run(self) -> None:
        """Serve until cancelled. A server whose settings did not change goes on over a reload."""
        ended = False
        while not ended:
            settings = self._config.web
            ended = await run_while(self._serve(), lambda: self._config.web == settings, self._changed)  # noqa: B023

    async def _serve(self) -> None:
        settings, metrics = self._config.web, self._metrics
        if settings is None or metrics is None:
            await asyncio.Event().wait()
            return
        from watchdog.web.server import Sources, WebServer  # noqa: PLC0415 - loaded only with `web:`

        sources = Sources(
            store=self._store,
            progress=self._progress,
            metrics=metrics,
            clock=self._clock,
            config=lambda: self._config,
            run_probe=self._probe,
            version=_version(),
            instance=self._instance,
        )
        learning = asyncio.create_task(self._learn_kinds(metrics), name="kinds of kernel findings")
        try:
            await WebServer(settings, sources).run()
        finally:
            learning.cancel()

    async def _learn_kinds(self, metrics: Metrics) -> None:
        """Prepare a series for every kind of finding; reading the rules takes a moment, and the page must not wait."""
        if not self._config.hosts:
            return
        from watchdog.rulebook import load_rules  # noqa: PLC0415

        rules = await asyncio.to_thread(load_rules, self._config.rules)
        metrics.know_kinds(rule.kind for rule in rules.rules if rule.kind)

    async def _probe(self, server: str) -> Observation | None:
        check = self._check_of(GENERATION.key(server))
        if check is None:
            return None
        result = await self._run_check(check)
        return next((seen for seen in result.observations if seen.key == check.key), result.observations[0])


def _metrics(config: Config) -> Metrics:
    from watchdog.web.metrics import Metrics  # noqa: PLC0415 - loaded only with `web:`

    return Metrics(config, version=_version())


def _version() -> str:
    from importlib import metadata  # noqa: PLC0415 - half a MiB

    return metadata.version("inference-watchdog")
