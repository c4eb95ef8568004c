"""The newest look at every server and host, from which the scene of an incident is set for its diagnosis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from watchdog.diagnosis import MEANT, PAGING, DiagnosisInput, Fact, HostView, diagnose, signs_of_hang
from watchdog.kinds import BLIND, FOLLOW, GENERATION, KERNEL_LOG, OF_SERVERS, ORDERED, REBOOTED, ROAD, VITALS, kind_of
from watchdog.message.redaction import Redactor
from watchdog.model import (
    Cause,
    Diagnosis,
    Evidence,
    Incident,
    IncidentStatus,
    Nature,
    Observation,
    Severity,
    TrackState,
    Verdict,
    dated_anew,
)
from watchdog.policy import AlertPlan
from watchdog.reasons import OwnReason, ServerReason
from watchdog.text import clean_line

STORY_S = 3600.0
"""A restart is told together with what its kernel said up to so long before."""
RELATED = 4
"""So many other incidents are named in one."""


class DiagnosisContext:
    """Remembers one observation per condition: nothing that grows. After a restart it is empty and fills at once."""

    def __init__(self) -> None:
        self.newest: dict[str, Observation] = {}

    def note(self, observation: Observation) -> None:
        if observation.nature is Nature.CONDITION and kind_of(observation.key) not in (None, FOLLOW):
            self.newest[observation.key] = observation

    def follow_clock(self, step_s: float, set_at: float) -> None:
        """Our clock was set by `step_s` when it said `set_at`."""
        self.newest = {
            key: replace(seen, at=dated_anew(seen.at, step_s, set_at) or seen.at) for key, seen in self.newest.items()
        }

    def forget(self, plan: AlertPlan) -> None:
        """Forget what `plan` does not watch."""
        self.newest = {key: seen for key, seen in self.newest.items() if plan.covers(key)}

    def with_clock_note(self, observation: Observation) -> Observation:
        """`observation` with a word about the host's clock at its kernel lines, where we know that it is off."""
        name = observation.labels.get("host")
        if observation.nature is not Nature.OCCURRENCE or name is None:
            return observation
        host = HostView(name=name, vitals=self.newest.get(VITALS.key(name)))
        return (
            replace(observation, evidence=host.with_clock_note(observation.evidence))
            if host.clock_offset_s
            else observation
        )

    def with_diagnosis(
        self, incident: Incident, plan: AlertPlan, others: Mapping[str, Incident], now: float
    ) -> Incident:
        """`incident` with the diagnosis of now, and as severe as that proves; as it was where nothing new is known."""
        newest = self.newest.get(incident.key)
        if newest is None or newest.verdict is not Verdict.FAIL or incident.status is not IncidentStatus.FIRING:
            return incident
        found = diagnose(self._input(incident, newest, plan, others.values(), now))
        if found is None or found == incident.diagnosis:
            return incident
        return replace(incident, diagnosis=found, severity=Severity.PAGE if found.name in PAGING else incident.severity)

    def signs_of_hang(self, server: str, plan: AlertPlan, others: Iterable[Incident], since: float) -> frozenset[Fact]:
        """What its hosts have shown since `since` that says that `server` hangs."""
        newest = self.newest.get(GENERATION.key(server))
        if newest is None:
            return frozenset()
        return signs_of_hang(self._input(_trouble(newest, since), newest, plan, others, since))

    def as_meant(
        self, seen: Observation, state: TrackState | None, plan: AlertPlan, others: Iterable[Incident], now: float
    ) -> Observation:
        """`seen`, as a warning where somebody wanted it so: a host that is away because it was told to end."""
        if seen.severity is not Severity.PAGE or seen.verdict is not Verdict.FAIL or seen.nature is Nature.OCCURRENCE:
            return seen
        opened = list(others)
        logs = (KERNEL_LOG.key(name) for name in self._hosts_of(seen.labels, plan))
        scans = [scan.measurements for key in logs if (scan := self.newest.get(key)) is not None]
        ordered = any(one.reason == ORDERED.name for one in opened)
        if not ordered and not any("shutdown_at" in numbers or "restart_at" in numbers for numbers in scans):
            return seen
        since = seen.at if state is None or state.since is None else state.since
        found = diagnose(self._input(_trouble(seen, since), seen, plan, opened, now))
        return replace(seen, severity=Severity.WARN) if found is not None and found.name in MEANT else seen

    def with_story(self, seen: Observation, others: Iterable[Incident]) -> Observation:
        """A restart without a shutdown, told with what came before it; a page, if that was one.

        The kernel's gravest lines of the last hour, the silence, the restart, and how the old boot ended.
        """
        host = seen.labels.get("host", "")
        if seen.reason != REBOOTED.name or seen.severity is not Severity.WARN:
            return seen
        opened = [one for one in others if one.labels.get("host") == host and one.reason != REBOOTED.name]
        grave = [
            one
            for one in opened
            if one.nature is Nature.OCCURRENCE
            and one.severity is Severity.PAGE
            and 0 <= seen.at - one.last_at <= STORY_S
        ]
        if not grave:
            return seen
        grave.sort(key=lambda one: one.last_at)
        before = [line for one in grave[-3:] for line in one.evidence[-2:]]
        silence = [
            Evidence(one.since, host, f"from then on: {one.phrase}")
            for one in opened
            if one.key == KERNEL_LOG.key(host)
        ]
        what = ", ".join(dict.fromkeys(_occurrence_words(one) for one in grave))
        return replace(
            seen,
            severity=Severity.PAGE,
            detail=f"{seen.detail}; before that: {what}",
            evidence=tuple(dict.fromkeys((*before, *silence, *seen.evidence))),
        )

    def diagnosis_at_once(
        self, keys: Iterable[str], plan: AlertPlan, others: Iterable[Incident], now: float
    ) -> Diagnosis | None:
        """What lies behind the first of the conditions `keys` that fails now, before it has an incident of its own."""
        failing = (seen for key in keys if (seen := self.newest.get(key)) is not None and seen.verdict is Verdict.FAIL)
        seen = next(failing, None)
        if seen is None:
            return None
        return diagnose(self._input(_trouble(seen, seen.at), seen, plan, others, now))

    def related(self, incident: Incident, plan: AlertPlan, others: Iterable[Incident]) -> tuple[str, ...]:
        """Ids of the pages that are open about the machines of `incident`, a page itself; the newest last."""
        if incident.severity is not Severity.PAGE:
            return ()
        hosts = set(self._hosts_of(incident.labels, plan))
        found = [
            one
            for one in others
            if one.severity is Severity.PAGE and one.key != incident.key and hosts & {*self._hosts_of(one.labels, plan)}
        ]
        return tuple(one.id for one in sorted(found, key=lambda one: one.opened_at)[-RELATED:])

    @staticmethod
    def _hosts_of(labels: Mapping[str, str], plan: AlertPlan) -> tuple[str, ...]:
        """The hosts that the server runs on, or the one host that it is about."""
        server, about = labels.get("server"), labels.get("host")
        return tuple(plan.runs_on.get(server, ())) if server is not None else (about,) if about is not None else ()

    def proves_death(
        self, server: str, seen: Observation, state: TrackState, plan: AlertPlan, others: Iterable[Incident]
    ) -> bool:
        """By the server's own words; or counters that stand still while requests run, and one more sign."""
        if seen.reason == ServerReason.ENGINE_DEAD:
            return True
        since = seen.at if state.since is None else state.since
        return seen.measurements.get("engine_frozen", 0.0) > 0 and bool(self.signs_of_hang(server, plan, others, since))

    def affected_keys(self, observation: Observation, plan: AlertPlan, others: Mapping[str, Incident]) -> list[str]:
        """Keys of the open incidents whose diagnosis may change by `observation`: those of the servers on its host."""
        host = observation.labels.get("host")
        if host is None or not others or any(kind.has(observation.key) for kind in OF_SERVERS):
            return []
        servers = [server for server, hosts in plan.runs_on.items() if host in hosts]
        keys = [kind.key(server) for server in servers for kind in OF_SERVERS]
        return [key for key in keys if key in others and key != observation.key]

    def _input(
        self, incident: Incident, newest: Observation, plan: AlertPlan, others: Iterable[Incident], now: float
    ) -> DiagnosisInput:
        about, names = incident.labels.get("host"), self._hosts_of(incident.labels, plan)
        opened = list(others)
        hosts = tuple(
            HostView(
                name=name,
                vitals=self.newest.get(VITALS.key(name)),
                kernel_log=self.newest.get(KERNEL_LOG.key(name)),
                occurrences=tuple(
                    one for one in opened if one.nature is Nature.OCCURRENCE and one.labels.get("host") == name
                ),
            )
            for name in names
        )
        seen = [self.newest.get(GENERATION.key(name)) for name, on in plan.runs_on.items() if about in on]
        roads = (one for one in opened if BLIND.has(one.key) or one.key == ROAD.key())
        road = next((one for one in roads if one.reason == OwnReason.BLIND), None)
        return DiagnosisInput(
            incident=incident,
            newest=newest,
            now=now,
            hosts=hosts,
            servers=tuple(one for one in seen if one is not None),
            own_network="" if road is None else road.phrase,
        )


def _trouble(seen: Observation, since: float) -> Incident:
    """What `seen` would be as an incident that began at `since`."""
    return Incident(
        id="", key=seen.key, nature=seen.nature, cause=Cause.STRIKES, severity=seen.severity,
        opened_severity=seen.severity, reason=seen.reason, summary=seen.summary, since=since,
        opened_at=since, last_at=since, labels=seen.labels,
    )  # fmt: skip


def _occurrence_words(one: Incident) -> str:
    device = one.labels.get("device", "-")
    return f"{one.reason} on {device}" if device[:1].isalnum() else one.reason


# What an observation brings into an incident: cleaned, without secrets, bounded, each fact once.

FACTS = 16
"""Evidence kept with an incident: the first half from its beginning, the rest the newest."""
REASONS = 10
_TEXT_LIMIT = 500


def sanitize(observation: Observation, hide: Redactor, now: float) -> Observation:
    """`observation` as it may be stored and shown: no secrets, no control characters, no absurd number, bounded."""
    observation = _with_sane_numbers(observation, now)

    def safe(text: str) -> str:
        return hide(clean_line(text[: 4 * _TEXT_LIMIT]))[:_TEXT_LIMIT]

    made = (
        clean_line(observation.key),
        clean_line(observation.reason),
        safe(observation.summary),
        safe(observation.advice),
        safe(observation.detail),
        clean_line(observation.subject),
        tuple([Evidence(fact.at, clean_line(fact.source), safe(fact.text)) for fact in observation.evidence]),
        {clean_line(name): clean_line(value) for name, value in observation.labels.items()},
    )
    key, reason, summary, advice, detail, subject, evidence, labels = made
    given = (
        observation.key,
        observation.reason,
        observation.summary,
        observation.advice,
        observation.detail,
        observation.subject,
    )
    if made[:6] == given and evidence == observation.evidence and labels == observation.labels:
        return observation
    return replace(
        observation,
        key=key,
        reason=reason,
        summary=summary,
        advice=advice,
        detail=detail,
        subject=subject,
        evidence=evidence,
        labels=labels,
    )


_LATEST = 4_102_444_800.0
_GREATEST = 1e18


def _with_sane_numbers(observation: Observation, now: float) -> Observation:
    """`observation` with times of this century and numbers that can be computed with; `now` stands for the others."""

    def sane(number: float) -> bool:
        return -_GREATEST <= number <= _GREATEST  # false for NaN, too

    def dated(at: float) -> bool:
        return 0 <= at <= _LATEST

    numbers = observation.measurements
    if (
        dated(observation.at)
        and sane(observation.duration_s)
        and sane(observation.count)
        and all(sane(value) for value in numbers.values())
        and all(fact.at is None or dated(fact.at) for fact in observation.evidence)
    ):
        return observation
    return replace(
        observation,
        at=observation.at if dated(observation.at) else now,
        duration_s=observation.duration_s if sane(observation.duration_s) else 0.0,
        count=observation.count if sane(observation.count) else 1,
        measurements={name: value for name, value in numbers.items() if sane(value)},
        evidence=tuple(
            fact if fact.at is None or dated(fact.at) else replace(fact, at=None) for fact in observation.evidence
        ),
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
    return (Evidence(observation.at, observation.reason, observation.statement),)


def opened(observation: Observation, state: TrackState, strikes: Strikes, incident_id: str, now: float) -> Incident:
    """The incident that `observation` opens, after the failures before it, `strikes`."""
    strikes = strikes.and_then(observation)
    return Incident(
        id=incident_id,
        key=observation.key,
        nature=observation.nature,
        cause=state.cause,
        severity=state.severity,
        opened_severity=state.severity,
        reason=observation.reason,
        summary=observation.summary,
        subject=observation.subject,
        unit=observation.unit,
        at_least=observation.at_least,
        detail=observation.detail,
        since=observation.at if state.since is None else state.since,
        opened_at=now,
        last_at=now,
        last_good_at=state.last_good_at,
        failing_since=state.failing_since,
        count=state.count,
        evidence=strikes.evidence,
        advice=observation.advice,
        look_only=observation.look_only,
        labels=observation.labels,
        reasons=strikes.reasons,
        last_seen=observation.last_seen,
    )


def continued(incident: Incident, observation: Observation, state: TrackState, now: float) -> Incident:
    """`incident` after one failure more."""
    strikes = Strikes(incident.evidence, incident.reasons).and_then(observation)
    advises = observation if observation.advice else incident
    return replace(
        incident,
        cause=state.cause,
        severity=max(state.severity, incident.severity, key=lambda one: one.rank),
        reason=observation.reason,
        summary=observation.summary,
        subject=observation.subject,
        unit=observation.unit,
        at_least=observation.at_least or incident.at_least,
        detail=observation.detail,
        last_at=now,
        last_good_at=state.last_good_at,
        failing_since=state.failing_since,
        count=state.count,
        evidence=strikes.evidence,
        advice=advises.advice,
        look_only=advises.look_only,
        reasons=strikes.reasons,
        last_seen=incident.last_seen or observation.last_seen,
    )
