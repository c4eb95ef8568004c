"""The servers and hosts on the status page: state, words, figures and plots."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlencode

from watchdog.model import Nature, Verdict
from watchdog.overview.curves import curves
from watchdog.overview.html import Child, Html, tag
from watchdog.overview.scene import KERNEL_LOG, Scene
from watchdog.overview.slowness import GENERATION
from watchdog.overview.states import SIGNS, state_of
from watchdog.overview.words import Clockface, number, seconds
from watchdog.store.reads import KeyView

MOST_SHOWN = 100
"""Servers or hosts on one page, those that are not well first."""


def servers(scene: Scene, clock: Clockface) -> Html | None:
    """Every server, or the chosen one."""
    views = scene.views(GENERATION)
    if scene.chosen is not None:
        views = tuple(view for view in views if view.key == GENERATION + scene.chosen)
    if not views:
        words = f"No server called {scene.chosen} is watched." if scene.chosen else None
        return tag("p", words, class_="card") if words else None
    return _targets("Servers", "servers", views, [_server(view, scene, clock) for view in _worst_first(views, scene)])


def hosts(scene: Scene, clock: Clockface) -> Html | None:
    """Every host."""
    views = scene.views(KERNEL_LOG)
    if not views or scene.chosen is not None:
        return None
    return _targets("Hosts", "hosts", views, [_host(view, scene, clock) for view in _worst_first(views, scene)])


def _targets(title: str, name: str, views: tuple[KeyView, ...], cards: list[Html]) -> Html:
    more = len(views) - len(cards)
    rest = tag("p", f"and {more} more that are well", class_="muted") if more > 0 else None
    return tag("section", tag("h2", title, id=name), tag("div", *cards, class_="cards"), rest, aria_labelledby=name)


def _worst_first(views: tuple[KeyView, ...], scene: Scene) -> list[KeyView]:
    if len(views) <= MOST_SHOWN:
        return list(views)
    order = [*reversed(list(SIGNS))]
    return sorted(views, key=lambda view: order.index(state_of(view, scene.now).kind))[:MOST_SHOWN]


def _server(view: KeyView, scene: Scene, clock: Clockface) -> Html:
    name, series = view.key.removeprefix(GENERATION), scene.series.get(view.key)
    drift = scene.now.drifts.get(view.key)
    link: Child = name
    if series is None or (len(scene.series) > 1 and scene.chosen is None):
        asked = urlencode({"range": scene.length.value, "server": name})
        link = tag("a", name, href=f"?{asked}")
    last = view.last.measurements if view.last is not None and view.last.verdict is Verdict.PASS else {}
    pairs = _times(view, scene, clock)
    if "ttft_s" in last:
        pairs.append(("first token", seconds(last["ttft_s"])))
    if "duration_s" in last:
        pairs.append(("whole reply", seconds(last["duration_s"])))
    if "tokens_per_s" in last:
        pairs.append(("tokens/s", number(last["tokens_per_s"])))
    slow = tag("p", str(drift), class_="said") if drift is not None else None
    words = scene.length.words
    curve = curves(name, series, scene.span, words=words, now=scene.at) if series is not None else None
    return _card(view, scene, link, slow, _figures(pairs), curve)


def _host(view: KeyView, scene: Scene, clock: Clockface) -> Html:
    name = view.key.removeprefix(KERNEL_LOG)
    pairs = _times(view, scene, clock)
    stream = scene.view(f"follow/{name}")
    if stream is not None:
        pairs.append(("live stream", "open" if stream.phase.value == "ok" else stream.phase.value))
    kinds: Counter[str] = Counter()
    for one in scene.incidents_of("host", name):
        if one.nature is Nature.OCCURRENCE:
            kinds[one.labels.get("kind", one.reason)] += one.count
    words = ", ".join(f"{kind} × {count}" for kind, count in kinds.most_common(6)) or "none"
    pairs.append((f"kernel findings, {scene.length.words}", words))
    vitals = scene.view(f"vitals/{name}")
    seen = vitals.last.summary.removeprefix(f"{name}: ") if vitals is not None and vitals.last is not None else ""
    told = tag("p", seen, class_="facts") if seen else None
    return _card(view, scene, name, told, _figures(pairs))


def _card(view: KeyView, scene: Scene, name: Child, *rest: Child) -> Html:
    said = tag("p", *_said(view), class_="said")
    head = tag("header", tag("h3", name), state_of(view, scene.now).pill())
    return tag("article", head, said, *rest, class_="card")


def _said(view: KeyView) -> list[Child]:
    """The last words about it, without its name, which stands above them."""
    if view.last is None:
        return ["no result yet"]
    words = view.last.summary.removeprefix(f"{view.key.partition('/')[2]}: ")
    return [words] if view.last.reason == "ok" else [tag("code", view.last.reason), f" {words}"]


def _times(view: KeyView, scene: Scene, clock: Clockface) -> list[tuple[str, Child]]:
    plan = scene.now.plan.get(view.key)
    due = view.last.at + plan["interval_s"] if plan is not None and view.last is not None else None
    return [("last good", clock.ago(view.state.last_good_at)), ("next look", clock.ahead(due))]


def _figures(pairs: list[tuple[str, Child]]) -> Html:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))
