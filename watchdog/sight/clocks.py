"""Wall against monotonic clock: did we sleep, was the clock set, did we stand still (design §5.4)?

The monotonic clock stops while a machine sleeps, on Linux and on macOS (CPython issue 86273), and no step of the wall
clock moves it. A sleep and a clock that is set ahead therefore look the same, and are treated the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.quantity import span

JUMP_S = 10.0
"""The clocks may part by this much between two looks: time servers correct a second or two after a start."""
STALL_S = 10.0
"""We may come this much too late before it counts as standing still."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Both clocks at one moment: Unix seconds, and monotonic seconds."""

    wall: float
    monotonic: float


class GapKind(StrEnum):
    """What kind of time is missing."""

    ASLEEP = "asleep"
    STALLED = "stalled"
    SET_BACK = "set_back"


@dataclass(frozen=True, slots=True)
class Gap:
    """A time that we did not see, in Unix seconds. After `SET_BACK` nothing is missing: it begins and ends now."""

    kind: GapKind
    began_at: float
    ended_at: float
    lasted_s: float

    def covers(self, began_at: float, now: float) -> bool:
        """Whether a run that began at `began_at` was under way in this gap. `now` is after the gap.

        A beginning that lies ahead of us was read from the clock before it was set back.
        """
        return began_at < self.ended_at or began_at > now + 1.0

    @property
    def words(self) -> str:
        """What happened, for a person."""
        lasted = span(self.lasted_s)
        if self.kind is GapKind.ASLEEP:
            return f"this machine slept for {lasted}, or its clock was set ahead by as much"
        if self.kind is GapKind.STALLED:
            return f"inference-watchdog stood still for {lasted}: paused, or its machine overloaded"
        return f"this machine's clock was set back by {lasted}"


def gap_between(before: Reading, after: Reading, expected_s: float) -> Gap | None:
    """The gap between two looks at the clocks that were meant to be `expected_s` apart, or None."""
    elapsed = after.monotonic - before.monotonic
    drift = (after.wall - before.wall) - elapsed
    if drift >= JUMP_S:
        return Gap(GapKind.ASLEEP, before.wall, after.wall, drift)
    if drift <= -JUMP_S:
        return Gap(GapKind.SET_BACK, after.wall, after.wall, -drift)
    if elapsed - expected_s >= STALL_S:
        return Gap(GapKind.STALLED, before.wall, after.wall, elapsed - expected_s)
    return None
