"""Looking at an engine's metrics and model lists beside a probe: small requests with short limits of their own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from yarl import URL

from watchdog.chat import ChatClient, Fetched
from watchdog.chat.endpoint import Endpoint
from watchdog.descriptors import is_exhausted
from watchdog.engines.metrics import EngineSample, read_metrics
from watchdog.engines.movement import Look
from watchdog.engines.table import (
    DRAINED_PATHS,
    DRAINS_METRICS,
    LOADED_PATHS,
    METRICS_PATHS,
    engine_owning,
    loaded_models,
)
from watchdog.json_values import loads_untrusted
from watchdog.model import Json

_ABSENT_FOR_S = 3600.0
DRAINED = (
    "TensorRT-LLM's /metrics is emptied by reading, so it is left alone; it serves /prometheus/metrics if asked to"
)


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at the metrics: the sample, or why there is none. `absent` = the server answered and has none."""

    sample: EngineSample | None = None
    path: str | None = None
    trouble: str = ""
    absent: bool = False
    status: int | None = None
    refused: bool = False
    is_foreign: bool = False
    """What is served there are not the metrics of an engine."""


class MetricsReader:
    """Finds and reads the metrics of one server.

    Without a configured address the usual paths are tried once; what was found is remembered, and that there is
    nothing is remembered for an hour.
    """

    def __init__(self, client: ChatClient, endpoint: Endpoint, metrics_url: str | None) -> None:
        """`metrics_url` is the configured address, if any."""
        self._client = client
        self._endpoint = endpoint
        self._configured = URL(metrics_url) if metrics_url else None

    @property
    def is_configured(self) -> bool:
        """Whether the configuration names their address."""
        return self._configured is not None

    def is_due(self, absent_since: float | None, now: float) -> bool:
        """Whether to look at all: not within an hour of having found nothing."""
        if self._configured is not None or absent_since is None:
            return True
        return not 0 <= now - absent_since < _ABSENT_FOR_S

    async def scrape(self, path: str | None, timeout_s: float, models: Json = None) -> Scrape:
        """Read the metrics once, at `path` if known, within `timeout_s` seconds in all. Never raises.

        `models` is the server's list of models: where no path is known, it says whose metrics these would be.
        """
        if self._configured is not None:
            return _read(await self._client.fetch(self._endpoint, self._configured, timeout_s), None)
        if path is not None:
            return _read(await self._client.fetch(self._endpoint, self._endpoint.root(path), timeout_s), path)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._search(timeout_s, models)
        except TimeoutError:
            return Scrape(trouble=f"no metrics within {timeout_s:.3g} s")

    async def _search(self, timeout_s: float, models: Json) -> Scrape:
        drained = engine_owning(models) in DRAINS_METRICS
        told = Scrape(trouble=DRAINED, absent=True) if drained else None
        found = Scrape(absent=True)
        for candidate in METRICS_PATHS:
            if drained and candidate in DRAINED_PATHS:
                continue  # whoever reads them takes them from the users' own tools
            url = self._endpoint.root(candidate)
            found = _read(await self._client.fetch(self._endpoint, url, timeout_s), candidate)
            if found.sample is not None or not found.absent:
                return found
            told = found if told is None and found.is_foreign else told
        return told or found


def _read(fetched: Fetched, path: str | None) -> Scrape:
    if fetched.status is None:
        return Scrape(trouble=f"the metrics gave {fetched.trouble}", refused=fetched.refused)
    if fetched.status != 200:
        return Scrape(trouble=f"the metrics gave HTTP {fetched.status}", absent=True, status=fetched.status)
    sample = read_metrics(fetched.body)
    if sample is None:
        is_json = fetched.body.lstrip()[:1] in (b"[", b"{")
        what = "JSON, which is not Prometheus's format" if is_json else "nothing of an engine that is known"
        return Scrape(trouble=f"the metrics hold {what}", absent=True, is_foreign=True, status=fetched.status)
    return Scrape(sample, path, status=fetched.status)


LOOK_S = 2.0
"""A passive look takes no longer."""


async def look(endpoint: Endpoint, metrics: MetricsReader, path: str | None) -> Look:
    """One passive look at a server: its metrics where it has any, else only whether its port takes a connection."""
    if path is None and not metrics.is_configured:
        return await _try_port(endpoint)
    scrape = await metrics.scrape(path, LOOK_S)
    return Look(is_open=scrape.status is not None, refused=scrape.refused, status=scrape.status, sample=scrape.sample)


async def _try_port(endpoint: Endpoint) -> Look:
    """Whether the port takes a connection; what only our own limits or a proxy would explain says nothing."""
    if endpoint.proxy is not None:
        return Look(is_open=True)
    try:
        async with asyncio.timeout(LOOK_S):
            _reader, writer = await asyncio.open_connection(endpoint.base.host, endpoint.base.port)
    except (ConnectionRefusedError, ConnectionResetError):
        return Look(is_open=False, refused=True)
    except OSError as error:  # a TimeoutError, too
        return Look(is_open=is_exhausted(error, connecting=True))
    writer.close()
    return Look(is_open=True)


async def models_listed(client: ChatClient, endpoint: Endpoint, timeout_s: float) -> Json:
    """What `/v1/models` says; None if it says nothing. `engines.table.served_models` reads it."""
    fetched = await client.fetch(endpoint, endpoint.models, timeout_s)
    return _json(fetched) if fetched.status == 200 else None


async def models_loaded(client: ChatClient, endpoint: Endpoint, timeout_s: float) -> tuple[str, ...] | None:
    """The models an on-demand server holds in memory; None if it has no place to say so, or does not answer."""
    for path in LOADED_PATHS:
        fetched = await client.fetch(endpoint, endpoint.root(path), timeout_s)
        if fetched.status is None:
            return None
        loaded = loaded_models(path, _json(fetched)) if fetched.status == 200 else None
        if loaded is not None:
            return loaded
    return None


def _json(fetched: Fetched) -> Json:
    try:
        return loads_untrusted(fetched.body)
    except ValueError:
        return None
