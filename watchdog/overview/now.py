"""Everything that is now, read once, for the status, the page and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watchdog.completion.drift import Drift
from watchdog.model import Maintenance
from watchdog.overview.slowness import drifts
from watchdog.overview.status import Health, Plan, health_of, is_stale, planned, status_json
from watchdog.store import MAINTENANCE, PLAN, Reader, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The snapshot, what the daemon runs by, and which servers are slower than they use to be (by check key)."""

    snapshot: Snapshot
    plan: Plan
    windows: tuple[Maintenance, ...] = ()
    drifts: Mapping[str, Drift] = field(default_factory=dict)

    @classmethod
    def read(cls, reader: Reader, now: float) -> Now:
        """As `reader` has it at `now` (Unix seconds)."""
        snapshot = reader.snapshot(now)
        return cls(
            snapshot=snapshot,
            plan=reader.memory(PLAN) or {},
            windows=planned(reader.memory(MAINTENANCE)),
            drifts=drifts(reader, (view.key for view in snapshot.keys), now),
        )

    @property
    def health(self) -> Health:
        """How it all stands."""
        return health_of(self.snapshot, self.plan, self.drifts)

    @property
    def is_stale(self) -> bool:
        """Whether no daemon seems to be writing."""
        return is_stale(self.snapshot, self.plan)

    def as_json(self) -> dict[str, Any]:
        """The status object."""
        return status_json(self.snapshot, self.plan, self.windows, self.drifts)
