"""The timeline: one lane per server and host, with incidents, blind windows and silences."""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.kinds import BLIND
from watchdog.model import Incident
from watchdog.overview.drift import GENERATION
from watchdog.overview.format import counted
from watchdog.overview.html import Html, tag
from watchdog.overview.page_data import KERNEL_LOG, Scene
from watchdog.overview.plot import STRIPES, lane, time_marks

Bar = tuple[str, float, float, str]
MOST_BARS = 150
"""Bars of one lane; what is nearer than a pixel to its neighbour is one bar with it."""
MOST_LANES = 40


def timeline(scene: Scene) -> Html:
    """All lanes over one scale, and what the signs mean."""
    rows = []
    targets = [("server", view.key, view.key.removeprefix(GENERATION)) for view in scene.views(GENERATION)]
    targets += [("host", view.key, view.key.removeprefix(KERNEL_LOG)) for view in scene.views(KERNEL_LOG)]
    targets.sort(key=lambda target: not scene.incidents_of(target[0], target[2]))
    for label, key, name in targets[:MOST_LANES]:
        bars, said = _bars(scene, label, key, name), scene.incidents_of(label, name)
        words = f"{name}: {counted(len(said), 'incident')} in {scene.length.words}"
        rows.append(tag("div", tag("span", name, class_="name"), lane(bars, scene.span, label=words, now=scene.at)))
    more = len(targets) - MOST_LANES
    note = tag("p", f"{more} more without incidents are not drawn.", class_="muted") if more > 0 else None
    scale = tag("div", tag("span", class_="name"), time_marks(scene.span), class_="scale")
    return tag("div", STRIPES, *rows, scale, note, LEGEND, class_="lanes")


def _bars(scene: Scene, label: str, key: str, name: str) -> list[Bar]:
    now, since = scene.at, scene.span.since_at
    bars: list[Bar] = [
        ("quiet", one.starts_at, min(one.ends_at, now), f"silenced: {one.reason}")
        for one in scene.silences_of(label, name)
        if one.starts_at < now
    ]
    bars += [
        ("blind", one.began_at, one.ended_at or now, f"blind: {one.reason}")
        for one in scene.blind_to(key)
        if (one.ended_at or now) > since
    ]
    incidents = sorted(scene.incidents_of(label, name), key=lambda one: (one.severity.rank, one.since))
    bars += [_bar(one, now) for one in incidents if not BLIND.has(one.key)]
    return _merged(bars, scene.span.length_s / 500)


def _bar(incident: Incident, now: float) -> Bar:
    return (incident.severity.value, incident.since, incident.closed_at or now, incident.statement)


def _merged(bars: Iterable[Bar], near_s: float) -> list[Bar]:
    """Bars of a kind that touch, as one; kinds stay in their order, so that the loudest is drawn last."""
    kept: list[Bar] = []
    for name, begin, end, words in bars:
        if kept and kept[-1][0] == name and begin - kept[-1][2] <= near_s:
            _, first, last, said = kept[-1]
            also = said if said.endswith("and more") else f"{said[:80]}; and more"
            kept[-1] = (name, first, max(last, end), also)
        else:
            kept.append((name, begin, end, words[:120]))
    return kept[-MOST_BARS:]


def _sign(name: str, words: str) -> Html:
    mark = tag("svg", tag("rect", width=18, height=10, class_=f"bar {name}"), width=18, height=10, aria_hidden="true")
    return tag("li", mark, " ", words)


LEGEND = tag(
    "ul",
    _sign("page", "page"),
    _sign("warn", "warning"),
    _sign("info", "for your information"),
    _sign("blind", "blind: we could not look"),
    _sign("quiet", "silenced"),
    class_="legend",
)
