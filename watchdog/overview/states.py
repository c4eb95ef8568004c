"""How one check stands, in a sign and a word: never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.model import Phase, Severity
from watchdog.overview.html import Html, tag
from watchdog.overview.status import Health, Now
from watchdog.store.reader import KeyView

SIGNS = {"ok": "●", "slow": "◔", "pending": "◐", "firing": "▲", "recovering": "◑", "blind": "○", "stale": "○"}


@dataclass(frozen=True, slots=True)
class State:
    """`kind` is a key of `SIGNS` (and a class of the style sheet), `words` what is said, `loud` how severe it is."""

    kind: str
    words: str
    loud: Severity

    def pill(self) -> Html:
        """As a small label."""
        sign = tag("span", SIGNS[self.kind], aria_hidden="true")
        return tag("span", sign, " ", self.words, class_=f"pill {self.kind} {self.loud}")


def state_of(view: KeyView, now: Now) -> State:
    """How `view` stands."""
    if now.is_stale:
        return State("stale", "not watched now", Severity.WARN)
    if view.phase in (Phase.FIRING, Phase.RECOVERING):
        words = "firing" if view.phase is Phase.FIRING else "recovering"
        return State(view.phase.value, words, view.state.severity)
    if view.state.unknowns:
        return State("blind", "cannot tell", Severity.WARN)
    if view.phase is Phase.PENDING:
        failures = now.plan.get(view.key, {}).get("failures")
        strikes = f"{view.state.fails}/{failures}" if failures else f"{view.state.fails}"
        return State("pending", f"pending {strikes}", Severity.WARN)
    if view.last is None:
        return State("blind", "not looked yet", Severity.INFO)
    slow = view.key in now.drifts
    return State("slow", "slow", Severity.WARN) if slow else State("ok", "ok", Severity.INFO)


def headline(now: Now) -> tuple[str, str]:
    """The whole state as `(class, sentence)`."""
    if now.snapshot.latest_at is None:
        return "stale", "Nothing has been observed yet"
    if now.health is Health.STALE:
        return "stale", "Nobody is watching"
    pages = sum(one.severity is Severity.PAGE for one in now.snapshot.open_incidents)
    others = len(now.snapshot.open_incidents) - pages
    if pages:
        rest = f" and {others} more" if others else ""
        return "firing", f"{pages} incident{'s' if pages != 1 else ''} firing{rest}"
    if others:
        return "warning", f"{others} warning{'s' if others != 1 else ''}"
    if now.health is Health.WARNING:
        pending = [view.key.partition("/")[2] for view in now.snapshot.keys if view.phase is not Phase.OK]
        slow = [key.partition("/")[2] for key in now.drifts]
        words = f"{_some(pending)}: pending" if pending else f"{_some(slow)}: slower than usual"
        return "warning", words
    return "well", "All is well"


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + rest


# Small pictures of the state: a badge for another page, and the icon of the browser's tab.

COLOURS = {"well": "#1a7440", "warning": "#8a5a00", "firing": "#c1121f", "stale": "#59636e"}
LEFT = "inference-watchdog"
_LETTER = 6.6
_PAD = 8.0


def badge(now: Now) -> str:
    """`inference-watchdog | All is well` as SVG."""
    kind, words = headline(now)
    left, right = len(LEFT) * _LETTER + 2 * _PAD, len(words) * _LETTER + 2 * _PAD
    return tag(
        "svg",
        tag("title", f"{LEFT}: {words}"),
        tag("rect", width=left + right, height=20, rx=4, fill="#2c333d"),
        tag("path", d=f"M{left:g} 0h{right - 4:g}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{right - 4:g}z", fill=COLOURS[kind]),
        tag(
            "g",
            tag("text", LEFT, x=left / 2, y=14, textLength=left - 2 * _PAD),
            tag("text", words, x=left + right / 2, y=14, textLength=right - 2 * _PAD),
            fill="#fff",
            text_anchor="middle",
            font_family="Verdana,DejaVu Sans,sans-serif",
            font_size=11,
        ),
        xmlns="http://www.w3.org/2000/svg",
        width=left + right,
        height=20,
        role="img",
        aria_label=f"{LEFT}: {words}",
    )


def icon(now: Now) -> str:
    """A dot in the colour of the state; with a bar when something is wrong."""
    kind, _ = headline(now)
    mark = tag("path", d="M16 7v11m0 4v3", stroke="#fff", stroke_width=4) if kind in ("firing", "stale") else None
    dot = tag("circle", cx=16, cy=16, r=15, fill=COLOURS[kind])
    return tag("svg", dot, mark, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 32 32")
