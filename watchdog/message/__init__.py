"""From an incident to the words a person reads on a locked phone at night: title and body, of one incident or of many.

The most useful words come first, limits are kept, nothing can act on a screen (design §6). Pure: text in, text out.

The last line, `incident <id> · attempt <n>`, and a word about lateness are added by `finish` when it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from watchdog.kinds import BLIND, SELF_LOOK_AT, kind_of, row_of
from watchdog.message.redaction import Redactor
from watchdog.model import (
    Cause,
    Delivery,
    Evidence,
    Incident,
    Nature,
    NotificationKind,
    Severity,
    StepReason,
    Text,
    statement_of,
)
from watchdog.text import clean_block, clean_line, duration, shortened, timestamp

# The two messages of a test alert: real enough to prove the way to the phone, plain enough to frighten nobody.


def test_alert_text(kind: NotificationKind, sent_from: str) -> Text:
    """The trigger or the end of a test alert, asked for on `sent_from` (a machine's name or the like)."""
    if kind.is_end:
        title = f"{kind} test alert from inference-watchdog: all is well"
        body = "This is the end of the test alert. If you read both, this receiver works."
    else:
        title = f"{kind} test alert from inference-watchdog: nothing is wrong"
        body = "Somebody asked for a test alert. It rings like a page, but nothing is wrong. Its end follows at once."
    return Text(title, f"{body}\nasked for on: {sent_from}" if sent_from else body)


# Evidence as lines: in time order, the same thing said again folded into its first line, the middle left out.

LINES = 10
WIDTH = 200
_FIGURES = re.compile(r"\d+(?:\.\d+)?")


@dataclass(slots=True)
class _Line:
    """A fact, how often it was said, and when last."""

    fact: Evidence
    text: str
    count: int = 1
    last_at: float | None = None


def proof_lines(evidence: Iterable[Evidence], said: str, now: float, zone: tzinfo | None) -> list[str]:
    """At most ten lines for `evidence`. What `said`, the words above them, holds already is left out.

    Facts of one source that differ only in their figures are one line, with their number and the time of the last.
    """
    lines: list[_Line] = []
    newest: dict[tuple[str, str], _Line] = {}
    ordered = sorted(evidence, key=lambda fact: -1.0 if fact.at is None else fact.at)
    for fact in ordered:
        source, text = clean_line(fact.source), clean_line(fact.text)
        if not text or text in said:
            continue
        pattern = (source, _FIGURES.sub("#", text))
        line = newest.get(pattern)
        if line is None:
            newest[pattern] = line = _Line(fact, f"{source}: {text}")
            lines.append(line)
        elif _is_collapsible(source):
            line.count, line.last_at = line.count + 1, fact.at
        elif fact != line.fact:
            lines.append(_Line(fact, f"{source}: {text}"))
    written = [_written(line, now, zone) for line in lines]
    if len(written) > LINES:
        head = LINES // 2
        written = [*written[:head], f"- … {len(written) - 2 * head} more …", *written[-head:]]
    return written


def _is_collapsible(source: str) -> bool:
    """Kernel lines are shown as they are: their figures are addresses and counters that a person wants to see."""
    return "kernel" not in source.split()


def _written(line: _Line, now: float, zone: tzinfo | None) -> str:
    when = "" if line.fact.at is None else f"{timestamp(line.fact.at, now, zone, seconds=True)} "
    again = ""
    if line.count > 1:
        last = "" if line.last_at is None else f", last {timestamp(line.last_at, now, zone, seconds=True)}"
        again = f" (×{line.count}{last})"
    return shortened(f"- {when}{line.text}", WIDTH - len(again)) + again


TITLE_LIMIT = 80
BODY_LIMIT = 1500
_LAST_LINES = 220
"""Characters kept free in a rendered body for the lines that `finish` adds."""
LATE_S = 60.0
"""A message that leaves this long after it was written says so."""


_ENDINGS: Mapping[StepReason | None, str] = {
    StepReason.NOT_WATCHED_ANY_MORE: "no longer watched, was failing for",
    StepReason.AWAY: "another server has its seat, was failing for",
}


def subject_of(incident: Incident) -> str:
    """Who it is about, in one word: whom the incident names, else the server, the host, the receiver, the key."""
    labels = incident.labels
    return incident.subject or labels.get("server") or labels.get("host") or labels.get("receiver") or incident.key


def _headline(incident: Incident, kind: NotificationKind, now: float) -> str:
    """The words after the kind: who, what, and how long, in an order that survives a cut."""
    subject = clean_line(subject_of(incident))
    lasted = duration(now - incident.since)
    if kind is NotificationKind.RESOLVED:
        return f"{subject}: {_ENDINGS.get(incident.end_reason, 'recovered after')} {lasted}"
    if kind is NotificationKind.QUIET:
        what, device = incident.labels.get("kind") or incident.reason, incident.labels.get("device", "")
        where = f" on {device}" if device[:1].isalnum() else ""  # neither none (-) nor (many)
        seen = "1 line" if incident.count == 1 and _is_seen(incident) else _times(incident)
        words = f"{subject}: no more {clean_line(what + where)} for {duration(now - incident.last_at)}"
        return f"{words} ({seen})" if len(f"{kind} {words} ({seen})") <= TITLE_LIMIT else words
    phrase = clean_line(incident.phrase)
    if incident.cause is Cause.FLAPPING:
        return f"{subject}: flapping, {_short(incident) or phrase}"
    summary = statement_of(subject, phrase)
    if short := _short(incident):
        return (
            f"{subject}: {_no_text(incident)} for {duration(now - _failing_since(incident))}: {short}"
            if _asks_for_text(incident)
            else f"{subject}: {short} ({lasted})"
        )
    if kind is NotificationKind.STILL_FIRING:
        return f"{lasted}: {summary}"
    timed = f"{summary} ({lasted})"
    worth = incident.nature is Nature.CONDITION and now - incident.since >= 60
    return timed if worth and len(f"{kind} {timed}") <= TITLE_LIMIT else summary


def _failing_since(incident: Incident) -> float:
    """The first failure since the last pass: text that came in between counts."""
    return incident.since if incident.failing_since is None else incident.failing_since


def _short(incident: Incident) -> str:
    """The signs or the diagnosis in a few words; "" without either."""
    if incident.signs:
        return clean_line(" and ".join(one.short for one in incident.signs))
    return "" if incident.diagnosis is None else clean_line(incident.diagnosis.short)


def _asks_for_text(incident: Incident) -> bool:
    kind = kind_of(incident.key)
    return kind is not None and kind.asks_for_text


def _no_text(incident: Incident) -> str:
    """What was missing: any text at all, or only the whole of a reply."""
    rows = [row_of(incident.key, reason) for reason in (*incident.reasons, incident.reason)]
    return "no whole reply" if any(row is not None and row.text_came for row in rows) else "no text"


def _class(incident: Incident) -> str:
    """Severity (and what it was before it was raised), key, and the reason where the key does not name it."""
    raised = incident.severity is not incident.opened_severity
    severity = f"{incident.severity} (was {incident.opened_severity})" if raised else str(incident.severity)
    named = incident.reason in incident.key.split("/")
    return f"{severity} · {incident.key}" + ("" if named else f" · {incident.reason}")


def _sentence(incident: Incident, now: float, zone: tzinfo | None) -> str:
    """What is wrong, for how long, how often it was seen, and when it last was well."""
    summary = shortened(clean_line(incident.statement), 300)
    if incident.nature is Nature.OCCURRENCE:
        printed_at = incident.since
        if incident.unit == "line":
            printed_at = min((fact.at for fact in incident.evidence if fact.at is not None), default=incident.since)
        first = timestamp(printed_at, now, zone, seconds=True)
        if incident.count == 1:
            return f"{summary}; seen at {first}" if _is_seen(incident) and incident.unit else f"{summary} (at {first})"
        uncounted = shortened(clean_line(statement_of(incident.subject, incident.summary + incident.detail)), 300)
        times = f"{'at least ' if incident.at_least else ''}{_times(incident)}"
        last = (
            f", last {timestamp(incident.last_at, now, zone, seconds=True)}"
            if incident.last_at > printed_at + 1
            else ""
        )
        return f"{uncounted}; {times}, first {first}{last}"
    since, lasted = timestamp(incident.since, now, zone), duration(now - incident.since)
    plural = "" if incident.count == 1 else "s"
    if BLIND.has(incident.key):
        counted = f"{incident.count} blind check{plural}"
    else:
        counted = f"{incident.count} failed {'probe' if _asks_for_text(incident) else 'check'}{plural}"
    if incident.last_good_at is not None:
        counted += f", last good {timestamp(incident.last_good_at, now, zone)}"
    if incident.cause is Cause.FLAPPING:
        return f"{summary}; flapping since {since} ({lasted}, {counted})"
    if _asks_for_text(incident):
        who, missing = clean_line(subject_of(incident)), _no_text(incident)
        silent_since = _failing_since(incident)
        if silent_since > incident.since:
            silent = f"{timestamp(silent_since, now, zone)} ({duration(now - silent_since)})"
            return f"{who}: {missing} since {silent}, failing since {since} ({counted})"
        return f"{who}: {missing} since {since} ({lasted}, {counted})"
    return f"{summary}; since {since} ({lasted}, {counted})"


def _cause(incident: Incident) -> list[str]:
    """The line of the diagnosis; without one, what a probe said last where the sentence does not hold it."""
    found = incident.diagnosis
    signs = [f"two signs: {shortened(clean_line('; '.join(one.words for one in incident.signs)), 300)}"]
    if incident.signs:
        return signs if found is None else [*signs, f"{found.confidence}: {shortened(clean_line(found.sentence), 300)}"]
    if found is not None:
        return [f"{found.confidence}: {shortened(clean_line(found.sentence), 420)}"]
    last = clean_line(incident.phrase)
    return [f"last: {shortened(last, 300)}"] if _asks_for_text(incident) else []


def _what_next(incident: Incident) -> list[str]:
    """The lines about what to do, where to look, and how to say that somebody does."""
    found = incident.diagnosis
    kind = kind_of(incident.key)
    look = SELF_LOOK_AT if kind is None else kind.look_at.format(host=incident.labels.get("host", "the host"))
    advice = shortened(clean_line(incident.advice), 400)
    if found is not None and found.look_at:
        look = found.look_at
        if incident.look_only:
            advice = ""  # it follows from the reason alone; the diagnosis knows better where to look
    acknowledge = incident.severity is Severity.PAGE and incident.acknowledged_at is None
    return [
        *([f"do: {advice}"] if advice else []),
        *([f"look at: {clean_line(look)}"] if look else []),
        *([f"see also: incident {', '.join(incident.related)}"] if incident.related else []),
        *([f"acknowledge: inference-watchdog ack {incident.id}"] if acknowledge else []),
    ]


def _is_seen(incident: Incident) -> bool:
    """Whether its count says how often it was seen, and not how much of something there was (lost lines)."""
    return incident.unit in {"", "line"}


def _times(incident: Incident) -> str:
    what = "time" if _is_seen(incident) else incident.unit
    return f"{incident.count} {what}{'' if incident.count == 1 else 's'}"


def _end(incident: Incident, now: float, zone: tzinfo | None) -> list[str]:
    """The lines of a resolve or an expiry: how long, how often, and what it was, as it was told."""
    closed = now if incident.closed_at is None else incident.closed_at
    when = f"from {timestamp(incident.since, now, zone)} to {timestamp(closed, now, zone)}"
    what = "seen" if incident.nature is Nature.OCCURRENCE else "failed"
    times = f"{what} {_times(incident)}" if _is_seen(incident) else _times(incident)
    found = incident.diagnosis_told or incident.diagnosis
    was = clean_line(incident.statement if found is None else f"{found.confidence}, {found.sentence}")
    went = clean_line(f"[{' → '.join(incident.reasons)}]") if len(incident.reasons) > 1 else ""
    return [
        f"{clean_line(subject_of(incident))}: {when} ({duration(closed - incident.since)}), {times}",
        f"was: {shortened(was, 420)} {shortened(went, 300)}".rstrip(),
        *([f"see also: incident {', '.join(incident.related)}"] if incident.related else []),
        _class(incident),
    ]


def _body(incident: Incident, kind: NotificationKind, now: float, zone: tzinfo | None, hide: Redactor) -> str:
    room = BODY_LIMIT - _LAST_LINES
    if kind.is_end:
        return shortened("\n".join(hide(line) for line in _end(incident, now, zone)), room)
    first = [_sentence(incident, now, zone), *_cause(incident)]
    found = incident.diagnosis
    facts = (*incident.evidence, *(() if found is None else found.evidence))
    proof = [hide(line) for line in proof_lines(dict.fromkeys(facts), "\n".join(first), now, zone)]
    first = [hide(clean_line(line)) for line in (*first, _class(incident))]
    last = [hide(line) for line in _what_next(incident)]
    left = room - len("\n".join([*first, *last])) - 2
    while proof and len("\n".join(proof)) > left:
        proof.pop(len(proof) // 2)
    return shortened("\n".join([*first, *proof, *last]), room)


def render(
    incident: Incident, kind: NotificationKind, *, now: float, zone: tzinfo | None, redactor: Redactor | None = None
) -> Text:
    """`incident` as the message of `kind`, written at `now` (Unix seconds), times in `zone` (None: the machine's).

    The title has at most 80 characters; the body leaves room for what `finish` adds within 1,500.
    """
    hide = redactor or Redactor(())
    title = shortened(hide(f"{kind} {_headline(incident, kind, now)}"), TITLE_LIMIT)
    return Text(title, _body(incident, kind, now, zone, hide))


def _lateness(delivery: Delivery, ended_at: float | None, now: float, zone: tzinfo | None) -> str:
    """One line about a message that leaves late; what it tells of may be over already."""
    late = f"delivered {duration(now - delivery.created_at)} late"
    incident = delivery.incident
    if delivery.kind.is_trigger and incident is not None and ended_at is not None:
        lasted = f"{timestamp(incident.since, now, zone)} to {timestamp(ended_at, now, zone)}"
        return f"it is over already: from {lasted}; {late}"
    return f"{late}: written at {timestamp(delivery.created_at, now, zone)}"


def finish(delivery: Delivery, *, now: float, zone: tzinfo | None, ended_at: float | None = None) -> Text:
    """The text that leaves now: lateness first if there is any, and the last line `incident <id> · attempt <n>`.

    `ended_at` is when the incident ended, if its end is already queued behind this message.
    """
    last = f"incident {delivery.incident_id} · attempt {delivery.attempt}"
    late = _lateness(delivery, ended_at, now, zone) if now - delivery.created_at >= LATE_S else ""
    body = clean_block(delivery.body)
    room = BODY_LIMIT - len(last) - 1 - (len(late) + 1 if late else 0)
    lines = [*([late] if late else []), shortened(body, room), last]
    return Text(shortened(clean_line(delivery.title), TITLE_LIMIT), "\n".join(lines))


# One message about several incidents: how many, which, and a line for each as far as there is room.

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
