"""Grouping classified kernel lines into occurrences: one per host, kind and device (design §5.2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from watchdog.kernlog.correlation import Bursts, KnownDevices, PciBridges, PcieFollowUps, RecordJoiner, smmu_client
from watchdog.kernlog.lines import KernelLine, Origin
from watchdog.kernlog.matcher import Finding, Matcher
from watchdog.kinds import KERNEL_LOG
from watchdog.model import Evidence, Json, Nature, Observation, Severity, Verdict

MAX_LINES_SHOWN = 10
MAX_LINE_CHARS = 400
MAX_WORDS = 8
NEWS_WITHIN_S = 3600.0
"""A line older than this that was there before the watchdog knew the host is history, not news."""

SUPPRESSED, MISSED, HISTORY, MANY = "log.suppressed", "log.missed", "log.history", "(many)"
_NUMBER = re.compile(r"\d{1,12}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(slots=True)
class _Group:
    """Lines of one kind and device. `also` are the words of what followed a record, each once."""

    gravest: Finding
    severity: Severity = Severity.INFO
    count: int = 0
    first_at: float | None = None
    last_at: float | None = None
    evidence: list[Evidence] = field(default_factory=list)
    last: Finding | None = None
    this_boot: bool = False
    also: dict[str, None] = field(default_factory=dict)
    advice: str = ""

    def add(self, line: KernelLine, finding: Finding, severity: Severity, source: str, also: str) -> None:
        if also:
            self.also[also] = None
        if also and self.count:
            if severity.rank > self.severity.rank:
                self.severity, self.advice = severity, finding.advice
        elif not finding.detail:
            self.last = finding
            self.count += _lost_count(line.message) if finding.kind == MISSED else 1
            if severity.rank > self.severity.rank or self.count == 1:
                self.gravest, self.severity, self.advice = finding, severity, finding.advice
            self.this_boot = self.this_boot or not line.post_mortem
            if line.at is not None:
                self.first_at = line.at if self.first_at is None else min(self.first_at, line.at)
                self.last_at = line.at if self.last_at is None else max(self.last_at, line.at)
        if len(self.evidence) < MAX_LINES_SHOWN:
            self.evidence.append(Evidence(line.at, source, evidence_text(line)))


def evidence_text(line: KernelLine) -> str:
    """The line as evidence: one line of text, no control characters, not endless, and marked when post-mortem."""
    text = _CONTROL.sub(" ", line.message).strip()
    if len(text) > MAX_LINE_CHARS:
        text = text[: MAX_LINE_CHARS - 1] + "…"
    return f"before the reboot: {text}" if line.post_mortem else text


def observations(
    host: str, lines: Sequence[KernelLine], matcher: Matcher, now: float, memory: Json | None
) -> tuple[tuple[Observation, ...], Json]:
    """One observation per kind and device found in `lines`, in order of appearance, and what to remember.

    `now` is Unix seconds; `memory` is what the previous call returned, None at the first. Keys are
    `kernel_log/<host>/<kind>/<device or ->`. Continuation lines join their record and never alert alone, and what
    follows a PCIe error record within seconds joins it too. Lines of programs are ignored. Old lines from
    before the first contact are reported once, as history.
    """
    stored = memory if isinstance(memory, Mapping) else {}
    groups: dict[tuple[str, str], _Group] = {}
    bursts, bridges = Bursts(stored.get("bursts")), PciBridges(stored.get("bridges"))
    follow_ups = PcieFollowUps(stored.get("pcie"), bridges)
    records, devices = RecordJoiner(), KnownDevices(stored.get("devices"))
    old: list[tuple[KernelLine, Finding]] = []
    suppressed = False
    for number, line in enumerate(lines):
        if line.origin is Origin.USERSPACE:
            continue
        bridges.note(line.message)
        finding = matcher.classify(line.message)
        if finding is None:
            continue
        if finding.kind == SUPPRESSED:
            suppressed = True
            continue
        finding = records.join(number, finding)
        if _is_history(line, now):
            old.append((line, finding))
            continue
        at = line.at if line.at is not None else now
        finding, also = follow_ups.join(finding, at, line.message)
        group = _group(groups, finding, devices, now)
        if group is not None:
            severity = bursts.severity(finding, matcher.ruleset.by_id[finding.rule].bursts, at)
            group.add(line, finding, severity, f"{host} kernel", also)
            if len(group.also) < MAX_WORDS and (client := smmu_client(line.message)):
                group.also[f"access by {client}"] = None
    found = [_observation(host, key, group, now, suppressed) for key, group in groups.items() if group.count]
    if history := _history(host, old, now):
        found.append(history)
    return tuple(found), {
        "bursts": bursts.to_json(),
        "pcie": follow_ups.to_json(),
        "bridges": bridges.to_json(),
        "devices": devices.to_json(),
    }


def _is_history(line: KernelLine, now: float) -> bool:
    if not line.history:
        return False
    return line.post_mortem or line.at is None or now - line.at > NEWS_WITHIN_S


def _group(groups: dict[tuple[str, str], _Group], finding: Finding, devices: KnownDevices, now: float) -> _Group | None:
    """The group of `finding`; None for a detail whose record is not among the lines."""
    key = (finding.kind, finding.device or "-")
    if key not in groups:
        if finding.detail:
            return None
        if finding.device is not None and not devices.admits(finding.kind, finding.device, now):
            key = (finding.kind, MANY)
    return groups.setdefault(key, _Group(finding))


def _lost_count(message: str) -> int:
    return int(match[0]) if (match := _NUMBER.search(message)) else 1


def _observation(host: str, key: tuple[str, str], group: _Group, now: float, suppressed: bool) -> Observation:
    kind, device = key
    where = "" if device == "-" else f" ({device})" if device != MANY else " (many devices)"
    times = {"first_at": group.first_at, "last_at": group.last_at}
    return Observation(
        key=KERNEL_LOG.key(host, kind, device),
        verdict=Verdict.FAIL,
        reason=kind,
        severity=group.severity,
        summary=f"{group.gravest.summary}{where}{''.join(f', {words}' for words in group.also)}",
        at=now,
        nature=Nature.OCCURRENCE,
        evidence=tuple(group.evidence),
        labels={"host": host, "kind": kind, "device": device},
        measurements={name: value for name, value in times.items() if value is not None},
        count=group.count,
        advice=group.advice,
        subject=host,
        unit="line",
        at_least=suppressed,
        detail=_detail(group),
    )


def _detail(group: _Group) -> str:
    text = "" if group.this_boot else ", before the reboot"
    last = group.last
    if last is not None and last.severity.rank < group.gravest.severity.rank and last.rule != group.gravest.rule:
        text += f"; last line: {last.summary}"
    return text


def _history(host: str, old: Sequence[tuple[KernelLine, Finding]], now: float) -> Observation | None:
    """What stood in the log before the watchdog knew the host, as one quiet note; None if there was nothing."""
    records = [(line, finding) for line, finding in old if not finding.detail]
    if not records:
        return None
    kinds = Counter(finding.kind for _, finding in records)
    gravest_first = sorted(records, key=lambda pair: -pair[1].severity.rank)
    listed = ", ".join(f"{kind} ×{count}" for kind, count in kinds.most_common(8))
    return Observation(
        key=KERNEL_LOG.key(host, HISTORY, "-"),
        verdict=Verdict.FAIL,
        reason=HISTORY,
        severity=Severity.INFO,
        summary="old kernel lines from before this host was watched",
        at=now,
        nature=Nature.OCCURRENCE,
        evidence=tuple(
            Evidence(line.at, f"{host} kernel", evidence_text(line)) for line, _ in gravest_first[:MAX_LINES_SHOWN]
        ),
        labels={"host": host, "kind": HISTORY, "device": "-"},
        count=len(records),
        advice="These lines are old. Look at them once; they will not be reported again.",
        subject=host,
        unit="line",
        detail=f": {listed}",
    )
