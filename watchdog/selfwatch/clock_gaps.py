"""Compares the clocks, and knows what the last gap explains: runs that it cut in two, a network that is not up yet."""

from __future__ import annotations

from watchdog.clock import Clock
from watchdog.model import Observation
from watchdog.selfwatch.attribution import ClockReading, Gap, GapKind, attribute_to_gap, gap_between

GRACE_S = 60.0
"""After a gap the network may take this long to come back: Wi-Fi, DHCP, a VPN."""
MOST_IN_A_ROW = 2
"""So many failures in a row of one key are put down to the clocks; a machine whose clock keeps jumping still alerts."""


class Clocks:
    """The last reading of the clocks, the last gap in them, and the failures it explained."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = self._read()
        self._gap: Gap | None = None
        self._until = 0.0
        self._explained: dict[str, int] = {}
        self.explained_any = False
        """Whether a failure was put down to the last gap."""

    def _read(self) -> ClockReading:
        return ClockReading(self._clock.wall(), self._clock.monotonic())

    @property
    def settling(self) -> bool:
        """Whether the last gap was so recent that the network may not be up yet."""
        return self._clock.monotonic() < self._until

    @property
    def settled_at(self) -> float:
        """Monotonic seconds of the end of the last grace; 0 before the first gap."""
        return self._until

    def check(self, expected_s: float) -> Gap | None:
        """Compare the clocks, `expected_s` or less after the last time; returns a gap once, when it is found."""
        now = self._read()
        gap = gap_between(self._last, now, expected_s)
        self._last = now
        if gap is not None:
            self._gap = gap
            self._until = now.monotonic + GRACE_S
            self.explained_any = False
        return gap

    def attribute(self, observation: Observation) -> Observation:
        """`observation`, or an unknown one when the last gap explains its failure."""
        gap = self._gap
        if gap is None:
            return observation
        seen = attribute_to_gap(observation, gap, self._clock.wall(), settling=self._settling_for(gap))
        if seen is observation:
            self._explained.pop(observation.key, None)
            return observation
        count = self._explained.get(observation.key, 0) + 1
        if count > MOST_IN_A_ROW:
            return observation
        self._explained[observation.key] = count
        self.explained_any = True
        return seen

    def _settling_for(self, gap: Gap) -> bool:
        # A clock that was set back says nothing about the network: we were awake all the time.
        return self.settling and gap.kind is not GapKind.SET_BACK
