"""Who is notified of what: notifications, texts, deliveries and what became of them; and when nothing new is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import StrEnum

from watchdog.model.incident import Incident
from watchdog.model.observation import Severity


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


class DeliveryState(StrEnum):
    QUEUED = "queued"
    LEASED = "leased"
    DELIVERED = "delivered"
    DEAD = "dead"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outbox row on its way: what to send to whom, and how often that was tried (this time included).

    `incident` is the incident as it is stored now (None for a test alert); `severity` is that of the message.
    A message about several incidents is the delivery of its first row, with all of its rows as `members` (empty for a
    message about one) and the `group_id` they have in common.
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
    group_id: str = ""
    members: tuple[Delivery, ...] = ()

    @property
    def key(self) -> str:
        """Under which id the receiver knows what this message is about: of its incident, or of the group."""
        return self.group_id or self.incident_id

    @property
    def each(self) -> tuple[Delivery, ...]:
        """Every row that this message carries."""
        return self.members or (self,)


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
    answered: bool = False
    """Not delivered, but the receiver is there: it refused this one message."""
    permanent: bool = False
    """The receiver will never take this message as it is."""
    retry_after_s: float = 0.0
    """How long the receiver asks us to wait before the next message; 0: it does not."""
    receipt: str = ""
    """What the service handed us for a page that waits to be acknowledged there; "": nothing."""

    @property
    def delivered(self) -> bool:
        return self.reason is OutcomeReason.DELIVERED


# When nothing new is told.


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


def matches_value(wanted: str, value: str) -> bool:
    """Whether `wanted`, a value or a prefix followed by `*`, stands for `value`."""
    return value.startswith(wanted[:-1]) if wanted.endswith("*") else value == wanted


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
        """0 for Monday to 6 for Sunday, as `datetime.weekday`."""
        return list(Weekday).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A window that comes back every week in a stated time zone, or one that comes `once`.

    `days` are 0 (Monday) to 6, `start` is hour and minute. A start that the clock skips in spring begins when the clock
    has jumped; one that comes twice in autumn begins the first time. The window always lasts `duration_s` of real time.
    `once` is begin and end in Unix seconds; the weekly fields mean nothing then.
    """

    name: str
    matcher: Mapping[str, str] = field(metadata={"json": "match"})
    days: tuple[int, ...] = ()
    start: tuple[int, int] = (0, 0)
    duration_s: float = 0.0
    zone: tzinfo = field(default=UTC, metadata={"json": "time_zone"})
    once: tuple[float, float] | None = None
