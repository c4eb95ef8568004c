"""Tracking one key: which observation moves it where, and what there is to say. A table, and a step that reads it.

Pure: no clock, no storage. `step` looks up the rows for (phase, verdict) and takes the first whose guard holds.
The state diagram in `docs/` is generated from the two tables. `UNKNOWN` has no row: it never moves anything; it is
only counted, for the "blind" incident (design §2, invariant 6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

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


class Guard(StrEnum):
    """The condition under which a row of the table applies."""

    ALWAYS = "always"
    ENOUGH_FAILS = "enough fails in a row"
    TOO_MANY_FAILS = "too many fails of the last few"
    NOW_DOWN = "was flapping, now enough fails in a row"
    LOUDER = "more severe than before"
    ENOUGH_PASSES = "enough passes in a row"
    CALM = "enough passes in a row, few fails of the last few"


@dataclass(frozen=True, slots=True)
class Row:
    """If `guard` holds, go to `to`; `says` is the transition, or None when there is nothing to say."""

    guard: Guard
    to: Phase
    reason: StepReason
    says: TransitionKind | None = None


_RAISED = (
    Row(Guard.NOW_DOWN, Phase.FIRING, StepReason.DOWN_FOR_GOOD, TransitionKind.ESCALATED),
    Row(Guard.LOUDER, Phase.FIRING, StepReason.LOUDER, TransitionKind.ESCALATED),
)
_OPENED = (
    Row(Guard.ENOUGH_FAILS, Phase.FIRING, StepReason.STRIKES_REACHED, TransitionKind.OPENED),
    Row(Guard.TOO_MANY_FAILS, Phase.FIRING, StepReason.FLAPPING, TransitionKind.OPENED),
    Row(Guard.ALWAYS, Phase.PENDING, StepReason.STRIKE),
)
_CLOSED = (
    Row(Guard.CALM, Phase.OK, StepReason.RECOVERED, TransitionKind.RESOLVED),
    Row(Guard.ENOUGH_PASSES, Phase.RECOVERING, StepReason.NOT_CALM_YET),
    Row(Guard.ALWAYS, Phase.RECOVERING, StepReason.GOOD_SIGN),
)

CONDITIONS: Mapping[tuple[Phase, Verdict], tuple[Row, ...]] = {
    (Phase.OK, Verdict.PASS): (Row(Guard.ALWAYS, Phase.OK, StepReason.STEADY),),
    (Phase.OK, Verdict.FAIL): _OPENED,
    (Phase.PENDING, Verdict.PASS): (Row(Guard.ALWAYS, Phase.OK, StepReason.STRIKES_CLEARED),),
    (Phase.PENDING, Verdict.FAIL): _OPENED,
    (Phase.FIRING, Verdict.PASS): _CLOSED,
    (Phase.FIRING, Verdict.FAIL): (*_RAISED, Row(Guard.ALWAYS, Phase.FIRING, StepReason.STILL_FAILING)),
    (Phase.RECOVERING, Verdict.PASS): _CLOSED,
    (Phase.RECOVERING, Verdict.FAIL): (*_RAISED, Row(Guard.ALWAYS, Phase.FIRING, StepReason.RELAPSED)),
}
"""Conditions: they have an opposite, so they resolve."""

OCCURRENCES: Mapping[tuple[Phase, Verdict], tuple[Row, ...]] = {
    (Phase.OK, Verdict.FAIL): (Row(Guard.ALWAYS, Phase.FIRING, StepReason.FIRST_SEEN, TransitionKind.OPENED),),
    (Phase.FIRING, Verdict.FAIL): (
        Row(Guard.LOUDER, Phase.FIRING, StepReason.LOUDER, TransitionKind.ESCALATED),
        Row(Guard.ALWAYS, Phase.FIRING, StepReason.SEEN_AGAIN),
    ),
}
"""Occurrences: they happened, so they only go quiet, by time (`step` without an observation)."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did: the new state, why, and the transition if there is something to say."""

    state: TrackState
    reason: StepReason
    transition: Transition | None = None


_GUARDS: Mapping[Guard, Callable[[TrackState, TrackState, Severity, Thresholds], bool]] = {
    Guard.ALWAYS: lambda _old, _new, _severity, _limits: True,
    Guard.ENOUGH_FAILS: lambda _old, new, _severity, limits: new.fails >= limits.failures,
    Guard.TOO_MANY_FAILS: lambda _old, new, _severity, limits: _flaps(new, limits) >= limits.flap_failures > 0,
    Guard.NOW_DOWN: lambda old, new, _severity, limits: old.cause is Cause.FLAPPING and new.fails >= limits.failures,
    Guard.LOUDER: lambda old, _new, severity, _limits: severity.rank > old.severity.rank,
    Guard.ENOUGH_PASSES: lambda _old, new, _severity, limits: new.passes >= limits.successes,
    Guard.CALM: lambda old, new, _severity, limits: (
        new.passes >= limits.successes
        and (old.cause is not Cause.FLAPPING or _flaps(new, limits) <= limits.flap_failures // 2)
    ),
}


def _last(verdicts: tuple[bool, ...], count: int) -> tuple[bool, ...]:
    return verdicts[-count:] if count > 0 else ()


def _flaps(state: TrackState, limits: Thresholds) -> int:
    """How many of the last `flap_window` verdicts were fails."""
    return sum(not passed for passed in _last(state.recent, limits.flap_window))


def _counted(state: TrackState, observation: Observation, limits: Thresholds, now: float) -> TrackState:
    """`state` with the observation counted, the phase not yet moved."""
    recent = _last((*state.recent, observation.verdict is Verdict.PASS), limits.flap_window)
    if observation.verdict is Verdict.PASS:
        # Bounded, so that a healthy key reaches a fixed point and costs the store no write for its state.
        passes = min(state.passes + 1, max(limits.flap_window, limits.successes))
        return replace(
            state, fails=0, passes=passes, unknowns=0, recent=recent, last_good_at=observation.at, failing_since=None
        )
    begins = state.phase is Phase.OK
    return replace(
        state,
        nature=observation.nature,
        fails=state.fails + 1,
        passes=0,
        unknowns=0,
        recent=recent,
        since=observation.at if begins else state.since,
        failing_since=state.failing_since if state.fails and state.failing_since is not None else observation.at,
        last_at=now,
        struck_at=observation.at,
        count=observation.count + (0 if begins else state.count),
    )


def _severity_of(row: Row, old: TrackState, observation: Observation) -> Severity:
    """How loud the incident is after `row`: flapping alone warns, and an open incident never gets quieter."""
    if row.reason is StepReason.FLAPPING:
        return min(Severity.WARN, observation.severity, key=lambda severity: severity.rank)
    if row.says is TransitionKind.OPENED:
        return observation.severity
    if old.cause is Cause.FLAPPING and row.reason is not StepReason.DOWN_FOR_GOOD:
        return old.severity
    return max(old.severity, observation.severity, key=lambda severity: severity.rank)


def _cause_of(row: Row, old: TrackState) -> Cause:
    """Why the incident is open after `row`."""
    if row.reason is StepReason.FIRST_SEEN:
        return Cause.OCCURRENCE
    if row.reason is StepReason.FLAPPING:
        return Cause.FLAPPING
    if row.reason in (StepReason.STRIKES_REACHED, StepReason.DOWN_FOR_GOOD):
        return Cause.STRIKES
    return old.cause


def _applies(row: Row, old: TrackState, new: TrackState, severity: Severity, limits: Thresholds) -> bool:
    """Whether `row` is the one to take. While flapping, a louder single failure is still only flapping."""
    if row.guard is Guard.LOUDER and old.cause is Cause.FLAPPING:
        return False
    return _GUARDS[row.guard](old, new, severity, limits)


def _is_too_soon(state: TrackState, observation: Observation, limits: Thresholds) -> bool:
    """Whether a failure follows the last one so closely that it is not another strike: a restart, a reload, a wake-up.

    A clock that was set back proves nothing: it counts.
    """
    return (
        observation.verdict is Verdict.FAIL
        and observation.nature is Nature.CONDITION
        and state.phase is Phase.PENDING
        and state.struck_at is not None
        and 0 <= observation.at - state.struck_at < limits.strike_gap_s
    )


def _observed(state: TrackState, observation: Observation, limits: Thresholds, now: float) -> Step:
    """One step with an observation that is a pass or a fail."""
    table = OCCURRENCES if observation.nature is Nature.OCCURRENCE else CONDITIONS
    rows = table.get((state.phase, observation.verdict))
    if rows is None:
        return Step(state, StepReason.STEADY)
    if _is_too_soon(state, observation, limits):
        return Step(state, StepReason.TOO_SOON)
    counted = _counted(state, observation, limits, now)
    row = next(row for row in rows if _applies(row, state, counted, observation.severity, limits))
    if row.reason is StepReason.STEADY:
        return Step(counted, row.reason)
    if observation.verdict is Verdict.PASS:
        severity, cause = state.severity, state.cause
    else:
        severity, cause = _severity_of(row, state, observation), _cause_of(row, state)
    count = _flaps(counted, limits) if row.reason is StepReason.FLAPPING else counted.count
    moved = replace(counted, phase=row.to, severity=severity, cause=cause, count=count)
    if row.to is Phase.OK:
        # What was told is over: a new outage starts with a clean count, or its first miss would count twice.
        told = row.says is TransitionKind.RESOLVED
        moved = replace(
            moved, since=None, last_at=None, struck_at=None, count=0, cause=Cause.STRIKES, severity=Severity.INFO,
            recent=() if told else moved.recent,
        )  # fmt: skip
    said = None if row.says is None else Transition(kind=row.says, reason=row.reason, cause=cause, severity=severity)
    return Step(moved, row.reason, said)


def _aged(state: TrackState, limits: Thresholds, now: float) -> Step:
    """One step by time alone: an occurrence that was not seen for long enough has gone quiet."""
    if state.nature is not Nature.OCCURRENCE or not state.is_open or state.last_at is None:
        return Step(state, StepReason.STEADY)
    if state.last_at > now:
        # The wall clock was set back: count the quiet time from now, or it would last for the whole step.
        return Step(replace(state, last_at=now), StepReason.STEADY)
    if now - state.last_at < limits.occurrence_quiet_s:
        return Step(state, StepReason.STEADY)
    said = Transition(
        kind=TransitionKind.EXPIRED, reason=StepReason.WENT_QUIET, cause=state.cause, severity=state.severity
    )
    return Step(TrackState(nature=Nature.OCCURRENCE), StepReason.WENT_QUIET, said)


def step(state: TrackState, observation: Observation | None, thresholds: Thresholds, now: float) -> Step:
    """One step of tracking: the new state, the named reason, and the transition if there is something to say.

    Without an observation only time passes. `now` is in Unix seconds.
    """
    if observation is None:
        return _aged(state, thresholds, now)
    if observation.verdict is Verdict.UNKNOWN:
        return Step(replace(state, unknowns=state.unknowns + 1), StepReason.COULD_NOT_TELL)
    return _observed(state, observation, thresholds, now)


def corroborated(state: TrackState, seen: Observation, now: float) -> Step:
    """The step that makes a page of a key at once: two independent signs say the same (docs/decisions/0013)."""
    opens = not state.is_open
    begins = state.phase is Phase.OK
    moved = replace(
        state,
        phase=Phase.FIRING,
        nature=seen.nature,
        severity=Severity.PAGE,
        cause=Cause.SIGNS if opens else state.cause,
        since=seen.at if begins else state.since,
        last_at=now,
        count=seen.count if begins else state.count,
        passes=0,
    )
    kind = TransitionKind.OPENED if opens else TransitionKind.ESCALATED
    said = Transition(kind=kind, reason=StepReason.CORROBORATED, cause=moved.cause, severity=Severity.PAGE)
    return Step(moved, StepReason.CORROBORATED, said)


def retired(state: TrackState, reason: StepReason = StepReason.NOT_WATCHED_ANY_MORE) -> Step:
    """The step that closes what nobody watches any more: its target left the configuration, or its seat."""
    if not state.is_open:
        return Step(TrackState(nature=state.nature), reason)
    kind = TransitionKind.EXPIRED if state.nature is Nature.OCCURRENCE else TransitionKind.RESOLVED
    said = Transition(kind=kind, reason=reason, cause=state.cause, severity=state.severity)
    return Step(TrackState(nature=state.nature), reason, said)
