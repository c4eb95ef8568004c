"""Scenes for a diagnosis, built the way the daemon sees them: probes, vitals, readings, kernel lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchdog.diagnosis import DiagnosisInput, HostView
from watchdog.model import Cause, Evidence, Incident, Nature, Observation, Severity, Verdict
from watchdog.vitals import Bounds, Gpu, GpuTool, Vitals, judge_gpus, measurements_of, summary

SINCE = 1_795_000_000.0
GIB = 2.0**30
GB10 = Bounds(11.0, 45.0)


def probe(
    reason: str = "no_reply", numbers: Mapping[str, float] | None = None, verdict: Verdict = Verdict.FAIL
) -> Observation:
    """A failing probe as `generation/<server>` tells it; `numbers` are what it saw of the engine."""
    return Observation(
        key="generation/deepseek",
        verdict=verdict,
        reason=reason,
        severity=Severity.PAGE,
        summary=f"{reason} said the server",
        at=SINCE + 240,
        duration_s=60,
        labels={"server": "deepseek"},
        measurements=numbers or {},
    )


FROZEN = {
    "engine_answered": 1.0,
    "engine_running": 1.0,
    "engine_waiting": 0.0,
    "engine_frozen": 1.0,
    "engine_still_windows": 3.0,
}
BUSY = {"engine_answered": 1.0, "engine_running": 1.0, "engine_waiting": 7.0, "engine_busy": 1.0}


def gpu(util: float | None, power_w: float | None, memory_util: float | None = 0.0, index: int = 0) -> Gpu:
    """One GPU as nvidia-smi tells it."""
    return Gpu(index=index, name="NVIDIA GB10", util=util, power_w=power_w, memory_util=memory_util)


def vitals(
    host: str = "head",
    *gpus: Gpu,
    at: float = SINCE + 70,
    bounds: Bounds = GB10,
    available: float = 24 * GIB,
    drop: float = 0.0,
    uptime_s: float = 900_000.0,
    pressure: float = 0.0,
    tool: GpuTool = GpuTool.DONE,
    clock_offset_s: float = 0.0,
) -> Observation:
    """Vitals that were read."""
    read = Vitals(
        boot="a" * 32,
        uptime_s=uptime_s,
        memory_total=119 * GIB,
        memory_available=available,
        pressure={"some_avg10": pressure},
        gpus=gpus,
        gpu_tool=tool,
    )
    judged = judge_gpus(gpus, lambda _: bounds)
    return Observation(
        key=f"vitals/{host}",
        verdict=Verdict.PASS,
        reason="ok",
        severity=Severity.WARN,
        summary=summary(read, judged),
        subject=host,
        at=at,
        labels={"host": host},
        measurements=measurements_of(read, judged, clock_offset_s=clock_offset_s, drop=drop),
    )


def unread(
    host: str = "head",
    reason: str = "silent",
    words: str = "",
    at: float = SINCE + 130,
    *,
    answered: bool = False,
) -> Observation:
    """Vitals that could not be read."""
    said = {
        "silent": "192.0.2.10:22 accepts connections, but its SSH server sent nothing for 30 s",
        "timeout": "192.0.2.10:22 did not answer a TCP connection within 30 s",
        "unroutable": "192.0.2.10 does not answer on its network (no route to host)",
        "refused": "nothing listens on 192.0.2.10:22 (connection refused)",
    }
    return Observation(
        key=f"vitals/{host}",
        verdict=Verdict.UNKNOWN,
        reason=reason,
        severity=Severity.INFO,
        summary=words or said[reason],
        subject=host,
        detail="; no vitals",
        at=at,
        labels={"host": host},
        answered=answered,
    )


def scanned(host: str = "head", reason: str = "ok", at: float = SINCE + 100, words: str = "") -> Observation:
    """A reading of the kernel log."""
    return Observation(
        key=f"kernel_log/{host}",
        verdict=Verdict.PASS if reason == "ok" else Verdict.FAIL,
        reason=reason,
        severity=Severity.WARN,
        summary=words or reason,
        subject=host,
        at=at,
        labels={"host": host},
    )


def line(
    kind: str = "pcie.aer.fatal",
    host: str = "head",
    at: float = SINCE - 40,
    severity: Severity = Severity.PAGE,
    **more: Any,
) -> Incident:
    """A kernel occurrence that is still open."""
    device = "0000:01:00.0"
    values: dict[str, Any] = {
        "id": "6f39e000",
        "key": f"kernel_log/{host}/{kind}/{device}",
        "nature": Nature.OCCURRENCE,
        "cause": Cause.OCCURRENCE,
        "severity": severity,
        "opened_severity": severity,
        "reason": kind,
        "summary": kind,
        "subject": host,
        "since": at,
        "opened_at": at,
        "last_at": at,
        "evidence": (Evidence(at, f"{host} kernel", f"raw line of {kind}"),),
        "labels": {"host": host, "kind": kind, "device": device},
    }
    return Incident(**{**values, **more})


def trouble(key: str = "generation/deepseek", count: int = 3, **more: Any) -> Incident:
    """The incident to be explained."""
    kind, _, target = key.partition("/")
    values: dict[str, Any] = {
        "id": "6f39e044",
        "key": key,
        "nature": Nature.CONDITION,
        "cause": Cause.STRIKES,
        "severity": Severity.PAGE,
        "opened_severity": Severity.PAGE,
        "reason": "no_reply",
        "summary": "no reply within 60 s",
        "since": SINCE,
        "opened_at": SINCE + 240,
        "last_at": SINCE + 240,
        "last_good_at": SINCE - 120,
        "count": count,
        "labels": {"server" if kind != "kernel_log" else "host": target},
    }
    return Incident(**{**values, **more})


def host(name: str = "head", *occurrences: Incident, **more: Any) -> HostView:
    """What is known of one host."""
    return HostView(name=name, occurrences=occurrences, **more)


def seen(
    name: str, *gpus: Gpu, lines: tuple[Incident, ...] = (), kernel_log: Observation | None = None, **more: Any
) -> HostView:
    """A host whose vitals were read."""
    return host(name, *lines, vitals=vitals(name, *gpus, **more), kernel_log=kernel_log)


def scene(newest: Observation, *hosts: HostView, count: int = 3, **more: Any) -> DiagnosisInput:
    """All of it at the third strike."""
    key = newest.key if newest.verdict is Verdict.FAIL else "generation/deepseek"
    return DiagnosisInput(
        incident=more.pop("incident", trouble(key, count)), newest=newest, now=SINCE + 300, hosts=hosts, **more
    )
