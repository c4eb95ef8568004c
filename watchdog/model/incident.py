"""What the tracker keeps: states, transitions, incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from watchdog.model.observation import Evidence, LastSeen, Nature, Severity, phrase_of, statement_of

# What most likely lies behind an incident, in words.


class Confidence(StrEnum):
    """How far the evidence goes. Nothing is ever called certain."""

    LIKELY = "likely"
    CANNOT_TELL = "cannot tell"


def dated_anew(at: float | None, step_s: float, set_at: float) -> float | None:
    """`at` by a clock that was set by `step_s` when it said `set_at`; a later time was not taken from it."""
    return at + step_s if at is not None and at <= set_at else at


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The signature that fits: its `name`, a few words for a title (`short`), one plain sentence, and what it rests on.

    `evidence` is what came from elsewhere than the failing check (hosts, kernel lines); `look_at` is what to look at.
    """

    name: str
    confidence: Confidence
    short: str
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    look_at: str = ""


class Phase(StrEnum):
    """Where the tracking of one key stands. An occurrence knows only `OK` and `FIRING`."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"


class Cause(StrEnum):
    """Why an incident is open: enough failures in a row, too many of the last few, two independent signs at once, or
    something that happened.
    """

    STRIKES = "strikes"
    SIGNS = "signs"
    FLAPPING = "flapping"
    OCCURRENCE = "occurrence"


class TransitionKind(StrEnum):
    """What a step of the tracker may have to say."""

    OPENED = "opened"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    EXPIRED = "expired"


class StepReason(StrEnum):
    """Why one step of the tracker did what it did. Logged, shown and tested under this name."""

    STEADY = "steady"
    STRIKE = "strike"
    STRIKES_REACHED = "strikes_reached"
    STRIKES_CLEARED = "strikes_cleared"
    FLAPPING = "flapping"
    STILL_FAILING = "still_failing"
    DOWN_FOR_GOOD = "down_for_good"
    LOUDER = "louder"
    CORROBORATED = "corroborated"
    GOOD_SIGN = "good_sign"
    NOT_CALM_YET = "not_calm_yet"
    RELAPSED = "relapsed"
    RECOVERED = "recovered"
    FIRST_SEEN = "first_sight"
    SEEN_AGAIN = "seen_again"
    WENT_QUIET = "went_quiet"
    TOO_SOON = "too_soon"
    COULD_NOT_TELL = "could_not_tell"
    NOT_WATCHED_ANY_MORE = "not_watched_any_more"
    AWAY = "away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """How many failures open an incident, how many passes close it, what flapping is, when an occurrence is over.

    `strike_gap_s` is the least time from the start of one run that counts as a failure to the next such start, while
    no incident is open: a daemon that is restarted three times within seconds has not seen three failures.
    """

    failures: int = 3
    successes: int = 2
    flap_window: int = 10
    flap_failures: int = 5
    occurrence_quiet_s: float = 3600.0
    strike_gap_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackState:
    """All that must survive a restart about one key.

    `fails`, `passes` and `unknowns` count in a row; `recent` holds the last verdicts that count, oldest first, True for
    a pass. `since` is when the trouble began (its first failure), `last_at` when it was last seen, `failing_since` the
    first of the `fails` in a row. `count` is how many failures or occurrences the trouble has so far. `severity` and
    `cause` only matter while an incident is open. `struck_at` is when the run began that counted last as a failure.
    """

    nature: Nature = Nature.CONDITION
    phase: Phase = Phase.OK
    fails: int = 0
    passes: int = 0
    unknowns: int = 0
    recent: tuple[bool, ...] = ()
    since: float | None = None
    last_at: float | None = None
    last_good_at: float | None = None
    count: int = 0
    severity: Severity = Severity.INFO
    cause: Cause = Cause.STRIKES
    struck_at: float | None = None
    failing_since: float | None = None

    @property
    def is_open(self) -> bool:
        return self.phase in (Phase.FIRING, Phase.RECOVERING)

    def dated_anew(self, step_s: float, set_at: float) -> TrackState:
        """The same by a clock that was set by `step_s` seconds when it said `set_at`."""
        names = ("since", "last_at", "last_good_at", "struck_at", "failing_since")
        times: dict[str, Any] = {name: dated_anew(getattr(self, name), step_s, set_at) for name in names}
        return replace(self, **times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Something to say: what happened to the incident, why, and how severe it is now."""

    kind: TransitionKind
    reason: StepReason
    cause: Cause
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class SignSeen:
    """One sign of trouble: which (a row of `policy.SIGNS`), about whom, from when until when, in words and in a few.

    `key` is that of the incident that it belongs to, or would belong to.
    """

    sign: str
    key: str
    about: str
    at: float
    until: float
    words: str
    short: str


class IncidentStatus(StrEnum):
    """`FIRING` is open; `RESOLVED` ended with proof; `EXPIRED` went quiet, which proves nothing."""

    FIRING = "firing"
    RESOLVED = "resolved"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Notified:
    """What one receiver was last sent about an incident (queued counts as sent).

    `severity` is the loudest so far, `at` the time of the last message, `count` the incident's count then.
    """

    severity: Severity
    at: float
    reminders: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble from its trigger to its end, under one id.

    `since` is the first failure, `opened_at` the trigger, `closed_at` the end (None while open), `last_at` when it
    was last seen. `notified` says per receiver what has been queued for it. `end_reason` says why it closed.
    `diagnosis` is the newest, None where nobody looks for a cause; `diagnosis_told` is that of the last message.
    `reasons` are those it had so far, one for each change, at most ten. `summary`, `subject`, `unit`, `at_least`,
    `detail` and `look_only` are those of `Observation`; `count` is the total. `failing_since` is
    the first failure since the last pass, None where only `since` is known. `related` are the ids of incidents of the
    same machine that were open with it, `signs` the independent signs that made a page of it, or joined it.
    `last_seen` are the last minutes of a host that is gone.
    """

    id: str
    key: str
    nature: Nature
    cause: Cause
    severity: Severity
    opened_severity: Severity
    reason: str
    summary: str
    since: float
    opened_at: float
    last_at: float
    status: IncidentStatus = IncidentStatus.FIRING
    closed_at: float | None = None
    end_reason: StepReason | None = None
    last_good_at: float | None = None
    count: int = 1
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    notified: Mapping[str, Notified] = field(default_factory=dict, metadata={"json": "told"})
    acknowledged_at: float | None = None
    diagnosis: Diagnosis | None = None
    diagnosis_told: Diagnosis | None = field(default=None, metadata={"sparse": True})
    reasons: tuple[str, ...] = ()
    subject: str = ""
    unit: str = ""
    at_least: bool = False
    detail: str = ""
    look_only: bool = False
    failing_since: float | None = field(default=None, metadata={"sparse": True})
    related: tuple[str, ...] = field(default=(), metadata={"sparse": True})
    signs: tuple[SignSeen, ...] = field(default=(), metadata={"sparse": True})
    last_seen: tuple[LastSeen, ...] = field(default=(), metadata={"sparse": True})

    def dated_anew(self, step_s: float, set_at: float) -> Incident:
        """The same by a clock that was set by `step_s` seconds when it said `set_at`."""
        names = ("since", "opened_at", "last_at", "last_good_at", "failing_since", "acknowledged_at")
        times: dict[str, Any] = {name: dated_anew(getattr(self, name), step_s, set_at) for name in names}
        for name in ("diagnosis", "diagnosis_told"):
            if (one := getattr(self, name)) is not None:
                times[name] = replace(one, evidence=_dated_anew(one.evidence, step_s, set_at))
        notified = {
            name: replace(told, at=dated_anew(told.at, step_s, set_at) or 0.0) for name, told in self.notified.items()
        }
        evidence = _dated_anew(self.evidence, step_s, set_at)
        return replace(self, **times, notified=notified, evidence=evidence)

    @property
    def phrase(self) -> str:
        """All that it says, without its subject."""
        return phrase_of(self.summary, self.count, self.unit, self.detail, at_least=self.at_least)

    @property
    def statement(self) -> str:
        """All that it says, as a person reads it on its own."""
        return statement_of(self.subject, self.phrase)


def _dated_anew(facts: tuple[Evidence, ...], step_s: float, set_at: float) -> tuple[Evidence, ...]:
    return tuple(replace(fact, at=dated_anew(fact.at, step_s, set_at)) for fact in facts)
