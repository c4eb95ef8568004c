"""What the status page shows, read in one go: what is now, and what was in the stretch of time that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

from watchdog.kinds import KINDS
from watchdog.model import Incident, Silence, matches_value
from watchdog.overview import GENERATION
from watchdog.overview.statistics import Length, Series, Span, series_of, span_of
from watchdog.overview.status import Status
from watchdog.store import BlindWindow, Reader
from watchdog.store.reader import KeyView

MOST_PLOTTED = 10
"""With more servers than this only the chosen one is plotted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """`series` by check key, for the servers that are plotted; `incidents` those of the time, newest first."""

    status: Status
    length: Length
    span: Span
    chosen: str | None
    series: Mapping[str, Series]
    incidents: tuple[Incident, ...]
    blind: tuple[BlindWindow, ...]
    silences: tuple[Silence, ...]
    zone: tzinfo | None = None

    @classmethod
    def read(
        cls, reader: Reader, now: float, length: Length, *, server: str | None = None, zone: tzinfo | None = None
    ) -> PageData:
        """As `reader` has it at `now`; `server` chooses one server to be plotted alone."""
        status = Status.read(reader, now)
        span = span_of(length, now, zone)
        servers = [view.key for view in status.snapshot.keys if view.key.startswith(GENERATION)]
        plotted = servers if len(servers) <= MOST_PLOTTED else []
        if server is not None:
            plotted = [key for key in servers if key == GENERATION + server]
        return cls(
            status=status,
            length=length,
            span=span,
            chosen=server,
            series={key: series_of(reader.samples(key, span.since_at, span.until_at), span) for key in plotted},
            incidents=tuple(sorted(reader.incidents(span.since_at, span.until_at), key=lambda one: -one.since)),
            blind=reader.blind_windows(span.since_at),
            silences=reader.silences(span.since_at),
            zone=zone,
        )

    @property
    def at(self) -> float:
        """When it was read."""
        return self.status.snapshot.at

    def views(self, prefix: str) -> tuple[KeyView, ...]:
        """The checks whose key is `prefix` and one name: servers, or hosts."""
        keys = self.status.snapshot.keys
        return tuple(one for one in keys if one.key.startswith(prefix) and "/" not in one.key.removeprefix(prefix))

    def view(self, key: str) -> KeyView | None:
        return next((view for view in self.status.snapshot.keys if view.key == key), None)

    def incidents_of(self, label: str, name: str) -> tuple[Incident, ...]:
        """The incidents of the time that concern the server or host `name`, newest first."""
        keys = {kind.key(name) for kind in KINDS if kind.label == label}
        return tuple(one for one in self.incidents if one.labels.get(label) == name or one.key in keys)

    def silences_of(self, label: str, name: str) -> tuple[Silence, ...]:
        """The silences of the time that name the server or host `name`."""
        return tuple(one for one in self.silences if label in one.matcher and matches_value(one.matcher[label], name))
