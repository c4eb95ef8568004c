"""A report as plain text."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from watchdog.model import Incident, IncidentStatus, Nature
from watchdog.overview.format import Clockface, counted, number, percent, seconds, titled
from watchdog.overview.html import Child, Html, content_policy, document, scrolling, tag
from watchdog.overview.incidents import past_incident
from watchdog.overview.plot import curves
from watchdog.overview.report import HostFigures, ReceiverFigures, Report, ServerFigures
from watchdog.overview.statistics import Share, Spread
from watchdog.text import duration

MOST_LISTED = 30
ENDS = {
    IncidentStatus.FIRING: "still firing",
    IncidentStatus.RESOLVED: "resolved",
    IncidentStatus.EXPIRED: "went quiet",
}


def report_text(report: Report, zone: tzinfo | None) -> str:
    """The whole report, for a terminal or a mail; times in `zone` (None: the machine's)."""
    since, until = _moment(report.span.since_at, zone), _moment(report.span.until_at, zone)
    lines = [f"inference-watchdog report, {since} to {until}", ""]
    for server in report.servers:
        lines += [*_server(server), ""]
    for host in report.hosts:
        lines += [*_host(host), ""]
    lines += [*_incidents(report, zone), "", *_blind(report), "", *_delivery(report.receivers)]
    return "\n".join(lines)


def share_words(share: Share) -> str:
    """`99.63 % (95 % interval 99.51 to 99.72 %)`."""
    interval = share.interval
    if interval is None:
        return "nothing to say"
    low, high = interval
    return f"{percent(share.value)} (95 % interval {percent(low)[:-2]} to {percent(high)})"


def tokens_words(one: ServerFigures) -> str:
    """What the probes made the server generate."""
    if not one.counted:
        return "the server does not count tokens"
    return f"{one.tokens} generated tokens counted, {one.tokens / one.counted:.1f} a probe"


def spread_words(spread: Spread) -> str:
    """The percentiles of times."""
    if not spread.count:
        return "not measured"
    return (
        f"median {seconds(spread.p50)}, 90 % {seconds(spread.p90)}, 95 % {seconds(spread.p95)}, "
        f"99 % {seconds(spread.p99)}, longest {seconds(spread.longest)}"
    )


def _moment(at: float, zone: tzinfo | None) -> str:
    return f"{datetime.fromtimestamp(at, UTC).astimezone(zone):%a %Y-%m-%d %H:%M %Z}"


def _server(one: ServerFigures) -> list[str]:
    failed = {name: times for name, times in one.reasons.items() if name not in ("ok", "garbage")}
    why = ", ".join(f"{name} × {times}" for name, times in failed.items()) or "none"
    speed = one.series.speed
    rate = f"median {number(speed.p50)}/s" if speed.count else "not measured"
    return [
        f"Server {one.name}",
        f"  answered:     {one.answered.count} of {one.answered.total} probes, {share_words(one.answered)}",
        f"  not answered: {why}",
        f"  could not tell: {one.unknowns}",
        f"  first token:  {spread_words(one.series.ttft)}",
        f"  whole reply:  {spread_words(one.series.duration)}",
        f"  tokens:       {rate}",
        f"  instant stop: {one.instant_stops.count}, {share_words(one.instant_stops)}",
        f"  busy:         {one.busy.count}, {share_words(one.busy)}",
        f"  cost of probing: {one.requests} requests, {tokens_words(one)}",
    ]


def _host(one: HostFigures) -> list[str]:
    found = ", ".join(f"{kind} × {times}" for kind, times in one.findings.items()) or "none"
    unread = ", ".join(f"{name} × {times}" for name, times in one.reasons.items() if name != "ok") or "none"
    return [
        f"Host {one.name}",
        f"  read in full: {one.read.count} of {one.read.total} scans, {share_words(one.read)}; {one.lines} lines",
        f"  not read:     {unread}",
        f"  kernel findings: {found}",
    ]


def incident_line(one: Incident, zone: tzinfo | None) -> str:
    """One incident on a line."""
    local = datetime.fromtimestamp(one.since, UTC).astimezone(zone)
    lasted = f" after {duration(one.closed_at - one.since)}" if one.closed_at is not None else ""
    times = f" ({one.count} times)" if one.nature is Nature.OCCURRENCE and one.count > 1 else ""
    return (
        f"{local:%Y-%m-%d %H:%M:%S} {one.severity.value:4}  {titled(one)}{times}, {ENDS[one.status]}{lasted} [{one.id}]"
    )


def _incidents(report: Report, zone: tzinfo | None) -> list[str]:
    lines = [f"Incidents: {len(report.incidents)}"]
    if report.detect.count:
        lines.append(f"  time to detect:  {_spans(report.detect)}")
    if report.resolve.count:
        lines.append(f"  time to resolve: {_spans(report.resolve)}")
    shown = report.incidents[-MOST_LISTED:]
    if len(shown) < len(report.incidents):
        lines.append(f"  … {len(report.incidents) - len(shown)} earlier ones: `inference-watchdog history`")
    return lines + [f"  {incident_line(one, zone)}" for one in shown]


def _spans(spread: Spread) -> str:
    middle, longest = spread.p50 or 0.0, spread.longest or 0.0
    return f"median {duration(middle)}, longest {duration(longest)}"


def _blind(report: Report) -> list[str]:
    if not report.blind_s:
        return ["Blind: never"]
    return ["Blind:", *(f"  to {key or 'everything'}: {duration(blind_s)}" for key, blind_s in report.blind_s.items())]


def _delivery(receivers: tuple[ReceiverFigures, ...]) -> list[str]:
    if not receivers:
        return ["Delivery: nothing was to be delivered"]
    return ["Delivery:", *(f"  {one.name}: {delivery_words(one)}" for one in receivers)]


def delivery_words(one: ReceiverFigures) -> str:
    """What became of the messages for one receiver."""
    words = f"{counted(one.delivered.count, 'message')} delivered, {one.first_try.count} at the first try"
    if one.delay.count:
        words += f", median {seconds(one.delay.p50)} after it was written, longest {duration(one.delay.longest or 0.0)}"
    for count, what in ((one.waiting, "waiting"), (one.given_up, "given up"), (one.dropped, "dropped")):
        words += f", {count} {what}" if count else ""
    return words


# A report as one HTML file that needs nothing else: plots, tables, incidents with their evidence.

MOST_INCIDENTS = 200


def report_page(report: Report, zone: tzinfo | None, version: str) -> str:
    """The whole file as text; times in `zone` (None: the machine's)."""
    clock = Clockface(report.span.until_at, zone)
    since, until = clock.local(report.span.since_at), clock.local(report.span.until_at)
    title = f"Report {since:%Y-%m-%d} to {until:%Y-%m-%d}"
    # Within a file the policy cannot be a header; these two parts of it have no meaning in a tag.
    policy = content_policy().replace("; frame-ancestors 'none'", "")
    head = tag("meta", http_equiv="Content-Security-Policy", content=policy)
    main = tag(
        "main",
        _hero(report),
        *(_server_section(one, report, clock) for one in report.servers),
        _hosts(report.hosts),
        _incidents_section(report, clock),
        _blind_and_delivery(report),
    )
    top = tag(
        "header",
        tag("h1", "inference-watchdog report"),
        tag("span", f"{since:%a %Y-%m-%d %H:%M} to {until:%a %Y-%m-%d %H:%M %Z}"),
    )
    return document(
        f"{title} · inference-watchdog", top, main, tag("footer", f"inference-watchdog {version}"), head=head
    )


def _hero(report: Report) -> Html:
    answered = sum(one.answered.count for one in report.servers)
    total = sum(one.answered.total for one in report.servers)
    kind = "well" if not report.incidents else "warning"
    words = f"{percent(answered / total)} of {total} probes answered" if total else "No server was probed"
    rest = f"{counted(len(report.incidents), 'incident')} in {duration(report.span.length_s)}"
    return tag("div", tag("p", words), tag("p", rest, class_="muted"), class_=f"hero {kind}")


def _rows(pairs: list[tuple[str, Child]], name: str) -> Html:
    body = (tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in pairs)
    return scrolling(tag("table", tag("tbody", *body)), f"{name}, figures")


def _server_section(one: ServerFigures, report: Report, clock: Clockface) -> Html:
    failed = {name: times for name, times in one.reasons.items() if name not in ("ok", "garbage")}
    pairs: list[tuple[str, Child]] = [
        ("Answered", f"{one.answered.count} of {one.answered.total}: {share_words(one.answered)}"),
        ("Not answered", ", ".join(f"{name} × {times}" for name, times in failed.items()) or "none"),
        ("Could not tell", str(one.unknowns)),
        ("First token", spread_words(one.series.ttft)),
        ("Whole reply", spread_words(one.series.duration)),
        ("Tokens a second", f"median {number(one.series.speed.p50)}"),
        ("Instant stop", f"{one.instant_stops.count}: {share_words(one.instant_stops)}"),
        ("Busy", f"{one.busy.count}: {share_words(one.busy)}"),
        ("Cost of probing", f"{one.requests} requests, {tokens_words(one)}"),
    ]
    drawn = curves(one.name, one.series, report.span, words=duration(report.span.length_s), now=clock.now)
    return tag("section", tag("h2", f"Server {one.name}"), tag("div", _rows(pairs, one.name), drawn, class_="card"))


def _hosts(hosts: tuple[HostFigures, ...]) -> list[Html]:
    made = []
    for one in hosts:
        unread = ", ".join(f"{name} × {times}" for name, times in one.reasons.items() if name != "ok") or "none"
        pairs: list[tuple[str, Child]] = [
            ("Read in full", f"{one.read.count} of {one.read.total} scans: {share_words(one.read)}"),
            ("Not read", unread),
            ("Lines read", str(one.lines)),
            *((f"Finding {kind}", str(times)) for kind, times in one.findings.items()),
        ]
        made.append(tag("section", tag("h2", f"Host {one.name}"), tag("div", _rows(pairs, one.name), class_="card")))
    return made


def _incidents_section(report: Report, clock: Clockface) -> Html:
    shown = [past_incident(one, clock) for one in reversed(report.incidents[-MOST_INCIDENTS:])]
    more = len(report.incidents) - len(shown)
    times = []
    for name, spread in (("Time to detect", report.detect), ("Time to resolve", report.resolve)):
        if spread.count:
            times.append(f"{name}: median {duration(spread.p50 or 0.0)}, longest {duration(spread.longest or 0.0)}. ")
    rest = tag("p", f"and {more} earlier ones", class_="muted") if more > 0 else None
    body = tag("div", tag("p", *times), *shown, rest, class_="card") if shown else tag("p", "None.", class_="card")
    return tag("section", tag("h2", f"Incidents ({len(report.incidents)})"), body)


def _blind_and_delivery(report: Report) -> list[Html]:
    blind: list[tuple[str, Child]] = [
        (f"Blind to {key or 'everything'}", duration(blind_s)) for key, blind_s in report.blind_s.items()
    ]
    told: list[tuple[str, Child]] = [(one.name, delivery_words(one)) for one in report.receivers]
    sections = []
    for title, pairs, none in (("Blind", blind, "Never."), ("Delivery", told, "Nothing was to be delivered.")):
        body = tag("div", _rows(pairs, title), class_="card") if pairs else tag("p", none, class_="card")
        sections.append(tag("section", tag("h2", title), body))
    return sections
