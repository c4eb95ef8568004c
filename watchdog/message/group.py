"""One message about several incidents: how many, which, and a line for each as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from watchdog.kinds import kind_of
from watchdog.message.render import BODY_LIMIT, LATE_S, TITLE_LIMIT, subject_of
from watchdog.model import Delivery, Incident, Nature, NotificationKind, Severity, Text
from watchdog.text import clean_block, clean_line, duration, shortened, timestamp

_LINE = 150
_REST = 200
"""Characters kept free for the line that names those without one of their own."""


def finish_group(delivery: Delivery, *, now: float, zone: tzinfo | None) -> Text:
    """The text of a message that carries several rows, as it leaves now; its last line names the group."""
    members = delivery.members
    severity = max((member.severity for member in members), key=lambda one: one.rank)
    last = f"incidents {delivery.group_id} · attempt {delivery.attempt}"
    late = now - delivery.created_at
    head = [
        *(
            [f"delivered {duration(late)} late: written at {timestamp(delivery.created_at, now, zone)}"]
            if late >= LATE_S
            else []
        ),
        f"{_what(members, delivery.kind)}; each is an incident of its own",
    ]
    waits = severity is Severity.PAGE and not delivery.kind.is_end
    foot = [
        str(severity),
        *([f"acknowledge all: inference-watchdog ack {delivery.group_id}"] if waits else []),
        last,
    ]
    room = BODY_LIMIT - len("\n".join([*head, *foot])) - 2
    body = clean_block("\n".join([*head, *_list(members, room), *foot]))
    return Text(shortened(clean_line(_title(members, delivery.kind)), TITLE_LIMIT), body)


def _title(members: Sequence[Delivery], kind: NotificationKind) -> str:
    """`FIRING 38 servers, no text: alpha, beta and 36 more`."""
    start = f"{kind} {_what(members, kind)}: "
    return start + _names(members, TITLE_LIMIT - len(start))


def _what(members: Sequence[Delivery], kind: NotificationKind) -> str:
    """How many of what: servers, hosts, findings on a host, incidents."""
    count, first = len(members), members[0].incident
    if first is None:
        return f"{count} incidents"
    check = kind_of(first.key)
    if first.nature is Nature.OCCURRENCE and first.labels.get("host"):
        quiet = ", no more of them" if kind is NotificationKind.QUIET else ""
        return f"{count} findings on {clean_line(first.labels['host'])}{quiet}"
    if check is None:
        return f"{count} incidents"
    still = check.asks_for_text and not kind.is_end
    return f"{count} {check.label}s" + (", no text" if still else "")


def _name(member: Delivery) -> str:
    incident = member.incident
    if incident is None:
        return member.incident_id
    if incident.nature is Nature.OCCURRENCE and incident.labels.get("kind"):
        device = incident.labels.get("device", "")
        return clean_line(incident.labels["kind"] + (f" on {device}" if device[:1].isalnum() else ""))
    return shortened(clean_line(subject_of(incident)), 40)


def _names(members: Sequence[Delivery], room: int) -> str:
    """As many names as fit into `room` characters, and how many more there are."""
    names = list(dict.fromkeys(map(_name, members)))
    for count in range(len(names), 0, -1):
        more = len(members) - count
        text = ", ".join(names[:count]) + (f" and {more} more" if more else "")
        if len(text) <= room:
            return text
    return f"{len(members)} of them" if room > 0 else ""


def _list(members: Sequence[Delivery], room: int) -> list[str]:
    """One line for each member, then one that names the rest."""
    lines: list[str] = []
    for number, member in enumerate(members):
        line = f"- {shortened(_said(member), _LINE)} ({member.incident_id})"
        left = room - sum(len(one) + 1 for one in lines) - len(line)
        is_last = number == len(members) - 1
        if left < (0 if is_last else _REST):
            rest = members[number:]
            return [*lines, f"- and {len(rest)} more: {_names(rest, _REST - 30)}"]
        lines.append(line)
    return lines


def _said(member: Delivery) -> str:
    """The title as it was written for this incident alone, without the word that all have in common."""
    said = clean_line(member.title.removeprefix(f"{member.kind} "))
    return f"{said} (over already)" if not member.kind.is_end and _is_over(member.incident) else said


def _is_over(incident: Incident | None) -> bool:
    return incident is not None and incident.closed_at is not None
