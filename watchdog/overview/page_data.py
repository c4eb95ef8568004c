"""What the status page shows, read in one go: what is now, and what was in the stretch of time that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from watchdog.kinds import BLIND, KINDS
from watchdog.model import Incident, Silence, matches_value
from watchdog.overview import GENERATION, KERNEL_LOG
from watchdog.overview.html import Html, tag
from watchdog.overview.plot import STRIPES, Bar, time_marks, timeline_row
from watchdog.overview.statistics import Length, Series, Span, series_of, span_of, windows_hiding
from watchdog.overview.status import Status
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
        """When it was read."""
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
