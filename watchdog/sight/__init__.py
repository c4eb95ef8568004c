"""Whether we could see at all: our clocks, our own road to the network, and what that makes of an observation. Pure.

What we could not tell is unknown, never a failure (design §2, invariant 6); and what is not proven to be our own
trouble stays a failure: three in a row alert, whatever the reason (§5.1).
"""

from watchdog.sight.clocks import Gap, GapKind, Reading, gap_between
from watchdog.sight.excuses import BLIND, CLOCK_JUMP, concerns_road, excused_by_gap, excused_by_road
from watchdog.sight.road import Answer, Knock, Look, Proof, Road, RoadState, judge_road

__all__ = [
    "BLIND",
    "CLOCK_JUMP",
    "Answer",
    "Gap",
    "GapKind",
    "Knock",
    "Look",
    "Proof",
    "Reading",
    "Road",
    "RoadState",
    "concerns_road",
    "excused_by_gap",
    "excused_by_road",
    "gap_between",
    "judge_road",
]
