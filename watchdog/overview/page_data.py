"""What the status page shows, read in one go: what is now, and what was in the stretch of time that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from watchdog import kinds
from watchdog.kinds import KINDS
from watchdog.model import Incident, Silence
from watchdog.overview.drift import GENERATION
from watchdog.overview.statistics import Length, Series, Span, series_of, span_of
from watchdog.overview.status import Now
from watchdog.store import BlindWindow, Reader
from watchdog.store.reader import KeyView

MOST_PLOTTED = 10
"""With more servers than this only the chosen one is plotted."""
KERNEL_LOG = kinds.KERNEL_LOG.key("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`series` by check key, for the servers that are plotted; `incidents` those of the time, newest first."""

    now: Now
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
    ) -> Scene:
        """As `reader` has it at `now`; `server` chooses one server to be plotted alone."""
        seen = Now.read(reader, now)
        span = span_of(length, now, zone)
        servers = [view.key for view in seen.snapshot.keys if view.key.startswith(GENERATION)]
        plotted = servers if len(servers) <= MOST_PLOTTED else []
        if server is not None:
            plotted = [key for key in servers if key == GENERATION + server]
        return cls(
            now=seen,
            length=length,
            span=span,
            chosen=server,
            series={key: series_of(reader.samples(key, span.since_at, span.until_at), span) for key in plotted},
            incidents=newest_first(reader.incidents(span.since_at, span.until_at)),
            blind=reader.blind_windows(span.since_at),
            silences=reader.silences(span.since_at),
            zone=zone,
        )

    @property
    def at(self) -> float:
        """The moment it was read."""
        return self.now.snapshot.at

    def views(self, prefix: str) -> tuple[KeyView, ...]:
        """The checks whose key is `prefix` and one name: servers, or hosts."""
        return tuple(
            view
            for view in self.now.snapshot.keys
            if view.key.startswith(prefix) and "/" not in view.key.removeprefix(prefix)
        )

    def view(self, key: str) -> KeyView | None:
        """One check, or None."""
        return next((view for view in self.now.snapshot.keys if view.key == key), None)

    def incidents_of(self, label: str, name: str) -> tuple[Incident, ...]:
        """The incidents of the time that concern the server or host `name`, newest first."""
        keys = tuple(f"{kind.name}/" for kind in KINDS if kind.label == label)
        return tuple(
            one for one in self.incidents if one.labels.get(label) == name or any(one.key == key + name for key in keys)
        )

    def blind_to(self, key: str) -> tuple[BlindWindow, ...]:
        """When we saw nothing of `key`, or of anything."""
        return tuple(window for window in self.blind if window.key in ("", key))

    def silences_of(self, label: str, name: str) -> tuple[Silence, ...]:
        """The silences of the time that name the server or host `name`."""
        return tuple(one for one in self.silences if label in one.matcher and _fits(one.matcher[label], name))


def newest_first(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """By their beginning, the newest first."""
    return tuple(sorted(incidents, key=lambda one: -one.since))


def _fits(wanted: str, name: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
