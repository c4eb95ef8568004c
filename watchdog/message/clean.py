"""Taking out of a text what could act on a screen: terminal sequences, control, invisible and direction characters."""

from __future__ import annotations

import re
import unicodedata

_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: window title, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"  # every other escape
)
_BLANK = frozenset("\t\n\v\f\r\x85\u2028\u2029")
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories without a place in an alert: control, format (bidi), surrogates, private, unassigned."""


def clean_line(text: str) -> str:
    """`text` as one printable line: line breaks and tabs become spaces, runs of spaces one, the rest is dropped."""
    if not (text.isascii() and text.isprintable()):
        plain = _TERMINAL.sub("", text)
        text = "".join(" " if letter in _BLANK else letter for letter in plain if _keeps(letter))
    return " ".join(text.split())


def _keeps(letter: str) -> bool:
    return letter in _BLANK or unicodedata.category(letter) not in _DROPPED


def clean_block(text: str) -> str:
    """`text` with its lines kept and each of them cleaned; empty lines at the end are dropped."""
    return "\n".join(clean_line(line) for line in text.split("\n")).rstrip()


def shortened(text: str, limit: int) -> str:
    """`text` within `limit` characters, ending with an ellipsis if something was cut."""
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 1)].rstrip() + "…" if limit > 0 else ""
