"""Small pictures of the state: a badge for another page, and the icon of the browser's tab."""

from __future__ import annotations

from watchdog.overview.html import tag
from watchdog.overview.now import Now
from watchdog.overview.states import headline

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
