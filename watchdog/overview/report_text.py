"""A report as plain text."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from watchdog.message import span
from watchdog.model import Incident, IncidentStatus, Nature
from watchdog.overview.figures import Share, Spread
from watchdog.overview.report import HostFigures, ReceiverFigures, Report, ServerFigures
from watchdog.overview.words import counted, number, percent, seconds, titled

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
    lasted = f" after {span(one.closed_at - one.since)}" if one.closed_at is not None else ""
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
    return f"median {span(middle)}, longest {span(longest)}"


def _blind(report: Report) -> list[str]:
    if not report.blind_s:
        return ["Blind: never"]
    return ["Blind:", *(f"  to {key or 'everything'}: {span(blind_s)}" for key, blind_s in report.blind_s.items())]


def _delivery(receivers: tuple[ReceiverFigures, ...]) -> list[str]:
    if not receivers:
        return ["Delivery: nothing was to be delivered"]
    return ["Delivery:", *(f"  {one.name}: {delivery_words(one)}" for one in receivers)]


def delivery_words(one: ReceiverFigures) -> str:
    """What became of the messages for one receiver."""
    words = f"{counted(one.delivered.count, 'message')} delivered, {one.first_try.count} at the first try"
    if one.delay.count:
        words += f", median {seconds(one.delay.p50)} after it was written, longest {span(one.delay.longest or 0.0)}"
    for count, what in ((one.waiting, "waiting"), (one.given_up, "given up"), (one.dropped, "dropped")):
        words += f", {count} {what}" if count else ""
    return words
