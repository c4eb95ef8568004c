"""Taking out of a text what could act on a screen: terminal sequences, control, invisible and direction characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

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


# Durations and sizes as people say them; the middle of many. Pure.


def duration(duration_s: float) -> str:
    """A duration for people: `40 s`, `6 min`, `3 h 20 min`, `2 d 4 h`."""
    seconds = max(0, round(duration_s))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def gib(size: float) -> str:
    """Bytes for people: `23.4 GiB`, `512 MiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def quantile(samples: Iterable[float], percent: float = 50) -> float:
    """The value that `percent` of the samples do not exceed, between two samples by their distance; 50: the median.

    As `statistics.quantiles` does it (method "inclusive"), whose module would cost an idle daemon 1 MiB for `decimal`
    and `fractions`. Raises ValueError without samples.
    """
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("no samples")
    below, part = divmod((len(ordered) - 1) * percent / 100, 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + (high - low) * part


# Moments as a person reads them: local time with its zone, the date only where it is another day.


def timestamp(at: float, now: float, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """`at` (Unix seconds) in `zone` (None: the machine's own); the date only if it is not that of `now`."""
    local = _local(at, zone)
    clock = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    day = "" if local.date() == _local(now, zone).date() else local.strftime("%Y-%m-%d ")
    return f"{day}{clock} {local.strftime('%Z')}"


def _local(at: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone)


# Times as a person reads them in a terminal: in this machine's zone, which is always said.


def full_timestamp(at: float, zone: tzinfo | None = None) -> str:
    """`at` (Unix seconds) as `Sun 2026-11-29 18:22 CET (UTC+01:00)`, in `zone` (None: this machine's)."""
    local = datetime.fromtimestamp(at, UTC).astimezone(zone)
    offset = local.strftime("%z")
    named = local.strftime("%Z")
    written = f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{local:%a %Y-%m-%d %H:%M} " + (named if named == "UTC" else f"{named} ({written})")


def elapsed(now: float, at: float) -> str:
    """The time from `at` to `now`, in its two largest units."""
    seconds = max(0, round(now - at))
    for unit_s, name, smaller_s, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= unit_s:
            rest = seconds % unit_s // smaller_s
            return f"{seconds // unit_s}{name}" + (f" {rest}{smaller}" if rest else "")
    return f"{seconds}s"
