"""What a reading becomes for a person: the condition "could I read it all", and the occurrences beside its lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from watchdog.config import HostSettings
from watchdog.kernlog.page import Ending, Loss
from watchdog.model import Evidence, Nature, Observation, Severity, Verdict
from watchdog.ssh import HostError, Reason

UNREACHABLE = frozenset({Reason.REFUSED, Reason.UNROUTABLE, Reason.TIMEOUT, Reason.SILENT, Reason.RESET})
"""A machine that cannot be talked to at all may be locked up: that wakes someone."""
EVIDENCE_LIMIT = 10


def readable(
    host: HostSettings, trouble: HostError | None, now: float, duration_s: float, lines: int, how: str
) -> Observation:
    """The condition `kernel_log/<host>`: pass only if everything was read. `how` names the source that was read."""
    key, labels = f"kernel_log/{host.name}", {"host": host.name}
    numbers = {"lines": float(lines), "duration_s": duration_s}
    if trouble is None:
        return Observation(
            key=key,
            verdict=Verdict.PASS,
            reason=Reason.OK.value,
            severity=Severity.WARN,
            summary=f"{host.name}: kernel log read to its end, {lines} new lines ({how})",
            at=now,
            duration_s=duration_s,
            labels=labels,
            measurements=numbers,
        )
    return Observation(
        key=key,
        verdict=Verdict.UNKNOWN if trouble.ours else Verdict.FAIL,
        reason=trouble.reason.value,
        severity=Severity.PAGE if trouble.reason in UNREACHABLE else Severity.WARN,
        summary=f"{host.name}: {trouble.summary}",
        at=now,
        duration_s=duration_s,
        evidence=(Evidence(now, host.name, trouble.summary),),
        labels=labels,
        measurements=numbers,
        advice=trouble.advice,
    )


def stream_condition(host: HostSettings, trouble: HostError | None, now: float) -> Observation:
    """The condition `follow/<host>`: does the live stream bring what the scan finds?"""
    key, labels = f"follow/{host.name}", {"host": host.name}
    if trouble is None:
        return Observation(
            key=key,
            verdict=Verdict.PASS,
            reason=Reason.OK.value,
            severity=Severity.WARN,
            summary=f"{host.name}: the live kernel log keeps up with the scan",
            at=now,
            labels=labels,
        )
    return Observation(
        key=key,
        verdict=Verdict.UNKNOWN if trouble.ours else Verdict.FAIL,
        reason=trouble.reason.value,
        severity=Severity.INFO if trouble.reason is Reason.NO_JOURNAL else Severity.WARN,
        summary=f"{host.name}: no live kernel log: {trouble.summary}",
        at=now,
        labels=labels,
        advice=trouble.advice
        or "The scan still reads every line, but the last seconds before a hard lock reach only a live stream.",
    )


def incomplete(host: HostSettings, loss: Loss, now: float) -> Observation:
    """The occurrence `log.incomplete`: lines that nobody will ever read."""
    count = "an unknown number of" if loss.count is None else str(loss.count)
    return Observation(
        key=f"kernel_log/{host.name}/log.incomplete/-",
        verdict=Verdict.FAIL,
        reason="log.incomplete",
        severity=Severity.WARN,
        summary=f"{host.name}: kernel log incomplete, {count} lines lost",
        at=now,
        nature=Nature.OCCURRENCE,
        evidence=(Evidence(now, host.name, loss.text),),
        labels={"host": host.name, "kind": "log.incomplete", "device": "-"},
        count=loss.count or 1,
        advice="What was lost may have held an error. Look at the machine's own `dmesg`, and at what floods its log.",
    )


def rebooted(host: HostSettings, ending: Ending, crash: Sequence[str], now: float) -> Observation:
    """The occurrence `host.rebooted`: that it restarted, and how the boot before ended."""
    kept = any(line.startswith("file=") for line in crash)
    if ending.clean:
        how = "after a clean shutdown"
    elif ending.firmware:
        how = "and its firmware reports errors from the boot before (BERT)"
    elif kept:
        how = "without a shutdown; crash records were kept (pstore)"
    elif ending.gone:
        how = "and the end of the boot before cannot be read (no journal of it is kept)"
    else:
        how = "without a shutdown: its log stops mid-line, as after a hard lock, a panic or a power cut"
    evidence = [Evidence(at, host.name, f"last kernel line: {text}") for at, text in ending.tail]
    evidence += [Evidence(None, host.name, text) for text in ending.firmware]
    if kept and not ending.clean:
        evidence += [Evidence(None, f"{host.name} pstore", line) for line in crash[-EVIDENCE_LIMIT:]]
    return Observation(
        key=f"kernel_log/{host.name}/host.rebooted/{ending.next_boot}",
        verdict=Verdict.FAIL,
        reason="host.rebooted",
        severity=Severity.INFO if ending.clean else Severity.WARN,
        summary=f"{host.name} restarted {how}",
        at=now,
        nature=Nature.OCCURRENCE,
        evidence=tuple(evidence),
        labels={"host": host.name, "kind": "host.rebooted", "device": "-"},
        advice=""
        if ending.clean
        else "Read the last kernel lines: a PCIe, GPU or network error just before the end is the likely cause.",
    )


def folded(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Occurrences of the same key as one: counts added, the graver words kept, evidence in order up to a limit."""
    by_key: dict[str, Observation] = {}
    for new in observations:
        old = by_key.get(new.key)
        if old is None:
            by_key[new.key] = new
            continue
        by_key[new.key] = _joined(old, new)
    return tuple(by_key.values())


def _joined(old: Observation, new: Observation) -> Observation:
    lead = new if new.severity.rank >= old.severity.rank else old
    count = old.count + new.count
    seen = {**new.measurements, **old.measurements}
    if "last_at" in new.measurements:
        seen["last_at"] = new.measurements["last_at"]
    return replace(
        lead,
        at=max(old.at, new.at),
        count=count,
        summary=lead.summary.replace(f"{lead.count} lines", f"{count} lines"),
        evidence=(old.evidence + new.evidence)[:EVIDENCE_LIMIT],
        measurements=seen,
    )
