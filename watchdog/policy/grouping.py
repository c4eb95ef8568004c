"""Which notifications of one receiver leave as one message, and how long one waits for others.

Grouping is a matter of sending alone: every incident keeps its own rows of the outbox, and is opened, acknowledged and
closed by itself. The first of a kind leaves at once; what follows within a few seconds is sent together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import StrEnum

from watchdog.policy.retry import Waiting

GATHER_S = 8.0
"""How long a notification waits for others of its kind after one was sent. With the sending itself: within 10 s."""
_SUFFIX = "-all"
"""Ends the id of a group, so that it is never an incident's."""


class Grouping(StrEnum):
    """What a receiver makes of several incidents in one message."""

    NONE = "none"
    """It groups by itself."""
    LISTED = "listed"
    """A person reads the list."""
    KEYED = "keyed"
    """It keeps one incident for each key: opened once, closed when all of the group are over."""


def topic_of(key: str) -> str:
    """What incidents of `key` are grouped by: the kind of check; for what was found on a host, that host as well.

    So a host that floods us hides nothing but its own findings.
    """
    parts = key.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def group_id(lead: str) -> str:
    """The id of the group whose first incident is `lead`: a key for services that keep incidents, and for `ack`."""
    return lead + _SUFFIX


def share_key(waiting: Waiting, grouping: Grouping) -> Hashable | None:
    """Rows with the same key may leave as one message; None: this one leaves alone.

    What was tried once is tried again as it was: a receiver that has it already must know it again.
    """
    if grouping is Grouping.NONE or not waiting.topic:
        return None
    if waiting.group_id:
        return ("again", waiting.group_id, waiting.kind)
    if waiting.attempt:
        return None
    if grouping is Grouping.KEYED and waiting.home:
        return ("home", waiting.home, waiting.kind)
    return ("new", waiting.topic, waiting.kind, waiting.severity)


def held_until(waiting: Waiting, sent_at: float | None, grouping: Grouping, now: float) -> float | None:
    """Until when `waiting` waits for others, None if it may leave now.

    `sent_at` is when the last message with its share key left. Only that holds it back: neither another topic nor a
    lower severity ever delays a page. Times are Unix seconds; a clock that was set back holds nothing.
    """
    if sent_at is None or waiting.attempt or (grouping is Grouping.KEYED and waiting.home):
        return None
    until = min(sent_at, waiting.created_at) + GATHER_S
    return until if sent_at <= now < until else None


def sent_together(first: Waiting, ready: Iterable[Waiting], grouping: Grouping) -> tuple[Waiting, ...]:
    """`first` and those of `ready` that leave with it, in their order."""
    key = share_key(first, grouping)
    if key is None:
        return (first,)
    return tuple(one for one in ready if one is first or share_key(one, grouping) == key)
