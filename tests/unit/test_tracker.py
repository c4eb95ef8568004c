"""The tracker's table: which verdicts move a key where, and what there is to say."""

from __future__ import annotations

import itertools

import pytest

from tests.support.alerting_path import line_seen, observed
from watchdog.model import (
    Cause,
    Nature,
    Observation,
    Phase,
    Severity,
    StepReason,
    Thresholds,
    TrackState,
    Transition,
    TransitionKind,
    Verdict,
)
from watchdog.tracker import CONDITIONS, OCCURRENCES, Guard, Step, retired, step

LIMITS = Thresholds()
WORDS = {"F": Verdict.FAIL, "P": Verdict.PASS, "U": Verdict.UNKNOWN}


def walk(verdicts: str, limits: Thresholds = LIMITS, severities: str = "") -> list[Step]:
    """Steps for a story such as `FFFPP`; `severities` gives p, w or i for each."""
    loudness = {"p": Severity.PAGE, "w": Severity.WARN, "i": Severity.INFO}
    state, steps = TrackState(), []
    for number, (letter, loud) in enumerate(itertools.zip_longest(verdicts, severities, fillvalue="p")):
        made = step(state, observed(WORDS[letter], at=float(number), severity=loudness[loud]), limits, float(number))
        steps.append(made)
        state = made.state
    return steps


def said(steps: list[Step]) -> list[str]:
    return [made.transition.kind.value for made in steps if made.transition]


@pytest.mark.parametrize(
    ("story", "phase", "words"),
    [
        ("P", Phase.OK, []),
        ("F", Phase.PENDING, []),
        ("FF", Phase.PENDING, []),
        ("FFP", Phase.OK, []),
        ("FFPFF", Phase.PENDING, []),
        ("FFF", Phase.FIRING, ["opened"]),
        ("FFFFFF", Phase.FIRING, ["opened"]),
        ("FFFP", Phase.RECOVERING, ["opened"]),
        ("FFFPF", Phase.FIRING, ["opened"]),
        ("FFFPFPFP", Phase.RECOVERING, ["opened"]),
        ("FFFPP", Phase.OK, ["opened", "resolved"]),
        ("FFFPPFFF", Phase.FIRING, ["opened", "resolved", "opened"]),
        ("FUFUF", Phase.FIRING, ["opened"]),
        ("FFUUUU", Phase.PENDING, []),
        ("FFFPUP", Phase.OK, ["opened", "resolved"]),
        ("FPFPFPFPF", Phase.FIRING, ["opened"]),
        ("FPFPFPFPPP", Phase.OK, []),
    ],
)
def test_a_story_of_verdicts_ends_where_the_table_says(story: str, phase: Phase, words: list[str]) -> None:
    steps = walk(story)
    assert steps[-1].state.phase is phase
    assert said(steps) == words


def test_thresholds_of_one_open_and_close_at_once() -> None:
    steps = walk("FP", Thresholds(failures=1, successes=1))
    assert said(steps) == ["opened", "resolved"]


def test_five_misses_of_the_last_ten_are_flapping_and_only_warn() -> None:
    steps = walk("FPFPFPFPF")
    opened = steps[-1].transition
    assert opened == Transition(
        kind=TransitionKind.OPENED, reason=StepReason.FLAPPING, cause=Cause.FLAPPING, severity=Severity.WARN
    )


def test_flapping_ends_only_when_few_misses_are_left_in_the_window() -> None:
    steps = walk("FPFPFPFPF" + "P" * 8)
    assert [made.reason for made in steps[9:]].count(StepReason.NOT_CALM_YET) > 0
    assert said(steps) == ["opened", "resolved"]
    assert sum(not passed for passed in steps[-1].state.recent) <= 2


def test_an_outage_during_flapping_raises_the_same_incident() -> None:
    steps = walk("FPFPFPFPF" + "FF")
    assert said(steps) == ["opened", "escalated"]
    last = steps[-1].transition
    assert last is not None
    assert (last.reason, last.severity, last.cause) == (StepReason.DOWN_FOR_GOOD, Severity.PAGE, Cause.STRIKES)


def test_the_run_of_fails_is_dated_by_its_own_first_one() -> None:
    assert [made.state.failing_since for made in walk("PFFUFPFPPF")] == [None, 1, 1, 1, 1, None, 6, None, None, 9]
    old = TrackState(phase=Phase.FIRING, fails=4, since=1.0)  # of a version that did not note it
    assert step(old, observed(Verdict.FAIL, at=5.0), LIMITS, 5.0).state.failing_since == 5.0


def test_misses_that_were_told_do_not_count_as_flapping_again() -> None:
    assert said(walk("FFFPPFPF")) == ["opened", "resolved"]


def test_flapping_can_be_turned_off() -> None:
    assert said(walk("FP" * 10, Thresholds(flap_failures=0))) == []
    assert said(walk("FP" * 10, Thresholds(flap_window=0))) == []


def test_a_louder_miss_raises_an_open_incident_once_and_a_quieter_one_changes_nothing() -> None:
    steps = walk("FFFFFF", severities="wwwpwp")
    assert said(steps) == ["opened", "escalated"]
    assert steps[2].state.severity is Severity.WARN
    assert steps[-1].state.severity is Severity.PAGE


def test_unknown_moves_nothing_but_its_own_count() -> None:
    before = walk("FF")[-1].state
    after = step(before, observed(Verdict.UNKNOWN), LIMITS, 9.0)
    assert (after.state.fails, after.state.phase, after.state.recent) == (before.fails, before.phase, before.recent)
    assert after.state.unknowns == 1
    assert step(after.state, observed(Verdict.PASS), LIMITS, 10.0).state.unknowns == 0


def test_the_trouble_began_with_its_first_miss() -> None:
    state = walk("PPFFF")[-1].state
    assert (state.since, state.last_good_at, state.count) == (2.0, 1.0, 3)


def test_a_healthy_key_reaches_a_state_that_no_longer_changes() -> None:
    before, after = (made.state for made in walk("P" * 12)[-2:])
    assert (before.passes, before.recent) == (after.passes, after.recent)


def occurrences(*at: tuple[float, Observation | None]) -> list[Step]:
    state, steps = TrackState(nature=Nature.OCCURRENCE), []
    for now, observation in at:
        made = step(state, observation, LIMITS, now)
        steps.append(made)
        state = made.state
    return steps


def test_an_occurrence_opens_at_first_sight_folds_and_expires_after_an_hour_of_quiet() -> None:
    steps = occurrences((0.0, line_seen()), (10.0, line_seen(count=7)), (3609.0, None), (3610.0, None), (3611.0, None))
    assert said(steps) == ["opened", "expired"]
    assert steps[1].state.count == 8
    assert steps[3].reason is StepReason.WENT_QUIET


def test_a_clock_set_back_does_not_keep_an_occurrence_open_for_the_length_of_the_step() -> None:
    steps = occurrences((10_000.0, line_seen()), (100.0, None), (3699.0, None), (3700.0, None))
    assert said(steps) == ["opened", "expired"]
    assert [made.transition is not None for made in steps] == [True, False, False, True]


def test_a_pass_or_unknown_never_closes_an_occurrence() -> None:
    state = occurrences((0.0, line_seen()))[-1].state
    for verdict in (Verdict.PASS, Verdict.UNKNOWN):
        assert step(state, observed(verdict, nature=Nature.OCCURRENCE), LIMITS, 1.0).state.is_open


def test_what_is_no_longer_watched_is_closed_by_name() -> None:
    closed = retired(walk("FFF")[-1].state)
    assert closed.transition is not None
    assert closed.transition.kind is TransitionKind.RESOLVED
    assert closed.reason is StepReason.NOT_WATCHED_ANY_MORE
    assert retired(walk("FF")[-1].state).transition is None


def test_every_phase_and_verdict_of_a_condition_has_rows_that_end_with_always() -> None:
    for phase, verdict in itertools.product(Phase, (Verdict.PASS, Verdict.FAIL)):
        assert CONDITIONS[phase, verdict][-1].guard is Guard.ALWAYS
    assert all(rows[-1].guard is Guard.ALWAYS for rows in OCCURRENCES.values())


def test_failures_closer_together_than_the_gap_are_one_strike_until_the_incident_is_open() -> None:
    limits = Thresholds(strike_gap_s=90.0)
    state, told = TrackState(), []
    for at in (0.0, 5.0, 89.0, 90.0, 100.0, 180.0, 185.0):
        made = step(state, observed(Verdict.FAIL, at=at), limits, at + 60)
        told.append((made.reason.value, made.state.fails))
        state = made.state
    assert told == [
        ("strike", 1),
        ("too_soon", 1),
        ("too_soon", 1),
        ("strike", 2),
        ("too_soon", 2),
        ("strikes_reached", 3),
        ("still_failing", 4),
    ]


def test_a_pass_between_two_failures_and_a_clock_that_was_set_back_make_no_failure_too_soon() -> None:
    limits = Thresholds(strike_gap_s=90.0)
    first = step(TrackState(), observed(Verdict.FAIL, at=1000.0), limits, 1000.0).state
    passed = step(first, observed(Verdict.PASS, at=1001.0), limits, 1001.0).state
    assert step(passed, observed(Verdict.FAIL, at=1002.0), limits, 1002.0).reason is StepReason.STRIKE
    assert step(first, observed(Verdict.FAIL, at=500.0), limits, 500.0).reason is StepReason.STRIKE
