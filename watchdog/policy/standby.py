"""A second watchdog beside a first one: what it keeps to itself while the first one speaks (design §10)."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.model import Incident

ID_MARK = "-s"
"""Stands behind the ids of a standby's incidents, so that a message says who spoke."""
SETTLE_S = 300.0
"""A first watchdog that went on for so long after we opened an incident has seen and told it too."""
TOLD_FOR_S = 3600.0
"""What the first one told before it fell silent is told by us when it still goes on after this time."""


@dataclass(frozen=True, slots=True)
class Standby:
    """How the first watchdog is. `speaks`: it is there, so we hold back. `heard_at`: its last sign of life, if any."""

    speaks: bool = True
    heard_at: float | None = None


def held_for_the_first(incident: Incident, standby: Standby | None, now: float) -> bool:
    """Whether nothing new about `incident` is ours to tell. What we say about ourselves always is.

    While the first one speaks, all is its to tell. When it has fallen silent, what it had time to tell is held for an
    hour more: nobody is woken twice by the same trouble, and one that lasts is not forgotten.
    """
    if standby is None or incident.key.startswith("self/"):
        return False
    if standby.speaks:
        return True
    if standby.heard_at is None:
        return False
    told_by_it = incident.opened_at + SETTLE_S <= standby.heard_at
    return told_by_it and 0 <= now - standby.heard_at < TOLD_FOR_S
