"""What becomes of the next row of a receiver's outbox: send it, wait, drop it, or give it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchdog.model import NotificationKind, Severity

LONGEST_PAUSE_S = 900.0
"""A row that its receiver refuses is tried at least so often."""
_LONGEST_REST_S = 25.0
"""A receiver that works again has everything within a minute: no row rests longer than twice this and a fifth."""
_STRICT_ATTEMPTS = 4
"""So often the first row is tried before the rows behind it get a turn in between."""
_PERMANENT_ATTEMPTS = 12
_FEWEST_ATTEMPTS = 10
"""A row is given up only after this many attempts, so a wall clock that jumps ahead gives nothing up."""


class QueueDecision(StrEnum):
    """What to do with a row, and why."""

    SEND = "send"
    NOT_DUE = "not_due"
    BEHIND_ANOTHER = "behind_another"
    SUPERSEDED = "superseded"
    TRIGGER_NEVER_ARRIVED = "trigger_never_arrived"
    GROUP_STILL_OPEN = "group_still_open"
    GAVE_UP = "gave_up"

    @property
    def drops(self) -> bool:
        """Whether the row leaves the queue without being sent or given up."""
        return self in (
            QueueDecision.SUPERSEDED,
            QueueDecision.TRIGGER_NEVER_ARRIVED,
            QueueDecision.GROUP_STILL_OPEN,
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """One undelivered row of one receiver: what is needed to decide what becomes of it.

    `topic` is what it may be grouped by ("": nothing), `group_id` the group it was sent in before, if any; `home` is
    the key under which its receiver was told of its incident first, "" while it was not.
    """

    row: int
    incident_id: str
    kind: NotificationKind
    created_at: float
    attempt: int
    due_at: float
    severity: Severity = Severity.PAGE
    topic: str = ""
    group_id: str = ""
    home: str = ""


def queue_decision(
    waiting: Waiting,
    siblings: Sequence[Waiting],
    triggered: int | None,
    now: float,
    expire_s: float,
    *,
    group_open: bool = False,
) -> QueueDecision:
    """What becomes of `waiting`; `siblings` are the undelivered rows of its incident for its receiver, itself included.

    `triggered` is the newest row there was when a trigger of its incident was delivered to this receiver, None if none
    was yet (a row, not a time: the wall clock may be set back).
    `group_open`: the receiver knows the incident only as part of a group that has others without an end.
    An end never overtakes its trigger and is not owed if no trigger arrived; a reminder that something newer follows,
    or that is older than the trigger's arrival, says nothing any more. Triggers and owed ends are never dropped.
    """
    silent = _says_nothing(waiting, siblings, triggered)
    if silent is not None:
        return silent
    if any(other.row < waiting.row for other in siblings):
        return QueueDecision.BEHIND_ANOTHER
    if waiting.kind.is_end and group_open:
        return QueueDecision.GROUP_STILL_OPEN
    if now - waiting.created_at > expire_s and waiting.attempt >= _FEWEST_ATTEMPTS:
        return QueueDecision.GAVE_UP
    # What was never tried is due, and a due time further ahead than any pause is left from before the wall clock was
    # set back.
    if waiting.attempt > 0 and now < waiting.due_at <= now + LONGEST_PAUSE_S:
        return QueueDecision.NOT_DUE
    return QueueDecision.SEND


def _says_nothing(waiting: Waiting, siblings: Sequence[Waiting], triggered: int | None) -> QueueDecision | None:
    """Why a row says nothing any more, or None."""
    if waiting.kind is NotificationKind.STILL_FIRING:
        late = triggered is not None and triggered >= waiting.row
        if late or any(other.row > waiting.row for other in siblings):
            return QueueDecision.SUPERSEDED
    ahead = any(other.row < waiting.row for other in siblings)
    if waiting.kind.is_end and triggered is None and not ahead:
        return QueueDecision.TRIGGER_NEVER_ARRIVED
    return None


def pause_s(failures: int, chance: float) -> float:
    """How long a receiver rests after `failures` in a row: 1, 2, 4 … seconds up to 25, give or take a fifth.

    `chance` is 0 to 1: several receivers behind one dead network shall not come back in step.
    """
    plain = min(_LONGEST_REST_S, 2.0 ** min(max(0, failures - 1), 20))
    return plain * (0.8 + 0.4 * chance)


def refused_row_pause_s(attempt: int, chance: float) -> float:
    """How long a row rests that its receiver has refused `attempt` times: 1, 2, 4 … seconds up to 15 minutes."""
    return min(LONGEST_PAUSE_S, 2.0 ** min(max(0, attempt - 1), 20) * (0.8 + 0.4 * chance))


def permanent_row_pause_s(attempt: int, chance: float) -> float | None:
    """How long a row rests that its receiver will never take as it is; None: it is not tried again.

    It is tried for about two hours: the token or topic may be put right meanwhile.
    """
    if attempt >= _PERMANENT_ATTEMPTS:
        return None
    return min(LONGEST_PAUSE_S, 60.0 * 2.0 ** min(attempt - 1, 10) * (0.8 + 0.4 * chance))


def row_pause_s(attempt: int, pause: float) -> float:
    """How long one row rests after its `attempt` failed and its receiver rests for `pause` seconds.

    The first row blocks those behind it at first (order); later it rests twice as long as the receiver, so every
    second try goes to a row behind it: a message that its receiver always refuses must not block all others.
    """
    return pause if attempt < _STRICT_ATTEMPTS else min(LONGEST_PAUSE_S, 2 * pause)
