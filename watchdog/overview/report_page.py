"""A report as one HTML file that needs nothing else: plots, tables, incidents with their evidence."""

from __future__ import annotations

from datetime import tzinfo

from watchdog.message import span
from watchdog.overview.curves import curves
from watchdog.overview.document import content_policy, document
from watchdog.overview.html import Child, Html, scrolling, tag
from watchdog.overview.incidents import past_incident
from watchdog.overview.report import HostFigures, Report, ServerFigures
from watchdog.overview.report_text import delivery_words, share_words, spread_words, tokens_words
from watchdog.overview.words import Clockface, counted, number, percent

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
        *(_server(one, report, clock) for one in report.servers),
        _hosts(report.hosts),
        _incidents(report, clock),
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
    rest = f"{counted(len(report.incidents), 'incident')} in {span(report.span.length_s)}"
    return tag("div", tag("p", words), tag("p", rest, class_="muted"), class_=f"hero {kind}")


def _rows(pairs: list[tuple[str, Child]], name: str) -> Html:
    body = (tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in pairs)
    return scrolling(tag("table", tag("tbody", *body)), f"{name}, figures")


def _server(one: ServerFigures, report: Report, clock: Clockface) -> Html:
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
    drawn = curves(one.name, one.series, report.span, words=span(report.span.length_s), now=clock.now)
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


def _incidents(report: Report, clock: Clockface) -> Html:
    shown = [past_incident(one, clock) for one in reversed(report.incidents[-MOST_INCIDENTS:])]
    more = len(report.incidents) - len(shown)
    times = []
    for name, spread in (("Time to detect", report.detect), ("Time to resolve", report.resolve)):
        if spread.count:
            times.append(f"{name}: median {span(spread.p50 or 0.0)}, longest {span(spread.longest or 0.0)}. ")
    rest = tag("p", f"and {more} earlier ones", class_="muted") if more > 0 else None
    body = tag("div", tag("p", *times), *shown, rest, class_="card") if shown else tag("p", "None.", class_="card")
    return tag("section", tag("h2", f"Incidents ({len(report.incidents)})"), body)


def _blind_and_delivery(report: Report) -> list[Html]:
    blind: list[tuple[str, Child]] = [
        (f"Blind to {key or 'everything'}", span(blind_s)) for key, blind_s in report.blind_s.items()
    ]
    told: list[tuple[str, Child]] = [(one.name, delivery_words(one)) for one in report.receivers]
    sections = []
    for title, pairs, none in (("Blind", blind, "Never."), ("Delivery", told, "Nothing was to be delivered.")):
        body = tag("div", _rows(pairs, title), class_="card") if pairs else tag("p", none, class_="card")
        sections.append(tag("section", tag("h2", title), body))
    return sections
