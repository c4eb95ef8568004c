"""What must hold for the tracker under any story of verdicts, restarts and passing time."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.alerting_path import line_seen, observed
from watchdog.model import Nature, Phase, Severity, Thresholds, TrackState, TransitionKind, Verdict
from watchdog.store.codec import track_from_text, track_to_text
from watchdog.tracker import step

LIMITS = st.builds(
    Thresholds,
    failures=st.integers(1, 5),
    successes=st.integers(1, 4),
    flap_window=st.integers(0, 12),
    flap_failures=st.integers(0, 8),
)
VERDICTS = st.sampled_from([Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN])
SEVERITIES = st.sampled_from(list(Severity))


class Tracking(RuleBasedStateMachine):
    """One condition under any verdicts, stored and read back at any moment; a plain model beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Thresholds()
        self.state = TrackState()
        self.now = 1000.0
        self.row = 0
        self.passes = 0
        self.open = False
        self.severity = Severity.INFO

    @rule(verdict=VERDICTS, severity=SEVERITIES, later=st.floats(0, 1000))
    def observe(self, verdict: Verdict, severity: Severity, later: float) -> None:
        self.now += later
        before = self.state
        made = step(self.state, observed(verdict, severity=severity, at=self.now), self.limits, self.now)
        self.state = made.state
        if verdict is Verdict.UNKNOWN:
            assert replace(made.state, unknowns=before.unknowns) == before
            assert made.transition is None
            return
        self.row = self.row + 1 if verdict is Verdict.FAIL else 0
        self.passes = self.passes + 1 if verdict is Verdict.PASS else 0
        if made.transition is None:
            return
        kind = made.transition.kind
        assert (kind is TransitionKind.OPENED) is (not self.open)
        if kind is TransitionKind.OPENED:
            assert verdict is Verdict.FAIL
            self.open, self.severity = True, made.transition.severity
        elif kind is TransitionKind.ESCALATED:
            assert made.transition.severity.rank >= self.severity.rank
            self.severity = made.transition.severity
        else:
            assert kind is TransitionKind.RESOLVED
            assert self.passes >= self.limits.successes
            self.open = False

    @rule(later=st.floats(0, 100_000))
    def only_time(self, later: float) -> None:
        self.now += later
        assert step(self.state, None, self.limits, self.now).transition is None

    @rule()
    def store_and_load(self) -> None:
        assert track_from_text(track_to_text(self.state)) == self.state
        self.state = track_from_text(track_to_text(self.state))

    @precondition(lambda self: not self.open and self.row == 0)
    @rule(limits=LIMITS)
    def other_thresholds(self, limits: Thresholds) -> None:
        self.limits, self.state = limits, TrackState()
        self.row = self.passes = 0

    @invariant()
    def enough_misses_in_a_row_always_fire(self) -> None:
        assert self.open is self.state.is_open
        if self.row >= self.limits.failures:
            assert self.state.phase is Phase.FIRING

    @invariant()
    def enough_passes_without_flapping_always_end_it(self) -> None:
        if self.passes >= max(self.limits.successes, self.limits.flap_window):
            assert self.state.phase is Phase.OK


TestTracking = pytest.mark.timeout(600)(Tracking.TestCase)
TestTracking.settings = settings(
    max_examples=int(os.environ.get("TRACKER_EXAMPLES", "300")), stateful_step_count=40, deadline=None
)


@dataclass(frozen=True)
class Moment:
    """One moment of an occurrence's life: seconds since the one before, and whether it was seen."""

    later: float
    seen: bool
    count: int


@given(st.lists(st.builds(Moment, later=st.floats(0, 5000), seen=st.booleans(), count=st.integers(1, 50)), max_size=30))
def test_an_occurrence_opens_and_expires_in_turn_and_counts_every_line(moments: list[Moment]) -> None:
    state, now, counted, was_open = TrackState(nature=Nature.OCCURRENCE), 0.0, 0, False
    for moment in moments:
        now += moment.later
        made = step(state, None, Thresholds(), now)
        if made.transition:
            assert was_open
            assert made.transition.kind is TransitionKind.EXPIRED
            was_open, counted = False, 0
        if moment.seen:
            made = step(made.state, line_seen(count=moment.count), Thresholds(), now)
            counted += moment.count
            assert made.state.count == counted
            if made.transition:
                assert not was_open
                assert made.transition.kind is TransitionKind.OPENED
            was_open = True
        state = made.state
    assert state.is_open is was_open
