"""Feels the clocks, and knows what the last gap excuses: runs that it cut in two, a network that is not up yet."""

from __future__ import annotations

from watchdog.clock import Clock
from watchdog.model import Observation
from watchdog.selfwatch.attribution import Gap, GapKind, Reading, excused_by_gap, gap_between

GRACE_S = 60.0
"""After a gap the network may take this long to come back: Wi-Fi, DHCP, a VPN."""
MOST_EXCUSES = 2
"""So often in a row one key is excused by the clocks alone; a machine whose clock jumps for ever still alerts."""


class Clocks:
    """What the clocks said last, the last gap in them, and whom it excused."""

    def __init__(self, clock: Clock) -> None:
        """Begin with the time as it is now."""
        self._clock = clock
        self._last = self._read()
        self._gap: Gap | None = None
        self._until = 0.0
        self._excused: dict[str, int] = {}
        self.excused_anyone = False
        """Whether somebody was excused since the last gap."""

    def _read(self) -> Reading:
        return Reading(self._clock.wall(), self._clock.monotonic())

    @property
    def settling(self) -> bool:
        """Whether the last gap was so recent that the network may not be up yet."""
        return self._clock.monotonic() < self._until

    @property
    def settled_at(self) -> float:
        """Monotonic seconds of the end of the last grace; 0 before the first gap."""
        return self._until

    def feel(self, expected_s: float) -> Gap | None:
        """Look at the clocks, `expected_s` or less after the last time; returns a gap once, when it is found."""
        now = self._read()
        gap = gap_between(self._last, now, expected_s)
        self._last = now
        if gap is not None:
            self._gap = gap
            self._until = now.monotonic + GRACE_S
            self.excused_anyone = False
        return gap

    def judged(self, observation: Observation) -> Observation:
        """`observation`, or what is left of it when the last gap explains it."""
        gap = self._gap
        if gap is None:
            return observation
        seen = excused_by_gap(observation, gap, self._clock.wall(), settling=self._settling_for(gap))
        if seen is observation:
            self._excused.pop(observation.key, None)
            return observation
        count = self._excused.get(observation.key, 0) + 1
        if count > MOST_EXCUSES:
            return observation
        self._excused[observation.key] = count
        self.excused_anyone = True
        return seen

    def _settling_for(self, gap: Gap) -> bool:
        # A clock that was set back says nothing about the network: we were awake all the time.
        return self.settling and gap.kind is not GapKind.SET_BACK
