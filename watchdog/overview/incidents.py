"""Incidents as HTML: the open ones in full, the past ones folded, each with its evidence in time order."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.model import Evidence, Incident, IncidentStatus, Nature, Silence
from watchdog.overview.format import Clockface, counted, titled
from watchdog.overview.html import Html, tag
from watchdog.overview.status import Now, matcher_words
from watchdog.policy import silenced_by
from watchdog.text import duration

MOST_EVIDENCE = 12


def open_incident(incident: Incident, now: Now, clock: Clockface) -> Html:
    """An open incident, in full."""
    severity = incident.severity.value
    title = tag("h3", tag("span", severity, class_=f"severity {severity}"), " ", titled(incident))
    return tag(
        "article",
        title,
        tag("p", facts(incident, clock), class_="facts"),
        *cause(incident),
        quiet(incident, now, clock),
        evidence(proof(incident), clock),
        class_=f"incident {severity}",
    )


def cause(incident: Incident) -> list[Html]:
    """What most likely lies behind it, and what to do."""
    found = incident.diagnosis
    said = [] if found is None else [tag("p", tag("b", f"{found.confidence.value.capitalize()}: "), found.sentence)]
    return [*said, *([tag("p", tag("b", "Do: "), incident.advice)] if incident.advice else [])]


def proof(incident: Incident) -> tuple[Evidence, ...]:
    """The evidence of its own check, and what the diagnosis brought from elsewhere."""
    found = incident.diagnosis
    return (*incident.evidence, *(() if found is None else found.evidence))


def past_incident(incident: Incident, clock: Clockface) -> Html:
    """An incident in a list, its evidence folded away."""
    severity = incident.severity.value
    end = {IncidentStatus.FIRING: "firing", IncidentStatus.RESOLVED: "resolved", IncidentStatus.EXPIRED: "went quiet"}
    lasted = duration((incident.closed_at or clock.now) - incident.since)
    head = tag(
        "summary",
        clock.moment(incident.since),
        " ",
        tag("span", severity, class_=f"severity {severity}"),
        " ",
        titled(incident),
        tag("span", f" {end[incident.status]}, {lasted}", class_="muted"),
    )
    told = tag("p", facts(incident, clock), class_="facts")
    return tag("details", head, told, *cause(incident), evidence(proof(incident), clock))


def facts(incident: Incident, clock: Clockface) -> list[str | Html]:
    """Since when, how often, when it last was well, and its names."""
    said: list[str | Html] = ["since ", clock.moment(incident.since), f" ({duration(clock.now - incident.since)})"]
    if incident.closed_at is not None:
        lasted = duration(incident.closed_at - incident.since)
        said = ["from ", clock.moment(incident.since), " to ", clock.moment(incident.closed_at), f" ({lasted})"]
    if incident.nature is Nature.OCCURRENCE:
        said += [f" · seen {counted(incident.count, 'time')}, last ", clock.moment(incident.last_at, seconds=True)]
    else:
        said.append(f" · {counted(incident.count, 'failed check')}")
        if incident.last_good_at is not None:
            said += [" · last good ", clock.moment(incident.last_good_at)]
    said += [f" · {incident.reason} · ", tag("code", incident.key), " · incident ", tag("code", incident.id)]
    return said


def quiet(incident: Incident, now: Now, clock: Clockface) -> Html | None:
    """That somebody looks at it, or that it is silenced."""
    seen = now.snapshot.acknowledged.get(incident.id)
    if seen is not None:
        by = f" by {seen.author}" if seen.author else ""
        return tag("p", "Acknowledged", by, " ", clock.ago(seen.at), f": {seen.reason}", class_="note")
    silence = silenced_by(incident, now.snapshot.silences, clock.now)
    return tag("p", silence_words(silence, clock), class_="note") if silence is not None else None


def silence_words(silence: Silence, clock: Clockface) -> list[str | Html]:
    """A silence as a sentence."""
    by = f" ({silence.author})" if silence.author else ""
    until = clock.moment(silence.ends_at)
    return ["Silenced until ", until, f": {silence.reason}{by} · ", tag("code", matcher_words(silence.matcher))]


def evidence(found: Sequence[Evidence], clock: Clockface) -> Html | None:
    """Every fact with its time and who says it, in time order; the middle is left out when there are many."""
    ordered = sorted(found, key=lambda fact: -1.0 if fact.at is None else fact.at)
    rows = [_fact(fact, clock) for fact in ordered]
    if len(rows) > MOST_EVIDENCE:
        half = MOST_EVIDENCE // 2
        rows = [*rows[:half], tag("li", f"… {len(rows) - 2 * half} more …"), *rows[-half:]]
    return tag("ol", *rows, class_="evidence") if rows else None


def _fact(fact: Evidence, clock: Clockface) -> Html:
    when = "" if fact.at is None else clock.moment(fact.at, seconds=True)
    return tag("li", tag("span", when, class_="when"), " ", tag("b", fact.source), " ", tag("code", fact.text))
