"""Who is notified of what: notifications, texts, deliveries and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
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
