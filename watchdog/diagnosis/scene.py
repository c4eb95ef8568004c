"""What is known at the moment of a decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from watchdog.model import Evidence, Incident, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host: its newest vitals and its newest reading of the kernel log (None: never seen), its open occurrences."""

    name: str
    vitals: Observation | None = None
    kernel_log: Observation | None = None
    occurrences: tuple[Incident, ...] = ()

    @property
    def clock_offset_s(self) -> float:
        """How far its clock is ahead of ours in seconds; 0.0 when that is not known."""
        return 0.0 if self.vitals is None else self.vitals.measurements.get("clock_offset_s", 0.0)

    def noted(self, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
        """Evidence from this host, its source saying how far the host's clock is off, as its own log shows that time.

        The times themselves are on our clock already: the reading of the kernel log places them there.
        """
        offset = self.clock_offset_s
        if not offset:
            return tuple(evidence)
        return tuple(Evidence(one.at, f"{one.source} (its clock {offset:+.0f} s)", one.text) for one in evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An incident and what is known around it at `now` (Unix seconds). All times are on our clock.

    `newest` is the newest failing observation of the incident's own key. `hosts` are those the server runs on, or the
    one host the incident is about; `servers` are the newest observations of `generation/<server>` of the servers that
    run on such hosts. `own_road` says, if our own network is known to be down, how.
    """

    incident: Incident
    newest: Observation | None
    now: float
    hosts: tuple[HostView, ...] = ()
    servers: tuple[Observation, ...] = ()
    own_road: str = ""
