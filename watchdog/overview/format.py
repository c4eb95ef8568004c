"""Times, numbers and names as a person reads them on a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from watchdog.model import Incident, statement_of
from watchdog.overview.html import Html, tag
from watchdog.text import duration, local_time


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """Writes times (Unix seconds) as seen at `now` in `zone` (None: the machine's)."""

    now: float
    zone: tzinfo | None = None

    def local(self, at: float) -> datetime:
        return local_time(at, self.zone)

    def stamp(self, at: float, *, seconds: bool = False) -> Html:
        """`16:41` today, `Sat 28 Nov 16:41` this year, else with the year."""
        local, today = self.local(at), self.local(self.now)
        clock = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
        day = f"{local:%a} {local.day} {local:%b} "
        if local.date() == today.date():
            day = ""
        elif local.year != today.year:
            day = f"{local:%Y-%m-%d} "
        return tag("time", day + clock, datetime=local.isoformat(timespec="seconds"))

    def ago(self, at: float | None) -> Html:
        """`20 s ago` with the exact time behind it, or `never`."""
        if at is None:
            return tag("span", "never")
        local = self.local(at)
        exact, whole = local.isoformat(timespec="seconds"), f"{local:%a %Y-%m-%d %H:%M:%S %Z}"
        return tag("time", f"{duration(self.now - at)} ago", datetime=exact, title=whole)

    def ahead(self, at: float | None) -> str:
        """`in 40 s`, `now` for what is due, or a dash."""
        if at is None:
            return "–"
        return f"in {duration(at - self.now)}" if at > self.now else "now"


def seconds(value: float | None) -> str:
    """`80 ms`, `0.42 s`, `12.5 s`, or a dash."""
    if value is None:
        return "–"
    if value < 0.0995:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def number(value: float | None) -> str:
    """Three digits are enough, or a dash."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """`99.95 %`: as many digits as it takes not to round a failure away, or a dash."""
    if value is None:
        return "–"
    if value in (0.0, 1.0):
        return f"{100 * value:.0f} %"
    return f"{100 * value:.2f} %" if 0.0001 <= value <= 0.9999 else f"{100 * value:.4f} %"


def incident_title(incident: Incident) -> str:
    """What an incident is, beginning with the server or host it is about."""
    subject = incident.subject or incident.labels.get("server") or incident.labels.get("host") or ""
    return statement_of(subject, incident.phrase)
