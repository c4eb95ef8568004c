"""One notification as title and body (design §6): the most useful words first, limits kept, nothing to act on a screen.

The last line, `incident <id> · attempt <n>`, and a word about lateness are added by `finish` when it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from watchdog.message.clean import clean_block, clean_line, shortened
from watchdog.message.redaction import Redactor
from watchdog.model import (
    Cause,
    Delivery,
    Evidence,
    Incident,
    Nature,
    NotificationKind,
    StepReason,
    Text,
)
from watchdog.quantity import span

TITLE_LIMIT = 80
BODY_LIMIT = 1500
_LAST_LINES = 220
"""Characters kept free in a rendered body for the lines that `finish` adds."""
_EVIDENCE_LINES = 10
_EVIDENCE_WIDTH = 200
_LATE_S = 60.0
"""A message that leaves this long after it was written says so."""

_LOOK_AT: Mapping[str, str] = {
    "generation": "the log of the server process, and GPU use and power on its hosts",
    "progress": "the server's running requests, and GPU use and power on its hosts",
    "kernel_log": "the kernel log of {host} (journalctl -k, dmesg), also of the boot before",
    "vitals": "memory, GPU and uptime of {host}",
    "self": "`inference-watchdog status` and the log of inference-watchdog itself",
}


def _local(at: float, zone: tzinfo | None) -> datetime:
    """`at` in `zone`; None is the machine's own zone."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone)


def _moment(at: float, now: float, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """`at` as local time with its zone; the date only if it is not today's."""
    local = _local(at, zone)
    clock = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    day = "" if local.date() == _local(now, zone).date() else local.strftime("%Y-%m-%d ")
    return f"{day}{clock} {local.strftime('%Z')}"


def subject_of(incident: Incident) -> str:
    """Who it is about, in one word: the server, else the host, else the receiver, else the key."""
    labels = incident.labels
    return labels.get("server") or labels.get("host") or labels.get("receiver") or incident.key


def _headline(incident: Incident, kind: NotificationKind, now: float) -> str:
    """The words after the kind: who, what, and how long, in an order that survives a cut."""
    subject = clean_line(subject_of(incident))
    summary = clean_line(incident.summary)
    if incident.cause is Cause.FLAPPING and not kind.is_end:
        summary = f"{subject}: comes and goes, {summary.removeprefix(f'{subject}: ')}"
    elif not summary.lower().startswith(subject.lower()):
        summary = f"{subject}: {summary}"
    lasted = span(now - incident.since)
    if kind is NotificationKind.RESOLVED:
        gone = incident.end_reason is StepReason.NOT_WATCHED_ANY_MORE
        return (
            f"{subject}: no longer watched, was failing for {lasted}"
            if gone
            else f"{subject}: well again after {lasted}"
        )
    if kind is NotificationKind.QUIET:
        seen = "1 line" if incident.count == 1 else f"{incident.count} times"
        what = incident.labels.get("kind") or incident.reason
        return f"{subject}: no more {clean_line(what)} for {span(now - incident.last_at)} ({seen} in all)"
    if kind is NotificationKind.STILL_FIRING:
        return f"{lasted}: {summary}"
    timed = f"{summary} ({lasted})"
    worth = incident.nature is Nature.CONDITION and now - incident.since >= 60
    return timed if worth and len(f"{kind} {timed}") <= TITLE_LIMIT else summary


def _class(incident: Incident) -> str:
    """The severity, and what it was before it was raised."""
    raised = incident.severity is not incident.opened_severity
    return f"{incident.severity} (was {incident.opened_severity})" if raised else str(incident.severity)


def _counted(incident: Incident, now: float, zone: tzinfo | None) -> list[str]:
    """The lines that say since when, how often, and when it last was well."""
    since = f"since {_moment(incident.since, now, zone)}"
    if incident.closed_at is None:
        since += f" ({span(now - incident.since)})"
    else:
        since = f"from {_moment(incident.since, now, zone)} to {_moment(incident.closed_at, now, zone)}"
        since += f" ({span(incident.closed_at - incident.since)})"
    if incident.nature is Nature.OCCURRENCE:
        counted = f"seen {incident.count} time{'s' if incident.count != 1 else ''}"
        return [f"{since}, {counted}, last {_moment(incident.last_at, now, zone)}"]
    how = "comes and goes, " if incident.cause is Cause.FLAPPING else ""
    what = "blind" if incident.key.startswith("self/blind/") else "failed"
    counted = f"{how}{incident.count} {what} check{'s' if incident.count != 1 else ''}"
    if incident.last_good_at is None:
        return [f"{since}, {counted}"]
    return [f"{since}, {counted}", f"last good: {_moment(incident.last_good_at, now, zone)}"]


def _evidence(evidence: tuple[Evidence, ...], now: float, zone: tzinfo | None) -> list[str]:
    """Evidence lines in time order (what has no time of its own first); the middle is left out when there are many."""
    ordered = sorted(evidence, key=lambda fact: -1.0 if fact.at is None else fact.at)
    lines = []
    for fact in ordered:
        when = "" if fact.at is None else f"{_moment(fact.at, now, zone, seconds=True)} "
        lines.append(shortened(clean_line(f"- {when}{fact.source}: {fact.text}"), _EVIDENCE_WIDTH))
    if len(lines) > _EVIDENCE_LINES:
        head = _EVIDENCE_LINES // 2
        left_out = len(lines) - 2 * head
        lines = [*lines[:head], f"- … {left_out} more …", *lines[-head:]]
    return lines


def _what_next(incident: Incident) -> list[str]:
    """The lines about the likely cause and about where to look."""
    kind = incident.key.partition("/")[0]
    look = _LOOK_AT.get(kind, "").format(host=incident.labels.get("host", "the host"))
    advice = shortened(clean_line(incident.advice), 400)
    return [*([f"likely: {advice}"] if advice else []), *([f"look at: {clean_line(look)}"] if look else [])]


def render(
    incident: Incident, kind: NotificationKind, *, now: float, zone: tzinfo | None, redactor: Redactor | None = None
) -> Text:
    """`incident` as the message of `kind`, written at `now` (Unix seconds), times in `zone` (None: the machine's).

    The title has at most 80 characters; the body leaves room for what `finish` adds within 1,500.
    """
    hide = redactor or Redactor(())
    title = shortened(hide(f"{kind} {_headline(incident, kind, now)}"), TITLE_LIMIT)
    first = [
        shortened(hide(("was: " if kind.is_end else "") + clean_line(incident.summary)), 400),
        hide(clean_line(f"{_class(incident)} · {incident.key} · {incident.reason}")),
        *_counted(incident, now, zone),
    ]
    last = [] if kind.is_end else [hide(line) for line in _what_next(incident)]
    room = BODY_LIMIT - _LAST_LINES - len("\n".join([*first, *last])) - 2
    facts = [] if kind.is_end else [hide(line) for line in _evidence(incident.evidence, now, zone)]
    while facts and len("\n".join(facts)) > room:
        facts.pop(len(facts) // 2)
    body = shortened("\n".join([*first, *facts, *last]), BODY_LIMIT - _LAST_LINES)
    return Text(title, body)


def _lateness(delivery: Delivery, ended_at: float | None, now: float, zone: tzinfo | None) -> str:
    """One line about a message that leaves late; what it tells of may be over already."""
    late = f"delivered {span(now - delivery.created_at)} late"
    incident = delivery.incident
    if delivery.kind.is_trigger and incident is not None and ended_at is not None:
        lasted = f"{_moment(incident.since, now, zone)} to {_moment(ended_at, now, zone)}"
        return f"it is over already: from {lasted}; {late}"
    return f"{late}: written at {_moment(delivery.created_at, now, zone)}"


def finish(delivery: Delivery, *, now: float, zone: tzinfo | None, ended_at: float | None = None) -> Text:
    """The text that leaves now: lateness first if there is any, and the last line `incident <id> · attempt <n>`.

    `ended_at` is when the incident ended, if its end is already queued behind this message.
    """
    last = f"incident {delivery.incident_id} · attempt {delivery.attempt}"
    late = _lateness(delivery, ended_at, now, zone) if now - delivery.created_at >= _LATE_S else ""
    body = clean_block(delivery.body)
    room = BODY_LIMIT - len(last) - 1 - (len(late) + 1 if late else 0)
    lines = [*([late] if late else []), shortened(body, room), last]
    return Text(shortened(clean_line(delivery.title), TITLE_LIMIT), "\n".join(lines))
