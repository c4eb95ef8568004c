"""One scrape of an engine's metrics, read by the rules of its row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from watchdog.engines.table import ENGINES, NIM, RANK_LABELS, REPLICA_LABELS, VLLM, Engine
from watchdog.model import Json


class MetricLine(NamedTuple):
    """One line of an exposition: a metric name without its prefix, its labels, a finite value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSample:
    """What one scrape says. None = not available, which is never zero.

    `live` maps each replica ("" where there is only one) to its progress counters, `prefill` to the gauge that rises
    while prompts are read, `stepping` to the gauge that every step of it changes; `finished` maps counters that move
    only when requests end; `restart_proof` holds every counter that only a restart can make fall. `started_at` is the
    process start in Unix seconds, if told. `drafted` and `accepted` are tokens of a draft model since then.
    """

    engine: str
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    live: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    restart_proof: Mapping[str, float] = field(default_factory=dict)
    prefill: Mapping[str, float] = field(default_factory=dict)
    stepping: Mapping[str, float] = field(default_factory=dict)
    finished: Mapping[str, float] = field(default_factory=dict)
    running_by: Mapping[str, float] = field(default_factory=dict)
    waiting_by: Mapping[str, float] = field(default_factory=dict)
    started_at: float | None = None
    drafted: float | None = None
    accepted: float | None = None

    @property
    def shows_progress(self) -> bool:
        """Whether anything in it moves while requests run."""
        return bool(self.live or self.stepping)

    @property
    def progress_from(self) -> str | None:
        """The name of the main live counter; None where the engine has none."""
        return next((name for counters in self.live.values() for name in counters), None)

    @property
    def progress(self) -> float | None:
        """The main live counter, summed over replicas."""
        name = self.progress_from
        return None if name is None else sum(counters.get(name, 0.0) for counters in self.live.values())


def sample_of(engine: Engine, lines: Iterable[MetricLine], started_at: float | None = None) -> EngineSample:
    """Add up `lines` of one engine by its row: sum over replicas, the highest over ranks, the first alternative."""
    by_name: dict[str, dict[str, dict[tuple[tuple[str, str], ...], float]]] = {}
    for line in lines:
        rest = tuple(sorted((k, v) for k, v in line.labels.items() if k not in RANK_LABELS))
        series = by_name.setdefault(line.name, {}).setdefault(_replica(line.labels), {})
        series[rest] = max(series.get(rest, line.value), line.value)
    sums = {name: {r: sum(s.values()) for r, s in replicas.items()} for name, replicas in by_name.items()}
    running_by, waiting_by = _running(engine, sums), _first(sums, engine.waiting)
    used = next((by_name[name] for name in engine.kv_usage if name in by_name), {})
    usage = [value for series in used.values() for value in series.values()]
    counters = [n for n in (*engine.finished, *(x for c in engine.live for x in c)) if n not in engine.gauges]
    return EngineSample(
        engine=engine.name,
        running=sum(running_by.values()) if running_by else None,
        waiting=sum(waiting_by.values()) if waiting_by else None,
        kv_usage=max(usage) if usage else None,
        live=_live(engine, sums),
        prefill=_first(sums, engine.prefill),
        stepping=_first(sums, engine.stepping),
        restart_proof={f"{n}/{r}": v for n in counters for r, v in sums.get(n, {}).items()},
        finished={name: sum(sums[name].values()) for name in engine.finished if name in sums},
        running_by=running_by,
        waiting_by=waiting_by,
        started_at=started_at,
        drafted=_total(sums, engine.drafted),
        accepted=_total(sums, engine.accepted),
    )


def _total(sums: Mapping[str, Mapping[str, float]], names: Iterable[str]) -> float | None:
    found = _first(sums, names)
    return sum(found.values()) if found else None


def _replica(labels: Mapping[str, str]) -> str:
    return "/".join(labels[name] for name in REPLICA_LABELS if labels.get(name))


def _first(sums: Mapping[str, Mapping[str, float]], names: Iterable[str]) -> Mapping[str, float]:
    return next((sums[name] for name in names if name in sums), {})


def _running(engine: Engine, sums: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """Requests that run, by replica: at least one where more was begun than has ended."""
    running = _first(sums, engine.running)
    at_work = {
        replica: count - sum(sums.get(name, {}).get(replica, 0.0) for name in engine.ended)
        for replica, count in _first(sums, engine.begun).items()
    }
    return {replica: max(running.get(replica, 0.0), at_work.get(replica, 0.0)) for replica in {**running, **at_work}}


def _live(engine: Engine, sums: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    live: dict[str, dict[str, float]] = {}
    for counter in engine.live:
        if counter[0] not in sums:
            continue
        for name in counter:
            for replica, value in sums.get(name, {}).items():
                counters = live.setdefault(replica, {})
                counters["+".join(counter)] = counters.get("+".join(counter), 0.0) + value
    return live


def to_json(sample: EngineSample) -> Json:
    """`sample` as a JSON value for a check's memory; `from_json` reads it back."""
    return {
        "engine": sample.engine,
        "running": sample.running,
        "waiting": sample.waiting,
        "live": {replica: dict(counters) for replica, counters in sample.live.items()},
        "prefill": dict(sample.prefill),
        "stepping": dict(sample.stepping),
        "restart_proof": dict(sample.restart_proof),
        "finished": dict(sample.finished),
        "running_by": dict(sample.running_by),
        "waiting_by": dict(sample.waiting_by),
        "started_at": sample.started_at,
    }


def from_json(value: Json) -> EngineSample | None:
    """The sample that `to_json` wrote; None for anything else, such as memory of an older version."""
    try:
        return EngineSample(
            engine=str(value["engine"]),
            running=value["running"],
            waiting=value["waiting"],
            live={str(r): {str(n): float(v) for n, v in c.items()} for r, c in value["live"].items()},
            prefill={str(r): float(v) for r, v in value.get("prefill", {}).items()},
            stepping={str(r): float(v) for r, v in value.get("stepping", {}).items()},
            restart_proof={str(n): float(v) for n, v in value["restart_proof"].items()},
            finished={str(n): float(v) for n, v in value["finished"].items()},
            running_by={str(r): float(v) for r, v in value["running_by"].items()},
            waiting_by={str(r): float(v) for r, v in value["waiting_by"].items()},
            started_at=value["started_at"],
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


# From the body of a metrics scrape to an `EngineSample`.

_STARTED = "process_start_time_seconds"
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\([n\\\"])")
_MOST_LINES = 5000
_GREATEST = 1e18
"""No engine counts further, and sums of such numbers stay finite."""
_BY_NAME: dict[str, tuple[Engine, str]] = {
    prefix + name: (engine, name) for engine in ENGINES for prefix in engine.prefixes for name in engine.names
}


def read_metrics(body: bytes) -> EngineSample | None:
    """The sample in the body of a scrape, or None if it holds no metrics of an engine we know (empty, HTML, JSON…)."""
    by_engine: dict[str, tuple[Engine, list[MetricLine]]] = {}
    started_at: float | None = None
    picked = 0
    for line in body.decode("utf-8", "replace").split("\n"):
        name = _name_of(line)
        if name == _STARTED:
            started = _series_in(line)
            started_at = started[1] if started else started_at
            continue
        known = _BY_NAME.get(name) or _fork(name)
        if known is None:
            continue
        picked += 1
        if picked > _MOST_LINES:
            break
        engine, short = known
        if (series := _series_in(line)) is not None:
            by_engine.setdefault(engine.name, (engine, []))[1].append(MetricLine(short, *series))
    if not by_engine:
        return None
    engine, lines = max(by_engine.values(), key=lambda found: (found[0] is not NIM, len(found[1])))
    return sample_of(engine, lines, started_at)


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


def _series_in(line: str) -> tuple[Mapping[str, str], float] | None:
    """The labels and the finite value of one line of the Prometheus text format; None for anything else."""
    without_exemplar, mark, _ = line.rpartition(" # {")  # OpenMetrics; a label may hold the mark too
    return (_series(without_exemplar) if mark else None) or _series(line)


def _series(line: str) -> tuple[Mapping[str, str], float] | None:
    head, brace, tail = line.rpartition("}")  # no regular expression: a hostile line must not take long
    if "{" in tail:
        return None
    words = tail.split() if brace else tail.split()[1:]
    labels: dict[str, str] = {}
    place, text = 0, head.partition("{")[2].rstrip()
    while place < len(text):
        pair = _LABEL.match(text, place)
        if pair is None:
            return None
        labels[pair[1]] = _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], pair[2])
        place = pair.end()
    try:
        value = float(words[0])
    except (IndexError, ValueError):
        return None
    return (labels, value) if abs(value) <= _GREATEST else None  # false for NaN, too
