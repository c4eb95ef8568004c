"""The figures of some days: how available, how fast, what went wrong, how long we were blind, what was delivered.

Each is a row of the report: as it stands in its JSON, and as people read it in text or HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import tzinfo
from typing import Any

from watchdog.kinds import is_own
from watchdog.model import DeliveryState, Incident, IncidentStatus, Nature, Severity, Verdict
from watchdog.overview import GENERATION, KERNEL_LOG
from watchdog.overview.format import TimeFormat, incident_title, number, percent, seconds
from watchdog.overview.html import Child, Html, content_policy, document, scroll_area, tag
from watchdog.overview.incidents import past_incident
from watchdog.overview.plot import server_plots
from watchdog.overview.statistics import Series, Share, Span, Spread, blind_seconds, series_of
from watchdog.overview.status import diagnosis_json
from watchdog.reasons import PASSING, HostReason, OwnReason, ServerReason
from watchdog.store import BlindWindow, DeliveryView, Reader
from watchdog.text import duration, full_timestamp, local_time, quantity

NO_REQUEST = frozenset({OwnReason.SHUTDOWN, ServerReason.ASLEEP})
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
    verdicts, reasons = Counter[Verdict](), Counter[str]()
    for one in points:
        verdicts[one.verdict] += one.weight
        reasons[one.reason] += one.weight
    ours = (one for one in incidents if one.labels.get("host") == host and one.key.startswith(KERNEL_LOG))
    return HostFigures(
        host=host,
        read=Share(verdicts[Verdict.PASS], verdicts[Verdict.PASS] + verdicts[Verdict.FAIL]),
        unknowns=verdicts[Verdict.UNKNOWN],
        reasons=dict(reasons.most_common()),
        lines=round(sum(one.measurements.get("lines", 0.0) * one.weight for one in points)),
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


# The report for people, as plain text or one HTML file that needs nothing else: both draw the same rows.

MOST_IN_TEXT, MOST_IN_HTML = 30, 200
"""Incidents that are listed, the newest."""
STATUS_WORDS = {
    IncidentStatus.FIRING: "still firing",
    IncidentStatus.RESOLVED: "resolved",
    IncidentStatus.EXPIRED: "went quiet",
}
Rows = list[tuple[str, str]]
"""Label and words of the rows of one part of the report."""


def _server_rows(one: ServerFigures) -> Rows:
    failures = {name: count for name, count in one.reasons.items() if name not in PASSING}
    speed = one.tokens_per_s
    return [
        ("Answered", f"{one.answered.count} of {quantity(one.answered.total, 'probe')}, {_share(one.answered)}"),
        ("Not answered", _counts(failures)),
        ("Unknown", quantity(one.unknowns, "probe")),
        ("First token", _spread(one.first_token_s)),
        ("Whole reply", _spread(one.whole_reply_s)),
        ("Tokens per second", f"median {number(speed.p50)}" if speed.count else "not measured"),
        ("Instant stop", f"{one.instant_stops.count}, {_share(one.instant_stops)}"),
        ("Busy", f"{one.busy.count}, {_share(one.busy)}"),
        ("Cost of probing", f"{quantity(one.cost.requests, 'request')}, {_tokens(one.cost)}"),
    ]


def _host_rows(one: HostFigures) -> Rows:
    return [
        ("Read in full", f"{one.read.count} of {quantity(one.read.total, 'scan')}, {_share(one.read)}"),
        ("Not read", _counts({name: count for name, count in one.reasons.items() if name != HostReason.OK})),
        ("Lines read", str(one.lines)),
        ("Kernel findings", _counts(one.findings)),
    ]


def _time_rows(report: Report) -> Rows:
    return [
        (label, f"median {duration(spread.p50)}, longest {duration(spread.max)}")
        for label, spread in (("Time to detect", report.detect_s), ("Time to resolve", report.resolve_s))
        if spread.p50 is not None and spread.max is not None
    ]


def _blind_rows(report: Report) -> Rows:
    return [(f"Blind to {key or 'everything'}", duration(blind_s)) for key, blind_s in report.blind_s.items()]


def _delivery_rows(report: Report) -> Rows:
    return [(one.receiver, _delivery(one)) for one in report.receivers]


def _share(share: Share) -> str:
    """`99.63 % (95 % interval 99.51 to 99.72 %)`."""
    if share.interval is None:
        return "no data"
    low, high = share.interval
    return f"{percent(share.value)} (95 % interval {percent(low)[:-2]} to {percent(high)})"


def _spread(spread: Spread) -> str:
    if not spread.count:
        return "not measured"
    return (
        f"median {seconds(spread.p50)}, 90 % {seconds(spread.p90)}, 95 % {seconds(spread.p95)}, "
        f"99 % {seconds(spread.p99)}, longest {seconds(spread.max)}"
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} × {count}" for name, count in counts.items()) or "none"


def _tokens(cost: ProbingCost) -> str:
    if not cost.counted_probes:
        return "the server does not report token counts"
    return f"{cost.completion_tokens} tokens generated, {cost.completion_tokens / cost.counted_probes:.1f} per probe"


def _delivery(one: ReceiverFigures) -> str:
    words = f"{quantity(one.delivered.count, 'message')} delivered, {one.first_try.count} at the first attempt"
    if one.delay_s.max is not None:
        words += f", median delay {seconds(one.delay_s.p50)}, longest {duration(one.delay_s.max)}"
    for count, what in ((one.waiting, "waiting"), (one.given_up, "given up"), (one.dropped, "dropped")):
        words += f", {count} {what}" if count else ""
    return words


def report_text(report: Report, zone: tzinfo | None) -> str:
    """The whole report, for a terminal or a mail; times in `zone` (None: the machine's)."""
    since, until = full_timestamp(report.span.since_at, zone), full_timestamp(report.span.until_at, zone)
    shown = report.incidents[-MOST_IN_TEXT:]
    earlier = len(report.incidents) - len(shown)
    lines = [f"inference-watchdog report, {since} to {until}", ""]
    for server in report.servers:
        lines += [f"Server {server.server}", *_text(_server_rows(server)), ""]
    for host in report.hosts:
        lines += [f"Host {host.host}", *_text(_host_rows(host)), ""]
    lines += [f"Incidents: {len(report.incidents)}", *_text(_time_rows(report))]
    lines += [f"  … {earlier} earlier: `inference-watchdog history`"] if earlier else []
    lines += [*(f"  {incident_line(one, zone)}" for one in shown), ""]
    lines += [*(_text(_blind_rows(report), "") or ["Blind: never"]), ""]
    lines += ["Delivery:", *_text(_delivery_rows(report))] if report.receivers else ["No deliveries"]
    return "\n".join(lines)


def _text(rows: Rows, indent: str = "  ") -> list[str]:
    width = max((len(label) for label, _ in rows), default=0) + 1
    return [f"{indent}{label + ':':{width}} {words}" for label, words in rows]


def incident_line(one: Incident, zone: tzinfo | None) -> str:
    """One incident on a line; its time in `zone` (None: the machine's)."""
    lasted = f" after {duration(one.closed_at - one.since)}" if one.closed_at is not None else ""
    # An incident with a unit says itself how many there were.
    times = f" ({one.count} times)" if one.nature is Nature.OCCURRENCE and one.count > 1 and not one.unit else ""
    return (
        f"{local_time(one.since, zone):%Y-%m-%d %H:%M:%S} {one.severity.value:4}  {incident_title(one)}{times}, "
        f"{STATUS_WORDS[one.status]}{lasted} [{one.id}]"
    )


def report_page(report: Report, zone: tzinfo | None, version: str) -> str:
    """The whole HTML file as text; times in `zone` (None: the machine's)."""
    times = TimeFormat(report.span.until_at, zone)
    since, until = times.local(report.span.since_at), times.local(report.span.until_at)
    # Within a file the policy cannot be a header; this part of it has no meaning in a tag.
    policy = content_policy().replace("; frame-ancestors 'none'", "")
    main = tag(
        "main",
        _hero(report),
        *(_server_section(one, report) for one in report.servers),
        *(_section(f"Host {one.host}", _table(_host_rows(one), one.host)) for one in report.hosts),
        _incident_section(report, times),
        _section("Blind", _table(_blind_rows(report), "Blind") or tag("p", "Never.")),
        _section("Delivery", _table(_delivery_rows(report), "Delivery") or tag("p", "No deliveries.")),
    )
    header = tag(
        "header",
        tag("h1", "inference-watchdog report"),
        tag("span", f"{since:%a %Y-%m-%d %H:%M} to {until:%a %Y-%m-%d %H:%M %Z}"),
    )
    return document(
        f"Report {since:%Y-%m-%d} to {until:%Y-%m-%d} · inference-watchdog",
        header,
        main,
        tag("footer", f"inference-watchdog {version}"),
        head=tag("meta", http_equiv="Content-Security-Policy", content=policy),
    )


def _hero(report: Report) -> Html:
    answered = sum(one.answered.count for one in report.servers)
    total = sum(one.answered.total for one in report.servers)
    words = f"{percent(answered / total)} of {quantity(total, 'probe')} answered" if total else "No server was probed"
    rest = f"{quantity(len(report.incidents), 'incident')} in {duration(report.span.length_s)}"
    kind = "warning" if report.incidents else "well"
    return tag("div", tag("p", words), tag("p", rest, class_="muted"), class_=f"hero {kind}")


def _section(title: str, *children: Child) -> Html:
    return tag("section", tag("h2", title), tag("div", *children, class_="card"))


def _table(rows: Iterable[tuple[str, str]], name: str) -> Html | None:
    body = [tag("tr", tag("th", label, scope="row"), tag("td", words)) for label, words in rows]
    return scroll_area(tag("table", tag("tbody", *body)), f"{name}, figures") if body else None


def _server_section(one: ServerFigures, report: Report) -> Html:
    words, until_at = duration(report.span.length_s), report.span.until_at
    plots = server_plots(one.server, report.series[one.server], report.span, words=words, now=until_at)
    return _section(f"Server {one.server}", _table(_server_rows(one), one.server), plots)


def _incident_section(report: Report, times: TimeFormat) -> Html:
    shown = [past_incident(one, times) for one in reversed(report.incidents[-MOST_IN_HTML:])]
    earlier = len(report.incidents) - len(shown)
    rest = tag("p", f"and {earlier} earlier", class_="muted") if earlier else None
    spans = [tag("p", f"{label}: {words}.") for label, words in _time_rows(report)]
    body = (spans, *shown, rest) if shown else (tag("p", "None."),)
    return _section(f"Incidents ({len(report.incidents)})", *body)
