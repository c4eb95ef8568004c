"""From the body of a metrics scrape to an `EngineSample`.

Lines are picked by name first, and only those few are parsed, each for itself by `prometheus-client`: a scrape holds
hundreds of lines of which some twenty matter, and one broken line must not cost the others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec
from typing import Any

from watchdog.engines.sample import EngineSample, Reading, sample_of
from watchdog.engines.table import ENGINES, NIM, VLLM, Engine

_STARTED = "process_start_time_seconds"
_MOST_LINES = 5000
_BY_NAME: dict[str, tuple[Engine, str]] = {
    prefix + name: (engine, name) for engine in ENGINES for prefix in engine.prefixes for name in engine.names
}


def read_metrics(body: bytes) -> EngineSample | None:
    """The sample in the body of a scrape, or None if it holds no metrics of an engine we know (empty, HTML, JSON…)."""
    by_engine: dict[str, tuple[Engine, list[Reading]]] = {}
    started_at: float | None = None
    picked = 0
    for line in body.decode("utf-8", "replace").split("\n"):
        name = _name_of(line)
        if name == _STARTED:
            started_at = next((value for _, value in _parse(line)), started_at)
            continue
        known = _BY_NAME.get(name) or _fork(name)
        if known is None:
            continue
        picked += 1
        if picked > _MOST_LINES:
            break
        engine, short = known
        for labels, value in _parse(line):
            by_engine.setdefault(engine.name, (engine, []))[1].append(Reading(short, labels, value))
    if not by_engine:
        return None
    engine, readings = max(by_engine.values(), key=lambda found: (found[0] is not NIM, len(found[1])))
    return sample_of(engine, readings, started_at)


def _name_of(line: str) -> str:
    if not line or line[0] == "#":
        return ""
    head = line.partition("{")[0].split(None, 1)
    return head[0] if head else ""


def _fork(name: str) -> tuple[Engine, str] | None:
    # Forks of vLLM keep its names under a prefix of their own, for example `aphrodite:num_requests_running`.
    prefix, colon, rest = name.partition(":")
    if colon and prefix and rest in VLLM.names:
        return VLLM, rest
    return None


def _parse(line: str) -> Iterator[tuple[Mapping[str, str], float]]:
    try:
        for family in _parser()(line):
            for sample in family.samples:
                value = float(sample.value)
                if math.isfinite(value):
                    yield sample.labels, value
    except (ValueError, OverflowError, IndexError, KeyError):
        return


@cache
def _parser() -> Callable[[str], Iterable[Any]]:
    """The parser of `prometheus-client`, without the rest of that package: web servers and registries, 2 MiB."""
    if "prometheus_client" in sys.modules:
        return _imported_parser()
    found = find_spec("prometheus_client")
    if found is None:
        raise ModuleNotFoundError("prometheus_client is not installed")
    # A stand-in whose own code did not run: its modules are found through it. Who needs the package imports it anew.
    sys.modules["prometheus_client"] = module_from_spec(found)
    try:
        return _imported_parser()
    finally:
        del sys.modules["prometheus_client"]


def _imported_parser() -> Callable[[str], Iterable[Any]]:
    from prometheus_client.parser import (  # noqa: PLC0415 - only servers with metrics need it
        text_string_to_metric_families,
    )

    return text_string_to_metric_families
