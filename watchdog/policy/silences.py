"""Silences and maintenance windows: when to say nothing new. They stop neither looking nor the end of anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from watchdog.config import MaintenanceSettings
from watchdog.model import Incident, Maintenance, Silence, matches_value

_DAY_S = 86400.0
LABELS = ("server", "seat", "host", "kind", "device", "receiver", "check", "key", "severity")
"""What a silence or a maintenance window may match by."""
_NOWHERE: Mapping[str, tuple[str, ...]] = {}


def matches(matcher: Mapping[str, str], incident: Incident, runs_on: Mapping[str, tuple[str, ...]] = _NOWHERE) -> bool:
    """Whether every label named by `matcher` has the wanted value: the text itself, or a prefix followed by `*`.

    Besides the incident's own labels there are `key`, `check` (the key's first part) and `severity`. `host` also fits
    what runs on that host: `runs_on` maps a server to its hosts. An empty matcher matches nothing: a typo must not
    silence everything.
    """
    labels = {
        **incident.labels,
        "key": incident.key,
        "check": incident.key.partition("/")[0],
        "severity": incident.severity.value,
    }
    hosts = runs_on.get(incident.labels.get("server", ""), ())

    def fits(name: str, wanted: str) -> bool:
        values = (*hosts, labels.get(name)) if name == "host" else (labels.get(name),)
        return any(value is not None and matches_value(wanted, value) for value in values)

    return bool(matcher) and all(fits(name, wanted) for name, wanted in matcher.items())


def silenced_by(
    incident: Incident, silences: Iterable[Silence], now: float, runs_on: Mapping[str, tuple[str, ...]] = _NOWHERE
) -> Silence | None:
    """The silence that covers `incident` at `now`, or None. It starts at `starts_at` and is over at `ends_at`."""
    for silence in silences:
        if silence.starts_at <= now < silence.ends_at and matches(silence.matcher, incident, runs_on):
            return silence
    return None


def maintained_by(
    incident: Incident, windows: Iterable[Maintenance], now: float, runs_on: Mapping[str, tuple[str, ...]] = _NOWHERE
) -> Maintenance | None:
    """The maintenance window that covers `incident` at `now`, or None."""
    for window in windows:
        if matches(window.matcher, incident, runs_on) and window_at(window, now) is not None:
            return window
    return None


def maintenance_of(settings: MaintenanceSettings) -> Maintenance:
    """The window that one entry under `maintenance` asks for; `loading` has seen to it that it is whole."""
    if settings.begins is not None and settings.ends is not None:
        once = (settings.begins.timestamp(), settings.ends.timestamp())
        return Maintenance(name=settings.name, matcher=settings.match, once=once)
    return Maintenance(
        name=settings.name,
        matcher=settings.match,
        days=tuple(sorted({day.number for day in settings.days})),
        start=(settings.start.hour, settings.start.minute) if settings.start else (0, 0),
        duration_s=settings.duration_s,
        zone=settings.time_zone or UTC,
    )


def _start_on(window: Maintenance, day: datetime) -> float:
    """Unix seconds at which `window` begins on the local date of `day`.

    `fold=0` is what makes both daylight-saving edges right: a start that comes twice means the first, and a start that
    is skipped is reckoned with the time before the jump, so it begins right when the clock has jumped over it.
    """
    local = datetime(day.year, day.month, day.day, *window.start, tzinfo=window.zone, fold=0)
    return local.timestamp()


def _starts_around(window: Maintenance, now: float, days: range) -> list[float]:
    today = datetime.fromtimestamp(now, UTC).astimezone(window.zone)
    wanted = (today + timedelta(days=offset) for offset in days)
    return [_start_on(window, day) for day in wanted if day.weekday() in window.days]


def window_at(window: Maintenance, now: float) -> tuple[float, float] | None:
    """Start and end (Unix seconds) of the occurrence of `window` that covers `now`, or None."""
    if window.once is not None:
        return window.once if window.once[0] <= now < window.once[1] else None
    back = int(window.duration_s // _DAY_S) + 2
    for start in _starts_around(window, now, range(-back, 2)):
        if start <= now < start + window.duration_s:
            return start, start + window.duration_s
    return None


def next_window(window: Maintenance, now: float) -> tuple[float, float] | None:
    """Start and end of the next occurrence of `window` that begins after `now`; None if there is none."""
    if window.once is not None:
        return window.once if window.once[0] > now else None
    later = [start for start in _starts_around(window, now, range(-1, 9)) if start > now]
    return (min(later), min(later) + window.duration_s) if later else None
