"""Text for people: cleaned of what could act on a screen, and durations, sizes and times as they are written."""

from __future__ import annotations

import re
import unicodedata
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


def without_surrogates(text: str) -> str:
    """`text` as UTF-8 can write it: JSON may bring lone surrogates (`\\ud800`), which no file or table takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_REPR_LIMIT = 2000


def bounded_repr(value: object) -> str:
    """`value` as a log can hold it, in ASCII; also of what cannot be shown at all."""
    try:
        return ascii(value)[:_REPR_LIMIT]
    except Exception as error:  # noqa: BLE001 - what is looked at here is what nothing else could take
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"


def clean_block(text: str) -> str:
    """`text` with its lines kept and each of them cleaned; empty lines at the end are dropped."""
    return "\n".join(clean_line(line) for line in text.split("\n")).rstrip()


def shortened(text: str, limit: int) -> str:
    """`text` within `limit` characters, ending with an ellipsis if something was cut."""
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 1)].rstrip() + "…" if limit > 0 else ""


def one_line(text: str, limit: int = 300) -> str:
    """The beginning of a server's words, however long: one line of at most `limit` characters.

    Unlike `clean_line` it takes no escape sequences out as a whole: what is printable in them stays and shows.
    """
    kept = "".join(letter if letter.isprintable() else " " for letter in text[: limit * 4])
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


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


def quantity(count: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def gib(size: float) -> str:
    """Bytes for people: `23.4 GiB`, `512 MiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def local_time(at: float, zone: tzinfo | None) -> datetime:
    """`at` (Unix seconds) in `zone` (None: the machine's own)."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone)


def timestamp(at: float, now: float, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """`at` (Unix seconds) in `zone` (None: the machine's own); the date only if it is not that of `now`."""
    local = local_time(at, zone)
    clock = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    day = "" if local.date() == local_time(now, zone).date() else local.strftime("%Y-%m-%d ")
    return f"{day}{clock} {local.strftime('%Z')}"


def full_timestamp(at: float, zone: tzinfo | None = None) -> str:
    """`at` (Unix seconds) as `Sun 2026-11-29 18:22 CET (UTC+01:00)`, in `zone` (None: this machine's)."""
    local = local_time(at, zone)
    offset = local.strftime("%z")
    named = local.strftime("%Z")
    written = f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{local:%a %Y-%m-%d %H:%M} " + (named if named == "UTC" else f"{named} ({written})")


def without_secret(secret: str, text: str) -> str:
    """`text` with `secret` replaced by an ellipsis, also where a cut left only its beginning."""
    text = text.replace(secret, "…")
    cut = text.removesuffix("…")  # a shortened text may end inside the secret
    shown = next((n for n in range(len(secret) - 1, 3, -1) if cut.endswith(secret[:n])), 0)
    return cut[:-shown] + "…" if shown else text
