"""The status page: one HTML document that works without scripts, on a phone and in a screen reader.

`PageData` reads in one go all that it shows: what is now, and what was in the stretch of time that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from urllib.parse import urlencode

from watchdog.kinds import BLIND, FOLLOW, KINDS, VITALS
from watchdog.model import Incident, Phase, Silence, Verdict, matches_value
from watchdog.overview import GENERATION, KERNEL_LOG
from watchdog.overview.format import TimeFormat, number, seconds
from watchdog.overview.html import Child, Html, document, scroll_area, tag
from watchdog.overview.incidents import open_incident, past_incident, silence_words
from watchdog.overview.plot import STRIPES, Bar, server_plots, time_marks, timeline_row
from watchdog.overview.report import findings_by_kind
from watchdog.overview.statistics import Length, Series, Span, series_of, span_of, windows_hiding
from watchdog.overview.status import SYMBOLS, State, Status, headline, state_of
from watchdog.policy import next_window, window_at
from watchdog.reasons import HostReason
from watchdog.store import BlindWindow, Reader
from watchdog.store.reader import KeyView
from watchdog.text import quantity

MOST_PLOTTED = 10
"""With more servers than this only the chosen one is plotted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """`series` by check key, for the servers that are plotted; `incidents` those of the time, newest first."""

    status: Status
    length: Length
    span: Span
    chosen: str | None
    series: Mapping[str, Series]
    incidents: tuple[Incident, ...]
    blind: tuple[BlindWindow, ...]
    silences: tuple[Silence, ...]
    zone: tzinfo | None = None

    @classmethod
    def read(
        cls, reader: Reader, now: float, length: Length, *, server: str | None = None, zone: tzinfo | None = None
    ) -> PageData:
        """As `reader` has it at `now`; `server` chooses one server to be plotted alone."""
        status = Status.read(reader, now)
        span = span_of(length, now, zone)
        servers = [view.key for view in status.snapshot.keys if view.key.startswith(GENERATION)]
        plotted = servers if len(servers) <= MOST_PLOTTED else []
        if server is not None:
            plotted = [key for key in servers if key == GENERATION + server]
        return cls(
            status=status,
            length=length,
            span=span,
            chosen=server,
            series={key: series_of(reader.samples(key, span.since_at, span.until_at), span) for key in plotted},
            incidents=tuple(sorted(reader.incidents(span.since_at, span.until_at), key=lambda one: -one.since)),
            blind=reader.blind_windows(span.since_at),
            silences=reader.silences(span.since_at),
            zone=zone,
        )

    @property
    def at(self) -> float:
        return self.status.snapshot.at

    def views(self, prefix: str) -> tuple[KeyView, ...]:
        """The checks whose key is `prefix` and one name: servers, or hosts."""
        keys = self.status.snapshot.keys
        return tuple(one for one in keys if one.key.startswith(prefix) and "/" not in one.key.removeprefix(prefix))

    def view(self, key: str) -> KeyView | None:
        return next((view for view in self.status.snapshot.keys if view.key == key), None)

    def incidents_of(self, label: str, name: str) -> tuple[Incident, ...]:
        """The incidents of the time that concern the server or host `name`, newest first."""
        keys = {kind.key(name) for kind in KINDS if kind.label == label}
        return tuple(one for one in self.incidents if one.labels.get(label) == name or one.key in keys)

    def silences_of(self, label: str, name: str) -> tuple[Silence, ...]:
        """The silences of the time that name the server or host `name`."""
        return tuple(one for one in self.silences if label in one.matcher and matches_value(one.matcher[label], name))


MOST_BARS = 150
"""Bars of one row; what is nearer than a pixel to its neighbour is one bar with it."""
MOST_ROWS = 40
LEGEND = (
    ("page", "page"),
    ("warn", "warning"),
    ("info", "info"),
    ("blind", "blind: nothing could be observed"),
    ("silence", "silenced"),
)


def timeline(data: PageData) -> Html:
    """All rows over one scale, those with incidents first, and a legend."""
    rows = []
    targets = [("server", view.key, view.key.removeprefix(GENERATION)) for view in data.views(GENERATION)]
    targets += [("host", view.key, view.key.removeprefix(KERNEL_LOG)) for view in data.views(KERNEL_LOG)]
    targets.sort(key=lambda target: not data.incidents_of(target[0], target[2]))
    for label, key, name in targets[:MOST_ROWS]:
        words = f"{name}: {quantity(len(data.incidents_of(label, name)), 'incident')} in {data.length.words}"
        row = timeline_row(_bars(data, label, key, name), data.span, label=words, now=data.at)
        rows.append(tag("div", tag("span", name, class_="name"), row))
    more = len(targets) - MOST_ROWS
    note = tag("p", f"{more} more without incidents are not drawn.", class_="muted") if more > 0 else None
    scale = tag("div", tag("span", class_="name"), time_marks(data.span), class_="scale")
    legend = tag("ul", *(_legend(kind, words) for kind, words in LEGEND), class_="legend")
    return tag("div", STRIPES, *rows, scale, note, legend, class_="timeline")


def _bars(data: PageData, label: str, key: str, name: str) -> list[Bar]:
    """The bars of one row, in the order they are drawn in: the loudest comes last."""
    now = data.at
    bars: list[Bar] = [
        ("silence", one.starts_at, min(one.ends_at, now), f"silenced: {one.reason}")
        for one in data.silences_of(label, name)
        if one.starts_at < now
    ]
    bars += [
        ("blind", one.began_at, one.ended_at or now, f"blind: {one.reason}")
        for one in windows_hiding(data.blind, key)
        if (one.ended_at or now) > data.span.since_at
    ]
    incidents = sorted(data.incidents_of(label, name), key=lambda one: (one.severity.rank, one.since))
    bars += [
        (one.severity.value, one.since, one.closed_at or now, one.statement)
        for one in incidents
        if not BLIND.has(one.key)
    ]
    return _merge_near(bars, data.span.length_s / 500)


def _merge_near(bars: Iterable[Bar], near_s: float) -> list[Bar]:
    """Bars of a kind that touch, as one."""
    kept: list[Bar] = []
    for kind, begin, end, words in bars:
        if kept and kept[-1][0] == kind and begin - kept[-1][2] <= near_s:
            _, first, last, before = kept[-1]
            both = before if before.endswith("and more") else f"{before[:80]}; and more"
            kept[-1] = (kind, first, max(last, end), both)
        else:
            kept.append((kind, begin, end, words[:120]))
    return kept[-MOST_BARS:]


def _legend(kind: str, words: str) -> Html:
    mark = tag("svg", tag("rect", width=18, height=10, class_=f"bar {kind}"), width=18, height=10, aria_hidden="true")
    return tag("li", mark, " ", words)


# The page itself.

MOST_OPEN, MOST_PAST = 50, 20
"""Open and past incidents on one page."""
MOST_CARDS = 100
"""Servers or hosts on one page, those that are not well first."""
MOST_KINDS = 6
"""Kinds of kernel findings on a host's card."""


def page(data: PageData, version: str) -> str:
    times = TimeFormat(data.at, data.zone)
    kind, words = headline(data.status)
    main = tag(
        "main",
        tag("div", tag("p", words), tag("p", _subtitle(data, times), class_="muted"), class_=f"hero {kind}"),
        _storage_problem(data),
        _open_incidents(data, times),
        _servers(data, times),
        _hosts(data, times),
        _past(data, times),
        _quiet_times(data, times),
        _delivery(data, times),
        id="main",
    )
    icon = tag("link", rel="icon", type="image/svg+xml", href="icon.svg")
    skip = tag("a", "Skip to the status", href="#main", class_="skip")
    footer = _footer(times, version)
    return document(f"{words} · inference-watchdog", skip, _header(data), main, footer, head=icon)


def _header(data: PageData) -> Html:
    links = []
    for length in Length:
        query = {"range": length.value} | ({"server": data.chosen} if data.chosen else {})
        here = "page" if length is data.length else None
        links.append(tag("a", length.words, href="?" + urlencode(query), aria_current=here))
    if data.chosen is not None:
        links.append(tag("a", "all servers", href=f"?{urlencode({'range': data.length.value})}"))
    return tag("header", tag("h1", "inference-watchdog"), tag("nav", *links, aria_label="Time shown"))


def _subtitle(data: PageData, times: TimeFormat) -> list[Child]:
    status, latest_at = data.status, data.status.snapshot.latest_at
    if latest_at is None:
        return ["No results yet. Is the daemon running? ", tag("code", "inference-watchdog run")]
    servers, hosts = len(data.views(GENERATION)), len(data.views(KERNEL_LOG))
    counts = [f"{quantity(servers, 'server')}, {quantity(hosts, 'host')} · last check ", times.ago(latest_at)]
    if status.is_stale:
        return [*counts, ": what follows is old. Is the daemon running?"]
    due = [due_at for view in status.snapshot.keys if (due_at := status.due_at(view)) is not None]
    return [*counts, f" · next {times.ahead(min(due, default=None))}"]


def _storage_problem(data: PageData) -> Html | None:
    storage = data.status.snapshot.storage
    if not storage:
        return None
    words = f"The state cannot be written to disk: {storage}. Watching and alerting go on from memory."
    return tag("p", tag("b", words), class_="card")


def _section(title: str, name: str, *children: Child) -> Html:
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def _open_incidents(data: PageData, times: TimeFormat) -> Html | None:
    found = sorted(data.status.snapshot.open_incidents, key=lambda one: (-one.severity.rank, one.since))
    if not found:
        return None
    return _section("Open now", "open", *(open_incident(one, data.status, times) for one in found[:MOST_OPEN]))


def _servers(data: PageData, times: TimeFormat) -> Html | None:
    """The cards of every server, or of the chosen one."""
    views = data.views(GENERATION)
    if data.chosen is not None:
        views = tuple(view for view in views if view.key == GENERATION + data.chosen)
        if not views:
            return tag("p", f"No server called {data.chosen} is watched.", class_="card")
    return _cards("Servers", "servers", views, [_server(view, data, times) for view in _worst_first(views, data)])


def _hosts(data: PageData, times: TimeFormat) -> Html | None:
    views = data.views(KERNEL_LOG) if data.chosen is None else ()
    return _cards("Hosts", "hosts", views, [_host(view, data, times) for view in _worst_first(views, data)])


def _cards(title: str, name: str, views: tuple[KeyView, ...], cards: list[Html]) -> Html | None:
    if not cards:
        return None
    more = len(views) - len(cards)
    rest = tag("p", f"and {more} more that are well", class_="muted") if more > 0 else None
    return _section(title, name, tag("div", *cards, class_="cards"), rest)


def _worst_first(views: tuple[KeyView, ...], data: PageData) -> list[KeyView]:
    if len(views) <= MOST_CARDS:
        return list(views)
    order = [*reversed(list(SYMBOLS))]
    return sorted(views, key=lambda view: order.index(state_of(view, data.status).kind))[:MOST_CARDS]


def _server(view: KeyView, data: PageData, times: TimeFormat) -> Html:
    name, series = view.key.removeprefix(GENERATION), data.series.get(view.key)
    drift = data.status.drifts.get(view.key)
    link: Child = name
    if series is None or (len(data.series) > 1 and data.chosen is None):
        link = tag("a", name, href="?" + urlencode({"range": data.length.value, "server": name}))
    last = view.last.measurements if view.last is not None and view.last.verdict is Verdict.PASS else {}
    figures = _check_times(view, data, times)
    for label, key, written in (
        ("first token", "ttft_s", seconds),
        ("whole reply", "duration_s", seconds),
        ("tokens/s", "tokens_per_s", number),
    ):
        if key in last:
            figures.append((label, written(last[key])))
    slow = tag("p", drift.text, class_="said") if drift is not None else None
    plots = None
    if series is not None:
        plots = server_plots(name, series, data.span, words=data.length.words, now=data.at)
    return _card(view, data, link, slow, _figures(figures), plots)


def _host(view: KeyView, data: PageData, times: TimeFormat) -> Html:
    name = view.key.removeprefix(KERNEL_LOG)
    figures = _check_times(view, data, times)
    stream, vitals = data.view(FOLLOW.key(name)), data.view(VITALS.key(name))
    if stream is not None:
        figures.append(("live stream", "open" if stream.phase is Phase.OK else stream.phase.value))
    kinds = findings_by_kind(data.incidents_of("host", name)).most_common(MOST_KINDS)
    words = ", ".join(f"{kind} × {count}" for kind, count in kinds) or "none"
    figures.append((f"kernel findings, {data.length.words}", words))
    seen = vitals.last.summary if vitals is not None and vitals.last is not None else ""
    return _card(view, data, name, tag("p", seen, class_="facts") if seen else None, _figures(figures))


def _card(view: KeyView, data: PageData, name: Child, *rest: Child) -> Html:
    header = tag("header", tag("h3", name), _pill(state_of(view, data.status)))
    return tag("article", header, tag("p", *_last_result(view), class_="said"), *rest, class_="card")


def _pill(state: State) -> Html:
    symbol = tag("span", SYMBOLS[state.kind], aria_hidden="true")
    return tag("span", symbol, " ", state.words, class_=f"pill {state.kind} {state.severity}")


def _last_result(view: KeyView) -> list[Child]:
    """The last words about it, without its name, which stands above them."""
    if view.last is None:
        return ["no result yet"]
    words = view.last.summary
    return [words] if view.last.reason == HostReason.OK else [tag("code", view.last.reason), f" {words}"]


def _check_times(view: KeyView, data: PageData, times: TimeFormat) -> list[tuple[str, Child]]:
    due_at = data.status.due_at(view)
    words = data.status.patience_words(view)
    coming: Child = [times.ahead(due_at), f": {words}"] if words else times.ahead(due_at)
    return [("last good", times.ago(view.state.last_good_at)), ("next check", coming)]


def _figures(pairs: list[tuple[str, Child]]) -> Html:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


def _past(data: PageData, times: TimeFormat) -> Html:
    over = [one for one in data.incidents if one.closed_at is not None]
    rows = [past_incident(one, times) for one in over[:MOST_PAST]]
    more = len(over) - len(rows)
    rest = tag("p", f"{more} older: ", tag("code", "inference-watchdog history"), class_="muted") if more > 0 else None
    empty = tag("p", "No incident ended in this time.", class_="muted") if not rows else None
    drawn = timeline(data) if data.status.snapshot.keys else None
    return _section(f"The last {data.length.words}", "past", tag("div", drawn, *rows, rest, empty, class_="card"))


def _quiet_times(data: PageData, times: TimeFormat) -> Html | None:
    """Silences, maintenance windows and blind times, now and soon."""
    lines = [tag("li", silence_words(one, times)) for one in data.status.snapshot.silences]
    for window in data.status.windows:
        current, following = window_at(window, data.at), next_window(window, data.at)
        if current is not None:
            lines.append(tag("li", f"Maintenance {window.name}: now, until ", times.stamp(current[1])))
        elif following is not None:
            begin, end = times.stamp(following[0]), times.stamp(following[1])
            lines.append(tag("li", f"Maintenance {window.name}: ", begin, " to ", end))
    for blind in data.status.snapshot.blind:
        until: Child = "until now" if blind.ended_at is None else ["to ", times.stamp(blind.ended_at)]
        what = blind.key or "everything"
        lines.append(tag("li", f"Blind to {what} from ", times.stamp(blind.began_at), " ", until, f": {blind.reason}"))
    return _section("Quiet and blind times", "quiet", tag("ul", *lines, class_="card plain")) if lines else None


def _delivery(data: PageData, times: TimeFormat) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", one.name, scope="row"),
            tag("td", times.ago(one.delivered_at)),
            tag("td", str(one.waiting), class_="n"),
            tag("td", f"{quantity(one.failures, 'failure')} in a row: {one.detail}" if one.failures else "–"),
        )
        for one in data.status.snapshot.receivers
    ]
    if not rows:
        none = ["Nothing has been delivered yet. Test your receivers: ", tag("code", "inference-watchdog test-alert")]
        return _section("Delivery", "delivery", tag("p", *none, class_="card"))
    head = tag(
        "tr",
        tag("th", "Receiver", scope="col"),
        tag("th", "Last delivery", scope="col"),
        tag("th", "Waiting", scope="col", class_="n"),
        tag("th", "Problem", scope="col"),
    )
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return _section("Delivery", "delivery", scroll_area(table, "Receivers", class_="scroll card"))


def _footer(times: TimeFormat, version: str) -> Html:
    links = [tag("a", name, href=path) for name, path in (("JSON", "api/status"), ("metrics", "metrics"))]
    made = f"generated {times.local(times.now):%Y-%m-%d %H:%M:%S %Z}"
    return tag("footer", tag("span", f"inference-watchdog {version}"), tag("span", made), *links)
