"""The words of this program as frozen types. No behaviour beyond comparing and naming.

Times are Unix seconds (float), durations are seconds; both say so in their names (`…_at`, `…_s`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Any, Protocol

Json = Any
"""A JSON value: what survives `json.loads(json.dumps(value))` unchanged."""


class Verdict(StrEnum):
    """What one run of a check means. `UNKNOWN` (we could not tell) never moves a target's counters."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How loudly something may speak."""

    INFO = "info"
    WARN = "warn"
    PAGE = "page"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warn, 2 for page: compare severities by this, never by their text."""
        return ("info", "warn", "page").index(self.value)


class Nature(StrEnum):
    """`CONDITION` has an opposite and resolves; `OCCURRENCE` happened, folds repeats, and goes quiet."""

    CONDITION = "condition"
    OCCURRENCE = "occurrence"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact behind a verdict: when (None = over the whole run), who said it, and what."""

    at: float | None
    source: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One dated fact from one run of a check.

    `key` is the stable identity of what is observed, `kind/target[/subject…]`, for example `generation/deepseek`
    or `kernel_log/worker/pcie.aer.fatal/0000:01:00.0`. `severity` is what an incident opened by it would have.
    `labels` names what it concerns (`server`, `host`, `kind`, `device`), for routing and silences.
    `count` is how many occurrences it folds; 1 for a condition.
    """

    key: str
    verdict: Verdict
    reason: str
    severity: Severity
    summary: str
    at: float
    duration_s: float = 0.0
    nature: Nature = Nature.CONDITION
    evidence: tuple[Evidence, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    measurements: Mapping[str, float] = field(default_factory=dict)
    count: int = 1
    advice: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one run of a check gives: observations, and what the check wants to remember.

    `memory` replaces the check's stored memory in the same transaction as the observations' consequences, so a
    cursor never moves past a line whose alert was not queued (design §2, invariants 3 and 4). None keeps the old.
    """

    observations: tuple[Observation, ...]
    memory: Json | None = None


class Check(Protocol):
    """Something that looks at a target. It never alerts; it only observes."""

    @property
    def key(self) -> str:
        """The key of its main observation."""
        ...

    @property
    def interval_s(self) -> float:
        """Seconds from one start to the next."""
        ...

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        """Look once. `memory` is what the last committed run remembered, `now` the wall time in Unix seconds."""
        ...


class Phase(StrEnum):
    """Where the tracking of one key stands. An occurrence knows only `OK` and `FIRING`."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"


class Cause(StrEnum):
    """Why an incident is open: enough failures in a row, too many of the last few, or something that happened."""

    STRIKES = "strikes"
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
    GOOD_SIGN = "good_sign"
    NOT_CALM_YET = "not_calm_yet"
    RELAPSED = "relapsed"
    RECOVERED = "recovered"
    FIRST_SIGHT = "first_sight"
    SEEN_AGAIN = "seen_again"
    WENT_QUIET = "went_quiet"
    COULD_NOT_TELL = "could_not_tell"
    NOT_WATCHED_ANY_MORE = "not_watched_any_more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """How many failures open an incident, how many passes close it, what flapping is, when an occurrence is over."""

    failures: int = 3
    successes: int = 2
    flap_window: int = 10
    flap_failures: int = 5
    occurrence_quiet_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackState:
    """All that must survive a restart about one key.

    `fails`, `passes` and `unknowns` count in a row; `recent` holds the last verdicts that count, oldest first, True for
    a pass. `since` is when the trouble began (its first failure), `last_at` when it was last seen. `count` is how many
    failures or occurrences the trouble has so far. `severity` and `cause` only matter while an incident is open.
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

    @property
    def is_open(self) -> bool:
        """Whether an incident is open in this state."""
        return self.phase in (Phase.FIRING, Phase.RECOVERING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Something to say: what happened to the incident, why, and how severe it is now."""

    kind: TransitionKind
    reason: StepReason
    cause: Cause
    severity: Severity


class IncidentStatus(StrEnum):
    """`FIRING` is open; `RESOLVED` ended with proof; `EXPIRED` went quiet, which proves nothing."""

    FIRING = "firing"
    RESOLVED = "resolved"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Told:
    """What one receiver was last told about an incident (queued counts as told).

    `severity` is the loudest so far, `at` the time of the last message, `count` the incident's count then.
    """

    severity: Severity
    at: float
    reminders: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble from its trigger to its end, under one id.

    `since` is the first failure, `opened_at` the trigger, `closed_at` the end (None while open), `last_at` when it was
    last seen. `told` says per receiver what has been queued for it. `end_reason` says why it closed.
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
    told: Mapping[str, Told] = field(default_factory=dict)
    acknowledged_at: float | None = None


class NotificationKind(StrEnum):
    """What a message says, and the word its title starts with (design §6)."""

    FIRING = "FIRING"
    STILL_FIRING = "STILL FIRING"
    RESOLVED = "RESOLVED"
    NEW = "NEW"
    QUIET = "QUIET"

    @property
    def is_trigger(self) -> bool:
        """Whether it opens or raises something for its receiver: never dropped, sent before everything after it."""
        return self in (NotificationKind.FIRING, NotificationKind.NEW)

    @property
    def is_end(self) -> bool:
        """Whether it closes what a trigger opened."""
        return self in (NotificationKind.RESOLVED, NotificationKind.QUIET)


@dataclass(frozen=True, slots=True)
class Notification:
    """One message owed to one receiver; it becomes one row of the outbox."""

    incident_id: str
    receiver: str
    kind: NotificationKind
    severity: Severity


@dataclass(frozen=True, slots=True)
class Text:
    """A message as a person reads it, without its last line (which is known only when it is sent)."""

    title: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Keeps quiet about what matches, until `ends_at`. `matcher` maps label names to a value, or a prefix and `*`.

    It never hides the end of something its receiver was told about.
    """

    id: str
    matcher: Mapping[str, str]
    starts_at: float
    ends_at: float
    reason: str
    author: str = ""


class Weekday(StrEnum):
    """A day of the week, as a configuration names it."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"

    @property
    def number(self) -> int:
        """0 for Monday to 6 for Sunday."""
        return list(Weekday).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A window that comes back every week in a stated time zone, or one that comes `once`.

    `days` are 0 (Monday) to 6. A start that the clock skips in spring begins when the clock has jumped; one that comes
    twice in autumn begins the first time. The window always lasts `duration_s` of real time. `once` is begin and end in
    Unix seconds; the weekly fields mean nothing then.
    """

    name: str
    matcher: Mapping[str, str]
    days: tuple[int, ...] = ()
    start_hour: int = 0
    start_minute: int = 0
    duration_s: float = 0.0
    zone: tzinfo = UTC
    once: tuple[float, float] | None = None


class DeliveryState(StrEnum):
    """Where one outbox row stands."""

    QUEUED = "queued"
    LEASED = "leased"
    DELIVERED = "delivered"
    DEAD = "dead"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outbox row on its way: what to send to whom, and how often that was tried (this time included).

    `incident` is the incident as it is stored now (None for a test alert); `severity` is that of the message.
    """

    row: int
    receiver: str
    incident_id: str
    kind: NotificationKind
    severity: Severity
    title: str
    body: str
    created_at: float
    attempt: int
    incident: Incident | None = None


class OutcomeReason(StrEnum):
    """What became of one attempt to deliver."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    STUCK = "stuck"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one attempt: `detail` is plain text without secrets, for the status and the log."""

    reason: OutcomeReason
    detail: str = ""
    duration_s: float = 0.0

    @property
    def delivered(self) -> bool:
        """Whether the receiver accepted the message."""
        return self.reason is OutcomeReason.DELIVERED
