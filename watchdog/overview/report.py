"""The figures of some days: how available, how fast, what went wrong, how long we were blind, what was delivered.

They are rows of the report as they stand in its JSON; `report_render` writes the same rows for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from watchdog.kinds import is_own
from watchdog.model import DeliveryState, Incident, IncidentStatus, Nature, Severity, Verdict
from watchdog.overview import GENERATION, KERNEL_LOG
from watchdog.overview.statistics import Series, Share, Span, Spread, blind_seconds, series_of
from watchdog.overview.status import diagnosis_json
from watchdog.reasons import ServerReason
from watchdog.store import BlindWindow, DeliveryView, Reader

NO_REQUEST = frozenset({"shutdown", "asleep"})
"""Reasons of observations that sent no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingCost:
    """Requests sent, tokens generated for them, and for how many passing probes the server counted its tokens."""

    requests: int
    completion_tokens: int
    counted_probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """One server. `answered`, `instant_stops` and `busy` are shares of the probes that passed or failed."""

    server: str
    answered: Share
    unknowns: int
    instant_stops: Share
    busy: Share
    reasons: Mapping[str, int]
    first_token_s: Spread
    whole_reply_s: Spread
    tokens_per_s: Spread
    cost: ProbingCost


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigures:
    """One host. `read` of the scans that passed or failed; `findings` are kernel lines by kind."""

    host: str
    read: Share
    unknowns: int
    reasons: Mapping[str, int]
    lines: int
    findings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverFigures:
    """One receiver. `delay_s` is from the writing of a message to its delivery."""

    receiver: str
    delivered: Share
    first_try: Share
    waiting: int
    given_up: int
    dropped: int
    delay_s: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything between `span.since_at` and `span.until_at`; `series` by server, `incidents` the oldest first.

    `detect_s` is from a condition's first failure to its alert, `resolve_s` from its first failure to its end.
    `blind_s` is by check, "" for times when nothing was seen at all.
    """

    span: Span
    servers: tuple[ServerFigures, ...]
    series: Mapping[str, Series]
    hosts: tuple[HostFigures, ...]
    incidents: tuple[Incident, ...]
    detect_s: Spread
    resolve_s: Spread
    blind_s: Mapping[str, float]
    receivers: tuple[ReceiverFigures, ...]


def report_of(reader: Reader, span: Span) -> Report:
    """The figures of `span`, read from `reader`."""
    keys, incidents = reader.keys(), reader.incidents(span.since_at, span.until_at)
    servers = [_server(key, reader, span) for key in keys if key.startswith(GENERATION)]
    hosts = [key for key in keys if key.startswith(KERNEL_LOG) and "/" not in key.removeprefix(KERNEL_LOG)]
    conditions = [one for one in incidents if one.nature is Nature.CONDITION and not is_own(one.key)]
    ended = [one for one in conditions if one.status is IncidentStatus.RESOLVED]
    return Report(
        span=span,
        servers=tuple(figures for figures, _ in servers),
        series={figures.server: series for figures, series in servers},
        hosts=tuple(_host(key, reader, span, incidents) for key in hosts),
        incidents=tuple(sorted(incidents, key=lambda one: one.since)),
        detect_s=Spread.of([one.opened_at - one.since for one in conditions]),
        resolve_s=Spread.of([one.closed_at - one.since for one in ended if one.closed_at is not None]),
        blind_s=blind_times(reader.blind_windows(span.since_at), span.since_at, span.until_at),
        receivers=_receivers(reader.deliveries(None, span.since_at), span),
    )


def _server(key: str, reader: Reader, span: Span) -> tuple[ServerFigures, Series]:
    samples = reader.samples(key, span.since_at, span.until_at)
    cost = reader.cost(key, span.since_at, span.until_at)
    verdicts, reasons = Counter(one.verdict for one in samples), Counter(one.reason for one in samples)
    series = series_of(samples, span)
    known = verdicts[Verdict.PASS] + verdicts[Verdict.FAIL]
    figures = ServerFigures(
        server=key.removeprefix(GENERATION),
        answered=Share(verdicts[Verdict.PASS], known),
        unknowns=verdicts[Verdict.UNKNOWN],
        instant_stops=Share(cost.resent_probes, known),
        busy=Share(reasons[ServerReason.BUSY], known),
        reasons=dict(reasons.most_common()),
        first_token_s=series.ttft,
        whole_reply_s=series.duration,
        tokens_per_s=series.speed,
        cost=ProbingCost(
            requests=sum(one.reason not in NO_REQUEST for one in samples) + cost.resent,
            completion_tokens=cost.completion_tokens,
            counted_probes=cost.counted_probes,
        ),
    )
    return figures, series


def _host(key: str, reader: Reader, span: Span, incidents: Iterable[Incident]) -> HostFigures:
    host = key.removeprefix(KERNEL_LOG)
    points = reader.history(key, span.since_at, span.until_at)
    verdicts = Counter(one.verdict for one in points)
    ours = (one for one in incidents if one.labels.get("host") == host and one.key.startswith(KERNEL_LOG))
    return HostFigures(
        host=host,
        read=Share(verdicts[Verdict.PASS], verdicts[Verdict.PASS] + verdicts[Verdict.FAIL]),
        unknowns=verdicts[Verdict.UNKNOWN],
        reasons=dict(Counter(one.reason for one in points).most_common()),
        lines=round(sum(one.measurements.get("lines", 0.0) for one in points)),
        findings=dict(findings_by_kind(ours).most_common()),
    )


def findings_by_kind(incidents: Iterable[Incident]) -> Counter[str]:
    """How many kernel lines of each kind `incidents` count."""
    found: Counter[str] = Counter()
    for one in incidents:
        if one.nature is Nature.OCCURRENCE:
            found[one.labels.get("kind", one.reason)] += one.count
    return found


def blind_times(windows: Iterable[BlindWindow], since_at: float, until_at: float) -> dict[str, float]:
    """Seconds in which nothing was seen, by check ("" for everything); overlapping windows of a check count once."""
    by_key: dict[str, list[BlindWindow]] = {}
    for one in sorted(windows, key=lambda window: window.began_at):
        by_key.setdefault(one.key, []).append(one)
    times = {key: blind_seconds(found, since_at, until_at) for key, found in by_key.items()}
    return {key: blind_s for key, blind_s in times.items() if blind_s > 0}


def _receivers(views: Iterable[DeliveryView], span: Span) -> tuple[ReceiverFigures, ...]:
    by_name: dict[str, list[DeliveryView]] = {}
    for view in views:
        if view.created_at < span.until_at:
            by_name.setdefault(view.receiver, []).append(view)
    return tuple(_receiver(name, rows) for name, rows in sorted(by_name.items()))


def _receiver(name: str, rows: list[DeliveryView]) -> ReceiverFigures:
    states = Counter(row.state for row in rows)
    delivered = [row for row in rows if row.state is DeliveryState.DELIVERED]
    return ReceiverFigures(
        receiver=name,
        delivered=Share(len(delivered), len(delivered) + states[DeliveryState.DEAD]),
        first_try=Share(sum(row.attempt <= 1 for row in delivered), len(delivered)),
        waiting=states[DeliveryState.QUEUED] + states[DeliveryState.LEASED],
        given_up=states[DeliveryState.DEAD],
        dropped=states[DeliveryState.DROPPED],
        delay_s=Spread.of([row.done_at - row.created_at for row in delivered if row.done_at is not None]),
    )


def report_json(report: Report) -> dict[str, Any]:
    """The report as JSON (docs/api.md); times in Unix seconds, durations in seconds, shares from 0 to 1."""
    return {
        "version": 1,
        "since_at": report.span.since_at,
        "until_at": report.span.until_at,
        "servers": [_json(one) for one in report.servers],
        "hosts": [_json(one) for one in report.hosts],
        "incidents": [incident_json(one) for one in report.incidents],
        "by_severity": {
            level.value: sum(one.severity is level for one in report.incidents) for level in reversed(Severity)
        },
        "detect_s": _json(report.detect_s),
        "resolve_s": _json(report.resolve_s),
        "blind_s": dict(report.blind_s),
        "receivers": [_json(one) for one in report.receivers],
    }


def _json(value: Any) -> Any:
    """Figures under the names of their fields; a share with its bounds, null of nothing."""
    if isinstance(value, Share):
        low, high = value.interval or (None, None)
        return {"count": value.count, "total": value.total, "share": value.value, "low": low, "high": high}
    if is_dataclass(value):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    return value


def incident_json(one: Incident) -> dict[str, Any]:
    """One incident of the past or present, with all that is known of it."""
    return {
        "id": one.id,
        "check": one.key,
        "nature": one.nature.value,
        "severity": one.severity.value,
        "status": one.status.value,
        "reason": one.reason,
        "reasons": list(one.reasons),
        "summary": one.statement,
        "diagnosis": diagnosis_json(one.diagnosis),
        "since": one.since,
        "opened_at": one.opened_at,
        "closed_at": one.closed_at,
        "last_good_at": one.last_good_at,
        "count": one.count,
        "advice": one.advice,
        "labels": dict(one.labels),
        "evidence": [{"at": fact.at, "source": fact.source, "text": fact.text} for fact in one.evidence],
    }
