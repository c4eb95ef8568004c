"""The timeline: one row per server and host, with incidents, blind windows and silences."""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.kinds import BLIND
from watchdog.overview import GENERATION, KERNEL_LOG
from watchdog.overview.html import Html, tag
from watchdog.overview.page_data import PageData
from watchdog.overview.plot import STRIPES, Bar, time_marks, timeline_row
from watchdog.overview.statistics import windows_hiding
from watchdog.text import quantity

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
