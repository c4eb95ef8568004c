"""The figures of some days: how available, how fast, what went wrong, how long we were blind, what was delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from watchdog import kinds
from watchdog.kinds import is_own
from watchdog.model import DeliveryState, Incident, IncidentStatus, Nature, Severity, Verdict
from watchdog.overview.drift import GENERATION
from watchdog.overview.statistics import Series, Share, Span, Spread, series_of
from watchdog.overview.status import diagnosis_json
from watchdog.reasons import ServerReason
from watchdog.store import BlindWindow, DeliveryView, Reader

DAY_S = 86400.0
KERNEL_LOG = kinds.KERNEL_LOG.key("")
UNASKED = frozenset({"shutdown", "asleep"})
"""Reasons of observations that sent no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """One server. `answered` of the probes that could tell; `requests` sent by probes, `tokens` generated for them.

    `counted` says for how many passing probes the server counted its tokens; the sum is over those.
    """

    name: str
    answered: Share
    unknowns: int
    instant_stops: Share
    busy: Share
    reasons: Mapping[str, int]
    requests: int
    tokens: int
    counted: int
    series: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigures:
    """One host. `read` of the scans that could tell; `findings` are kernel lines by kind."""

    name: str
    read: Share
    unknowns: int
    reasons: Mapping[str, int]
    lines: int
    findings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverFigures:
    """One receiver. `delay` in seconds, from a message's writing to its delivery."""

    name: str
    delivered: Share
    first_try: Share
    waiting: int
    given_up: int
    dropped: int
    delay: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything between `span.since_at` and `span.until_at`. `blind_s` by check, "" for times when nothing was seen.

    `detect` spreads the time from a condition's first failure to its alert, `resolve` that from its first failure to
    its end.
    """

    span: Span
    servers: tuple[ServerFigures, ...]
    hosts: tuple[HostFigures, ...]
    incidents: tuple[Incident, ...]
    detect: Spread
    resolve: Spread
    blind_s: Mapping[str, float]
    receivers: tuple[ReceiverFigures, ...]


def report_of(reader: Reader, span: Span) -> Report:
    """The figures of `span`, read from `reader`."""
    keys, incidents = reader.keys(), reader.incidents(span.since_at, span.until_at)
    servers = [key for key in keys if key.startswith(GENERATION)]
    hosts = [key for key in keys if key.startswith(KERNEL_LOG) and "/" not in key.removeprefix(KERNEL_LOG)]
    conditions = [one for one in incidents if one.nature is Nature.CONDITION and not is_own(one.key)]
    ended = [one for one in conditions if one.status is IncidentStatus.RESOLVED and one.closed_at is not None]
    return Report(
        span=span,
        servers=tuple(_server(key, reader, span) for key in servers),
        hosts=tuple(_host(key, reader, span, incidents) for key in hosts),
        incidents=tuple(sorted(incidents, key=lambda one: one.since)),
        detect=Spread.of([one.opened_at - one.since for one in conditions]),
        resolve=Spread.of([one.closed_at - one.since for one in ended if one.closed_at is not None]),
        blind_s=blind_times(reader.blind_windows(span.since_at), span.since_at, span.until_at),
        receivers=_receivers(reader.deliveries(None, span.since_at), span),
    )


def _server(key: str, reader: Reader, span: Span) -> ServerFigures:
    samples = reader.samples(key, span.since_at, span.until_at)
    cost = reader.cost(key, span.since_at, span.until_at)
    passes = sum(one.verdict is Verdict.PASS for one in samples)
    fails = sum(one.verdict is Verdict.FAIL for one in samples)
    reasons = Counter(one.reason for one in samples)
    told = passes + fails
    return ServerFigures(
        name=key.removeprefix(GENERATION),
        answered=Share(passes, told),
        unknowns=len(samples) - told,
        instant_stops=Share(cost.resent_probes, told),
        busy=Share(reasons[ServerReason.BUSY.value], told),
        reasons=dict(reasons.most_common()),
        requests=sum(one.reason not in UNASKED for one in samples) + cost.resent,
        tokens=cost.completion_tokens,
        counted=cost.counted_probes,
        series=series_of(samples, span),
    )


def _host(key: str, reader: Reader, span: Span, incidents: Iterable[Incident]) -> HostFigures:
    name = key.removeprefix(KERNEL_LOG)
    points = reader.history(key, span.since_at, span.until_at)
    passes = sum(one.verdict is Verdict.PASS for one in points)
    fails = sum(one.verdict is Verdict.FAIL for one in points)
    found: Counter[str] = Counter()
    for one in incidents:
        if one.nature is Nature.OCCURRENCE and one.labels.get("host") == name and one.key.startswith(KERNEL_LOG):
            found[one.labels.get("kind", one.reason)] += one.count
    return HostFigures(
        name=name,
        read=Share(passes, passes + fails),
        unknowns=len(points) - passes - fails,
        reasons=dict(Counter(one.reason for one in points).most_common()),
        lines=round(sum(one.measurements.get("lines", 0.0) for one in points)),
        findings=dict(found.most_common()),
    )


def blind_times(windows: Iterable[BlindWindow], since_at: float, until_at: float) -> dict[str, float]:
    """Seconds without sight by check ("" for everything), overlapping windows of a check counted once."""
    total: dict[str, float] = {}
    seen_until: dict[str, float] = {}
    for one in sorted(windows, key=lambda window: window.began_at):
        begin = max(one.began_at, since_at, seen_until.get(one.key, since_at))
        end = min(until_at if one.ended_at is None else one.ended_at, until_at)
        if end > begin:
            total[one.key] = total.get(one.key, 0.0) + end - begin
        seen_until[one.key] = max(seen_until.get(one.key, since_at), end)
    return total


def _receivers(views: Iterable[DeliveryView], span: Span) -> tuple[ReceiverFigures, ...]:
    by_name: dict[str, list[DeliveryView]] = {}
    for view in views:
        if view.created_at < span.until_at:
            by_name.setdefault(view.receiver, []).append(view)
    return tuple(_receiver(name, rows) for name, rows in sorted(by_name.items()))


def _receiver(name: str, rows: list[DeliveryView]) -> ReceiverFigures:
    states = Counter(row.state for row in rows)
    arrived = [row for row in rows if row.state is DeliveryState.DELIVERED]
    over = states[DeliveryState.DELIVERED] + states[DeliveryState.DEAD]
    return ReceiverFigures(
        name=name,
        delivered=Share(len(arrived), over),
        first_try=Share(sum(row.attempt <= 1 for row in arrived), len(arrived)),
        waiting=states[DeliveryState.QUEUED] + states[DeliveryState.LEASED],
        given_up=states[DeliveryState.DEAD],
        dropped=states[DeliveryState.DROPPED],
        delay=Spread.of([row.done_at - row.created_at for row in arrived if row.done_at is not None]),
    )


def report_json(report: Report) -> dict[str, Any]:
    """The report as JSON (docs/api.md); times in Unix seconds, durations in seconds, shares from 0 to 1."""
    return {
        "version": 1,
        "since_at": report.span.since_at,
        "until_at": report.span.until_at,
        "servers": [_server_json(one) for one in report.servers],
        "hosts": [
            {
                "host": one.name,
                "read": share_json(one.read),
                "unknowns": one.unknowns,
                "reasons": dict(one.reasons),
                "lines": one.lines,
                "findings": dict(one.findings),
            }
            for one in report.hosts
        ],
        "incidents": [incident_json(one) for one in report.incidents],
        "by_severity": {
            level.value: sum(one.severity is level for one in report.incidents) for level in reversed(Severity)
        },
        "detect_s": spread_json(report.detect),
        "resolve_s": spread_json(report.resolve),
        "blind_s": dict(report.blind_s),
        "receivers": [
            {
                "receiver": one.name,
                "delivered": share_json(one.delivered),
                "first_try": share_json(one.first_try),
                "waiting": one.waiting,
                "given_up": one.given_up,
                "dropped": one.dropped,
                "delay_s": spread_json(one.delay),
            }
            for one in report.receivers
        ],
    }


def _server_json(one: ServerFigures) -> dict[str, Any]:
    return {
        "server": one.name,
        "answered": share_json(one.answered),
        "unknowns": one.unknowns,
        "instant_stops": share_json(one.instant_stops),
        "busy": share_json(one.busy),
        "reasons": dict(one.reasons),
        "first_token_s": spread_json(one.series.ttft),
        "whole_reply_s": spread_json(one.series.duration),
        "tokens_per_s": spread_json(one.series.speed),
        "cost": {"requests": one.requests, "completion_tokens": one.tokens, "counted_probes": one.counted},
    }


def share_json(share: Share) -> dict[str, Any]:
    """A share with its Wilson 95 % interval, null of nothing."""
    low, high = share.interval or (None, None)
    return {"count": share.count, "total": share.total, "share": share.value, "low": low, "high": high}


def spread_json(spread: Spread) -> dict[str, Any]:
    """How a measure is spread."""
    return {
        "count": spread.count,
        "p50": spread.p50,
        "p90": spread.p90,
        "p95": spread.p95,
        "p99": spread.p99,
        "max": spread.longest,
    }


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
