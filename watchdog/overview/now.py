"""Everything that is now, read once, for the status, the page and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watchdog.completion.drift import Drift
from watchdog.message import span
from watchdog.model import DeliveryState, Maintenance
from watchdog.overview.slowness import drifts
from watchdog.overview.status import Health, Plan, health_of, is_stale, planned, status_json
from watchdog.store import MAINTENANCE, PLAN, Reader, Snapshot
from watchdog.store.presence import holder

JUST_STARTED_S = 90.0
"""A daemon may take so long until its first observation: the longest patience of a probe, and its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The snapshot, what the daemon runs by, which servers are slower than they use to be (by check key), and since
    when receivers refuse everything (by name, Unix seconds).
    """

    snapshot: Snapshot
    plan: Plan
    windows: tuple[Maintenance, ...] = ()
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    failing_since: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, reader: Reader, now: float, state_dir: Path | None = None) -> Now:
        """As `reader` has it at `now` (Unix seconds).

        With `state_dir`, the snapshot of a state that nobody writes says in `storage` when a daemon runs there all the
        same: it cannot write, on a full disk for example.
        """
        snapshot = reader.snapshot(now)
        plan: Plan = reader.memory(PLAN) or {}
        if state_dir is not None and snapshot.storage is None and is_stale(snapshot, plan):
            snapshot = replace(snapshot, storage=_unwritten(state_dir, snapshot))
        return cls(
            snapshot=snapshot,
            plan=plan,
            windows=planned(reader.memory(MAINTENANCE)),
            drifts=drifts(reader, (view.key for view in snapshot.keys), now),
            failing_since=_failing_since(reader, snapshot),
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


def _unwritten(state_dir: Path, snapshot: Snapshot) -> str | None:
    """Why nothing is written though a daemon runs; None if none does."""
    found = holder(state_dir)
    if found is None:
        return None
    who = "a daemon" if found.process is None else f"a daemon (process {found.process})"
    running_s = snapshot.at - found.since
    wrote = snapshot.latest_at is not None and snapshot.latest_at > found.since
    if not wrote and 0 <= running_s < JUST_STARTED_S:
        return f"{who} has started here {span(running_s)} ago and has observed nothing yet"
    return f"{who} runs here but cannot write its state: look at its log and at the space on the disk"


def _failing_since(reader: Reader, snapshot: Snapshot) -> dict[str, float]:
    """When the first message that is still not delivered was due, of each receiver that failed last."""
    proven = {one.name: one.delivered_at or 0.0 for one in snapshot.receivers if one.failures}
    if not proven:
        return {}
    since = {one.name: one.failed_at for one in snapshot.receivers if one.name in proven and one.failed_at is not None}
    for row in reader.deliveries():
        good_at = proven.get(row.receiver)
        if good_at is None or not row.attempt or row.state is DeliveryState.DELIVERED:
            continue
        if row.done_at is None or row.done_at > good_at:
            began_at = max(row.created_at, good_at)
            since[row.receiver] = min(since.get(row.receiver, began_at), began_at)
    return since
