"""Incidents as HTML: the open ones in full, the past ones folded, each with its evidence in time order."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.model import Evidence, Incident, IncidentStatus, Nature, Silence
from watchdog.overview.format import TimeFormat, incident_title
from watchdog.overview.html import Html, tag
from watchdog.overview.plot import last_seen_plots
from watchdog.overview.status import Status, matcher_words
from watchdog.policy import silenced_by
from watchdog.text import duration, quantity

MOST_EVIDENCE = 12
STATUS_WORDS = {
    IncidentStatus.FIRING: "firing",
    IncidentStatus.RESOLVED: "resolved",
    IncidentStatus.EXPIRED: "went quiet",
}


def open_incident(incident: Incident, status: Status, times: TimeFormat) -> Html:
    return tag(
        "article",
        tag("h3", _severity(incident), " ", incident_title(incident)),
        _details(incident, times, _handling(incident, status, times)),
        class_=f"incident {incident.severity}",
    )


def past_incident(incident: Incident, times: TimeFormat) -> Html:
    """An incident in a list, its details folded away."""
    lasted = duration((incident.closed_at or times.now) - incident.since)
    head = tag(
        "summary",
        times.stamp(incident.since),
        " ",
        _severity(incident),
        " ",
        incident_title(incident),
        tag("span", f" {STATUS_WORDS[incident.status]}, {lasted}", class_="muted"),
    )
    return tag("details", head, _details(incident, times))


def silence_words(silence: Silence, times: TimeFormat) -> list[str | Html]:
    by = f" ({silence.author})" if silence.author else ""
    until = times.stamp(silence.ends_at)
    return ["Silenced until ", until, f": {silence.reason}{by} · ", tag("code", matcher_words(silence.matcher))]


def _severity(incident: Incident) -> Html:
    return tag("span", incident.severity.value, class_=f"severity {incident.severity}")


def _details(incident: Incident, times: TimeFormat, handling: Html | None = None) -> list[Html | None]:
    """What is known of it: facts, most likely cause, what to do, who looks at it, and the evidence."""
    found = incident.diagnosis
    return [
        tag("p", _facts(incident, times), class_="facts"),
        tag("p", tag("b", f"{found.confidence.capitalize()}: "), found.sentence) if found is not None else None,
        tag("p", tag("b", "Do: "), incident.advice) if incident.advice else None,
        handling,
        last_seen_plots(incident.last_seen),
        _evidence((*incident.evidence, *(found.evidence if found is not None else ())), times),
    ]


def _facts(incident: Incident, times: TimeFormat) -> list[str | Html]:
    """When it was, how often, when the check last passed, and its names."""
    if incident.closed_at is not None:
        lasted = duration(incident.closed_at - incident.since)
        facts = ["from ", times.stamp(incident.since), " to ", times.stamp(incident.closed_at), f" ({lasted})"]
    else:
        facts = ["since ", times.stamp(incident.since), f" ({duration(times.now - incident.since)})"]
    if incident.nature is Nature.OCCURRENCE:
        facts += [f" · seen {quantity(incident.count, 'time')}, last ", times.stamp(incident.last_at, seconds=True)]
    else:
        facts.append(f" · {quantity(incident.count, 'failed check')}")
        if incident.last_good_at is not None:
            facts += [" · last good ", times.stamp(incident.last_good_at)]
    return [*facts, f" · {incident.reason} · ", tag("code", incident.key), " · incident ", tag("code", incident.id)]


def _handling(incident: Incident, status: Status, times: TimeFormat) -> Html | None:
    """Who acknowledged it, or which silence covers it."""
    acknowledged = status.snapshot.acknowledged.get(incident.id)
    if acknowledged is not None:
        by = f" by {acknowledged.author}" if acknowledged.author else ""
        return tag("p", f"Acknowledged{by} ", times.ago(acknowledged.at), f": {acknowledged.reason}", class_="note")
    silence = silenced_by(incident, status.snapshot.silences, times.now)
    return tag("p", silence_words(silence, times), class_="note") if silence is not None else None


def _evidence(found: Sequence[Evidence], times: TimeFormat) -> Html | None:
    """Every fact with its time and source, in time order; the middle is left out when there are many."""
    ordered = sorted(found, key=lambda fact: -1.0 if fact.at is None else fact.at)
    rows = [_fact(fact, times) for fact in ordered]
    if len(rows) > MOST_EVIDENCE:
        half = MOST_EVIDENCE // 2
        rows = [*rows[:half], tag("li", f"… {len(rows) - 2 * half} more …"), *rows[-half:]]
    return tag("ol", *rows, class_="evidence") if rows else None


def _fact(fact: Evidence, times: TimeFormat) -> Html:
    when = "" if fact.at is None else times.stamp(fact.at, seconds=True)
    return tag("li", tag("span", when, class_="when"), " ", tag("b", fact.source), " ", tag("code", fact.text))
