"""The status page: a scene as one HTML document that works without scripts, on a phone and in a screen reader."""

from __future__ import annotations

from urllib.parse import urlencode

from watchdog.overview.document import document
from watchdog.overview.html import Child, Html, scrolling, tag
from watchdog.overview.incidents import open_incident, past_incident, silence_words
from watchdog.overview.lanes import timeline
from watchdog.overview.scene import Scene
from watchdog.overview.span import Length
from watchdog.overview.states import headline
from watchdog.overview.words import Clockface, counted
from watchdog.policy import next_window, window_at
from watchdog.web.targets import hosts, servers

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
    seen = f"{counted(len(scene.views('generation/')), 'server')}, {counted(len(scene.views('kernel_log/')), 'host')}"
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
