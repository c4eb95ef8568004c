"""A report for people: plain text, or one HTML file that needs nothing else. Both draw the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo

from watchdog.model import Incident, IncidentStatus, Nature
from watchdog.overview.format import TimeFormat, incident_title, number, percent, seconds
from watchdog.overview.html import Child, Html, content_policy, document, scroll_area, tag
from watchdog.overview.incidents import past_incident
from watchdog.overview.plot import server_plots
from watchdog.overview.report import HostFigures, ProbingCost, ReceiverFigures, Report, ServerFigures
from watchdog.overview.statistics import Share, Spread
from watchdog.text import duration, full_timestamp, local_time, quantity

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
    failures = {name: count for name, count in one.reasons.items() if name not in ("ok", "garbage")}
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
        ("Not read", _counts({name: count for name, count in one.reasons.items() if name != "ok"})),
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
        *(_server(one, report) for one in report.servers),
        *(_section(f"Host {one.host}", _table(_host_rows(one), one.host)) for one in report.hosts),
        _incidents(report, times),
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


def _server(one: ServerFigures, report: Report) -> Html:
    words, until_at = duration(report.span.length_s), report.span.until_at
    plots = server_plots(one.server, report.series[one.server], report.span, words=words, now=until_at)
    return _section(f"Server {one.server}", _table(_server_rows(one), one.server), plots)


def _incidents(report: Report, times: TimeFormat) -> Html:
    shown = [past_incident(one, times) for one in reversed(report.incidents[-MOST_IN_HTML:])]
    earlier = len(report.incidents) - len(shown)
    rest = tag("p", f"and {earlier} earlier", class_="muted") if earlier else None
    spans = [tag("p", f"{label}: {words}.") for label, words in _time_rows(report)]
    body = (spans, *shown, rest) if shown else (tag("p", "None."),)
    return _section(f"Incidents ({len(report.incidents)})", *body)
