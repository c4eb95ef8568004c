"""What an observation brings into an incident: cleaned, without secrets, bounded, each fact once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watchdog.message import Redactor, clean_line
from watchdog.model import Evidence, Nature, Observation

FACTS = 16
"""Evidence kept with an incident: the first half from its beginning, the rest the newest."""
REASONS = 10
_TEXT_LIMIT = 500


def made_safe(observation: Observation, hide: Redactor) -> Observation:
    """`observation` as it may be stored and shown: no secrets, no control characters, bounded."""

    def safe(text: str) -> str:
        return hide(clean_line(text[: 4 * _TEXT_LIMIT]))[:_TEXT_LIMIT]

    made = (
        clean_line(observation.key),
        clean_line(observation.reason),
        safe(observation.summary),
        safe(observation.advice),
        tuple([Evidence(fact.at, clean_line(fact.source), safe(fact.text)) for fact in observation.evidence]),
        {clean_line(name): clean_line(value) for name, value in observation.labels.items()},
    )
    key, reason, summary, advice, evidence, labels = made
    given = (observation.key, observation.reason, observation.summary, observation.advice)
    if made[:4] == given and evidence == observation.evidence and labels == observation.labels:
        return observation
    return replace(
        observation, key=key, reason=reason, summary=summary, advice=advice, evidence=evidence, labels=labels
    )


@dataclass(frozen=True, slots=True)
class Strikes:
    """What the failures of one trouble brought so far: evidence, and the reasons, one for each change."""

    evidence: tuple[Evidence, ...] = ()
    reasons: tuple[str, ...] = ()

    def and_then(self, observation: Observation) -> Strikes:
        """These, and one failure more. When there is too much evidence, the beginning and the newest are kept."""
        evidence = tuple(dict.fromkeys((*self.evidence, *_facts_of(observation))))
        if len(evidence) > FACTS:
            evidence = (*evidence[: FACTS // 2], *evidence[-(FACTS // 2) :])
        reasons = self.reasons
        if not reasons or reasons[-1] != observation.reason:
            reasons = (*reasons, observation.reason)[-REASONS:]
        return Strikes(evidence, reasons)


def _facts_of(observation: Observation) -> tuple[Evidence, ...]:
    """The evidence an observation brings; a condition without any says itself what it saw, under its reason."""
    if observation.nature is Nature.OCCURRENCE or observation.evidence:
        return observation.evidence
    return (Evidence(observation.at, observation.reason, observation.summary),)
