"""States as a symbol and a word, never by colour alone: of a check, of everything, as a badge and as an icon."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.model import Phase, Severity
from watchdog.overview.html import Html, tag
from watchdog.overview.status import Health, Status
from watchdog.store.reader import KeyView
from watchdog.text import quantity

SYMBOLS = {"ok": "●", "slow": "◔", "pending": "◐", "firing": "▲", "recovering": "◑", "blind": "○", "stale": "○"}


@dataclass(frozen=True, slots=True)
class State:
    """`kind` is a key of `SYMBOLS` and a class of the style sheet."""

    kind: str
    words: str
    severity: Severity

    def pill(self) -> Html:
        symbol = tag("span", SYMBOLS[self.kind], aria_hidden="true")
        return tag("span", symbol, " ", self.words, class_=f"pill {self.kind} {self.severity}")


def state_of(view: KeyView, status: Status) -> State:
    if status.is_stale:
        return State("stale", "not watched", Severity.WARN)
    if view.phase in (Phase.FIRING, Phase.RECOVERING):
        return State(view.phase.value, view.phase.value, view.state.severity)
    if view.state.unknowns:
        return State("blind", "unknown", Severity.WARN)
    if view.phase is Phase.PENDING:
        return State("pending", f"pending {status.strikes(view)}", Severity.WARN)
    if view.last is None:
        return State("blind", "not checked yet", Severity.INFO)
    return _of_a_passing(view, status)


def _of_a_passing(view: KeyView, status: Status) -> State:
    trouble = status.kernel_trouble(view)
    if trouble is not None and trouble is not Severity.INFO:
        return State("firing", "kernel errors", trouble)
    slow = view.key in status.drifts
    return State("slow", "slow", Severity.WARN) if slow else State("ok", "ok", Severity.INFO)


def headline(status: Status) -> tuple[str, str]:
    """The whole state as `(class, sentence)`."""
    if status.snapshot.latest_at is None:
        return "stale", "Nothing has been observed yet"
    if status.health is Health.STALE:
        return "stale", "No recent observations"
    pages = sum(one.severity is Severity.PAGE for one in status.snapshot.open_incidents)
    others = len(status.snapshot.open_incidents) - pages
    if pages:
        return "firing", f"{quantity(pages, 'incident')} firing" + (f" and {others} more" if others else "")
    if others:
        return "warning", quantity(others, "warning")
    if status.health is Health.WARNING:
        pending = [view.key.partition("/")[2] for view in status.snapshot.keys if view.phase is not Phase.OK]
        slow = [key.partition("/")[2] for key in status.drifts]
        words = f"{_first_names(pending)}: pending" if pending else f"{_first_names(slow)}: slower than usual"
        return "warning", words
    return "well", "All is well"


def _first_names(names: list[str]) -> str:
    rest = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + rest


COLOURS = {"well": "#1a7440", "warning": "#8a5a00", "firing": "#c1121f", "stale": "#59636e"}
LEFT = "inference-watchdog"
_LETTER = 6.6
_PAD = 8.0


def badge(status: Status) -> str:
    """`inference-watchdog | All is well` as SVG."""
    kind, words = headline(status)
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


def icon(status: Status) -> str:
    """A dot in the colour of the state; with a bar when something is wrong."""
    kind, _ = headline(status)
    mark = tag("path", d="M16 7v11m0 4v3", stroke="#fff", stroke_width=4) if kind in ("firing", "stale") else None
    dot = tag("circle", cx=16, cy=16, r=15, fill=COLOURS[kind])
    return tag("svg", dot, mark, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 32 32")
