"""The status page: a scene as one HTML document that works without scripts, on a phone and in a screen reader."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlencode

from watchdog.kinds import FOLLOW, VITALS
from watchdog.model import Nature, Verdict
from watchdog.overview.drift import GENERATION
from watchdog.overview.format import Clockface, counted, number, seconds
from watchdog.overview.html import Child, Html, document, scrolling, tag
from watchdog.overview.incidents import open_incident, past_incident, silence_words
from watchdog.overview.page_data import KERNEL_LOG, Scene
from watchdog.overview.plot import curves
from watchdog.overview.states import SIGNS, headline, state_of
from watchdog.overview.statistics import Length
from watchdog.overview.timeline import timeline
from watchdog.policy import next_window, window_at
from watchdog.reasons import HostReason
from watchdog.store.reader import KeyView

# The servers and hosts on the status page: state, words, figures and plots.

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
    stream = scene.view(FOLLOW.key(name))
    if stream is not None:
        pairs.append(("live stream", "open" if stream.phase.value == "ok" else stream.phase.value))
    kinds: Counter[str] = Counter()
    for one in scene.incidents_of("host", name):
        if one.nature is Nature.OCCURRENCE:
            kinds[one.labels.get("kind", one.reason)] += one.count
    words = ", ".join(f"{kind} × {count}" for kind, count in kinds.most_common(6)) or "none"
    pairs.append((f"kernel findings, {scene.length.words}", words))
    vitals = scene.view(VITALS.key(name))
    seen = vitals.last.summary if vitals is not None and vitals.last is not None else ""
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
    words = view.last.summary
    return [words] if view.last.reason == HostReason.OK else [tag("code", view.last.reason), f" {words}"]


def _times(view: KeyView, scene: Scene, clock: Clockface) -> list[tuple[str, Child]]:
    plan = scene.now.plan.get(view.key)
    due = view.last.at + plan["interval_s"] if plan is not None and view.last is not None else None
    return [("last good", clock.ago(view.state.last_good_at)), ("next look", clock.ahead(due))]


def _figures(pairs: list[tuple[str, Child]]) -> Html:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


MOST_OPEN, MOST_PAST = 50, 20


def page(scene: Scene, version: str) -> str:
    """The whole page as text."""
    clock = Clockface(scene.at, scene.zone)
    kind, words = headline(scene.now)
    main = tag(
        "main",
        tag("div", tag("p", words), tag("p", _subtitle(scene, clock), class_="muted"), class_=f"hero {kind}"),
        _trouble(scene),
        _open(scene, clock),
        servers(scene, clock),
        hosts(scene, clock),
        _past(scene, clock),
        _quiet_times(scene, clock),
        _delivery(scene, clock),
        id="main",
    )
    icon = tag("link", rel="icon", type="image/svg+xml", href="icon.svg")
    skip = tag("a", "Skip to the state", href="#main", class_="skip")
    return document(f"{words} · inference-watchdog", skip, _head(scene), main, _foot(scene, version), head=icon)


def _head(scene: Scene) -> Html:
    links = []
    for length in Length:
        asked = {"range": length.value} | ({"server": scene.chosen} if scene.chosen else {})
        here = "page" if length is scene.length else None
        links.append(tag("a", length.words, href="?" + urlencode(asked), aria_current=here))
    if scene.chosen is not None:
        links.append(tag("a", "all servers", href=f"?{urlencode({'range': scene.length.value})}"))
    return tag("header", tag("h1", "inference-watchdog"), tag("nav", *links, aria_label="Time shown"))


def _subtitle(scene: Scene, clock: Clockface) -> list[Child]:
    snapshot, plan = scene.now.snapshot, scene.now.plan
    if snapshot.latest_at is None:
        return ["The first results are on their way. Is the daemon running? ", tag("code", "inference-watchdog run")]
    seen = f"{counted(len(scene.views(GENERATION)), 'server')}, {counted(len(scene.views(KERNEL_LOG)), 'host')}"
    due = [
        view.last.at + plan[view.key]["interval_s"]
        for view in snapshot.keys
        if view.last is not None and view.key in plan
    ]
    looks = [" · last look ", clock.ago(snapshot.latest_at), f" · next {clock.ahead(min(due, default=None))}"]
    if scene.now.is_stale:
        looks = [" · last look ", clock.ago(snapshot.latest_at), ": what follows is old. Is the daemon running?"]
    return [seen, *looks]


def _trouble(scene: Scene) -> Html | None:
    """Our own trouble with the disk: everything on this page is in memory only."""
    storage = scene.now.snapshot.storage
    if not storage:
        return None
    words = f"The state cannot be written to the disk: {storage}. Watching and alerting go on from memory."
    return tag("p", tag("b", words), class_="card")


def _section(title: str, name: str, *children: Child) -> Html:
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def _open(scene: Scene, clock: Clockface) -> Html | None:
    found = sorted(scene.now.snapshot.open_incidents, key=lambda one: (-one.severity.rank, one.since))
    if not found:
        return None
    return _section("Open now", "open", *(open_incident(one, scene.now, clock) for one in found[:MOST_OPEN]))


def _past(scene: Scene, clock: Clockface) -> Html:
    over = [one for one in scene.incidents if one.closed_at is not None]
    rows = [past_incident(one, clock) for one in over[:MOST_PAST]]
    more = len(over) - len(rows)
    rest = tag("p", f"{more} older: ", tag("code", "inference-watchdog history"), class_="muted") if more > 0 else None
    empty = tag("p", "No incident ended in this time.", class_="muted") if not rows else None
    drawn = timeline(scene) if scene.now.snapshot.keys else None
    title = f"The last {scene.length.words}"
    return _section(title, "past", tag("div", drawn, *rows, rest, empty, class_="card"))


def _quiet_times(scene: Scene, clock: Clockface) -> Html | None:
    lines = [tag("li", silence_words(one, clock)) for one in scene.now.snapshot.silences]
    for window in scene.now.windows:
        covered, following = window_at(window, scene.at), next_window(window, scene.at)
        if covered is not None:
            lines.append(tag("li", f"Maintenance {window.name}: now, until ", clock.moment(covered[1])))
        elif following is not None:
            begin, end = clock.moment(following[0]), clock.moment(following[1])
            lines.append(tag("li", f"Maintenance {window.name}: ", begin, " to ", end))
    for blind in scene.now.snapshot.blind:
        until: Child = "until now" if blind.ended_at is None else ["to ", clock.moment(blind.ended_at)]
        what = blind.key or "everything"
        lines.append(tag("li", f"Blind to {what} from ", clock.moment(blind.began_at), " ", until, f": {blind.reason}"))
    return _section("Quiet and blind times", "quiet", tag("ul", *lines, class_="card plain")) if lines else None


def _delivery(scene: Scene, clock: Clockface) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", one.name, scope="row"),
            tag("td", clock.ago(one.delivered_at)),
            tag("td", str(one.waiting), class_="n"),
            tag("td", f"{counted(one.failures, 'failure')} in a row: {one.detail}" if one.failures else "–"),
        )
        for one in scene.now.snapshot.receivers
    ]
    head = tag(
        "tr",
        tag("th", "Receiver", scope="col"),
        tag("th", "Last delivery", scope="col"),
        tag("th", "Waiting", scope="col", class_="n"),
        tag("th", "Trouble", scope="col"),
    )
    none = ["Nothing was ever delivered. Prove your receivers: ", tag("code", "inference-watchdog test-alert")]
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    shown = scrolling(table, "Receivers", class_="scroll card") if rows else tag("p", *none, class_="card")
    return _section("Delivery", "delivery", shown)


def _foot(scene: Scene, version: str) -> Html:
    at = Clockface(scene.at, scene.zone).local(scene.at)
    links = [tag("a", name, href=path) for name, path in (("JSON", "api/status"), ("metrics", "metrics"))]
    made = f"made {at:%Y-%m-%d %H:%M:%S %Z}"
    return tag("footer", tag("span", f"inference-watchdog {version}"), tag("span", made), *links)
