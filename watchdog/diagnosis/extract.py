"""Facts about one host, drawn from its vitals, the reading of its kernel log, and what its kernel said.

A host's state counts only from when the trouble began; of two looks the newer one is right. What the kernel said is
set beside the first miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchdog.diagnosis.facts import Basis, DiagnosisInput, Fact, HostView
from watchdog.kinds import GENERATION, KERNEL_LOG, ORDERED, REBOOTED, row_of
from watchdog.model import Evidence, Incident, Observation, Severity, Verdict
from watchdog.reasons import HostReason, ServerReason
from watchdog.text import duration, gib
from watchdog.vitals import JudgedGpu, Load, beside, gpu_words, loads_of

BEFORE_S = 600.0
"""Memory that ran low up to so long before the first miss counts."""
KERNEL_S = 3600.0
"""Kernel lines up to so long before the first miss count."""
RESTART_S = 900.0
"""A machine that was told to restart has so long to come back before its absence is a fault."""
LOW_MEMORY = 0.03
FALLEN = 0.2
SOME_PRESSURE = 20.0
FULL_PRESSURE = 5.0

_LINK = ("pcie.", "mlx5.", "smmu.", "iommu.", "net.")
_GPU = ("gpu.",)
_STUCK = ("lockup", "hung_task", "oops", "panic", "serror", "hw.fatal", "mce")


def host_facts(host: HostView, given: DiagnosisInput, loads: Iterable[JudgedGpu] | None = None) -> dict[Fact, Basis]:
    """What is known of `host` since the trouble began; `loads` are its GPUs, judged beside those of other hosts."""
    found = _reachability(host, given)
    vitals = host.vitals
    if vitals is not None and _was_read(vitals):
        if vitals.at >= given.incident.since:
            found |= _gpu(host, vitals, loads_of(vitals.measurements) if loads is None else loads)
            found |= _ranks(vitals)
        if vitals.at >= given.incident.since - BEFORE_S:
            found |= _memory(host, vitals)
    return found | _kernel(host, given) | _reboot(host, given) | _order(host, given)


def loads_since(host: HostView, since: float) -> tuple[JudgedGpu, ...]:
    """The host's GPUs as they were seen after `since`."""
    vitals = host.vitals
    return loads_of(vitals.measurements) if vitals is not None and vitals.at >= since and _was_read(vitals) else ()


def vitals_evidence(host: HostView) -> tuple[Evidence, ...]:
    """The newest vitals as a line of evidence."""
    vitals = host.vitals
    if vitals is None:
        return ()
    return (Evidence(vitals.at, f"{host.name} vitals", vitals.phrase),)


def _was_read(seen: Observation) -> bool:
    return seen.verdict is not Verdict.UNKNOWN


def _reachability(host: HostView, given: DiagnosisInput) -> dict[Fact, Basis]:
    looks = [look for look in (host.vitals, host.kernel_log) if look is not None and look.at >= given.incident.since]
    if given.incident.key == KERNEL_LOG.key(host.name) and given.newest is not None:
        looks.append(given.newest)
    if not looks:
        return {}
    newest = max(looks, key=lambda look: look.at)
    seen = Basis(newest.summary, (Evidence(newest.at, host.name, newest.summary), *newest.evidence))
    fact = _fact(newest)
    if fact is Fact.HOST_ANSWERS or newest.verdict is Verdict.PASS:
        return {Fact.HOST_ANSWERS: Basis(f"{host.name} itself answers")}
    if newest.reason == HostReason.TIMEOUT and newest.answered:
        return {Fact.HOST_ANSWERS: Basis(f"{host.name} answers, slowly")}
    return {fact: seen, Fact.HOST_AWAY: seen} if fact in (Fact.HOST_SILENT, Fact.HOST_GONE) else {}


def beside_other_ranks(hosts: Sequence[HostView], since: float) -> dict[str, tuple[JudgedGpu, ...]]:
    """The GPUs of each host as they were seen after `since`, judged beside those of the others: ranks of one server."""
    alone = {host.name: loads_since(host, since) for host in hosts}
    return {
        name: tuple(beside(one, (gpu for other, gpus in alone.items() if other != name for gpu in gpus)) for one in own)
        for name, own in alone.items()
    }


def _gpu(host: HostView, vitals: Observation, loads: Iterable[JudgedGpu]) -> dict[Fact, Basis]:
    found: dict[Fact, Basis] = {}
    evidence = vitals_evidence(host)
    for one in loads:
        words = f"{host.name}'s {gpu_words(one)}"
        if one.load is Load.SPINNING:
            found.setdefault(Fact.GPU_SPINS, Basis(words, evidence))
            if one.gpu.memory_util is not None and one.gpu.memory_util < 1:
                found.setdefault(Fact.GPU_MEMORY_IDLE, Basis("", evidence))
            if one.reads_no_memory:
                found.setdefault(Fact.GPU_READS_NOTHING, Basis("", evidence))
        elif one.load is Load.LOW:
            found.setdefault(Fact.GPU_LOW, Basis(words, evidence))
        elif one.load is Load.WORKING:
            found.setdefault(Fact.GPU_WORKS, Basis(words, evidence))
    if vitals.measurements.get("gpu_wedged"):
        found[Fact.GPU_WEDGED] = Basis("nvidia-smi hangs", evidence)
    return found


_RANKS = {
    "nccl_mismatch": Fact.RANK_BEHIND,
    "nccl_missing": Fact.RANK_GONE,
    "nccl_dead": Fact.RANK_GONE,
    "nccl_hangs": Fact.RANKS_SILENT,
}


def _ranks(vitals: Observation) -> dict[Fact, Basis]:
    """What NCCL's own record, read with these vitals, says of a hang."""
    said = Basis("; ".join(fact.text for fact in vitals.evidence), vitals.evidence)
    return {fact: said for name, fact in _RANKS.items() if vitals.measurements.get(name)}


def _memory(host: HostView, vitals: Observation) -> dict[Fact, Basis]:
    numbers, evidence = vitals.measurements, vitals_evidence(host)
    available, total = numbers.get("memory_available_bytes"), numbers.get("memory_total_bytes")
    found: dict[Fact, Basis] = {}
    if available is None or total is None or total <= 0:
        return found
    if available < LOW_MEMORY * total or vitals.reason == HostReason.LOW_MEMORY:
        words = f"{host.name} has {gib(available)} of {gib(total)} memory left"
        found[Fact.MEMORY_LOW] = Basis(words, evidence)
    some, full = numbers.get("memory_some_avg10", 0.0), numbers.get("memory_full_avg10", 0.0)
    drop = numbers.get("memory_drop_bytes", 0.0)
    if some >= SOME_PRESSURE or full >= FULL_PRESSURE:
        found[Fact.MEMORY_PRESSED] = Basis(f"programs wait for memory {max(some, full):.0f} % of the time", evidence)
    elif drop >= FALLEN * total:
        found[Fact.MEMORY_PRESSED] = Basis(f"it fell by {gib(drop)} within half an hour", evidence)
    return found


def _kernel(host: HostView, given: DiagnosisInput) -> dict[Fact, Basis]:
    found: dict[Fact, Basis] = {}
    since = given.incident.since
    # The first miss is dated by the start of its probe: a line within the probe came before the miss was known.
    probe_s = given.newest.duration_s if given.newest is not None else 0.0
    restarts = [one.since for one in host.occurrences if one.reason == REBOOTED.name and one.since <= since]
    boot_at = max(restarts, default=0.0)
    cited = [(_nearest(one, since + probe_s), one) for one in host.occurrences]

    def order(pair: tuple[Evidence | None, Incident]) -> tuple[bool, int, float]:
        at = _at(*pair)
        return at < boot_at, -pair[1].severity.rank, abs(at - since)

    for line, one in sorted(cited, key=order):
        if one.last_at < since - KERNEL_S:
            continue
        at = _at(line, one)
        before = at <= since + probe_s
        device = one.labels.get("device", "-")
        what = one.reason if device in {"-", "(many)"} else f"{one.reason} on {device}"
        seen = Basis(f"{host.name}: {what} {_beside(at, since, probe_s)}", () if line is None else (line,))
        fact = _fact_of(one, before=before)
        if fact is not None:
            found.setdefault(fact, seen)
    return found


def _fact_of(one: Incident, *, before: bool) -> Fact | None:
    kind, grave = one.reason, one.severity is Severity.PAGE
    if kind == "oom":
        return Fact.OOM_KILLED
    if kind == "gpu.nvrm_oom":
        return Fact.NVRM_OOM
    if grave and kind.startswith(_LINK):
        return Fact.LINK_BEFORE if before else Fact.LINK_AFTER
    if grave and kind.startswith(_GPU):
        return Fact.GPU_FAULT
    if grave and kind == "thermal":
        return Fact.OVERHEATED
    return Fact.KERNEL_STUCK if grave and kind.startswith(_STUCK) else None


def _reboot(host: HostView, given: DiagnosisInput) -> dict[Fact, Basis]:
    """A restart since the server last was well: told by its kernel log, or by its uptime alone."""
    since = given.incident.since
    well = given.incident.last_good_at if given.incident.last_good_at is not None else since - BEFORE_S
    found: dict[Fact, Basis] = {}
    vitals = host.vitals
    uptime_s = vitals.measurements.get("uptime_s") if vitals is not None else None
    if vitals is not None and uptime_s is not None and vitals.at - uptime_s > well:
        words = f"{host.name} restarted {_beside(vitals.at - uptime_s, since, 0.0)}"
        found[Fact.REBOOTED] = Basis(words, vitals_evidence(host))
    for one in host.occurrences:
        if one.reason == REBOOTED.name and one.since > well:
            found[Fact.REBOOT_NOTIFIED] = Basis(one.detail, one.evidence[-1:])
            found.setdefault(Fact.REBOOTED, Basis(f"{host.name} restarted", ()))
    return found


def _order(host: HostView, given: DiagnosisInput) -> dict[Fact, Basis]:
    """That the host was told to end and has not outlived that: by its newest scan, or since then by the live stream."""
    scan = given.newest if given.incident.key == KERNEL_LOG.key(host.name) else host.kernel_log
    told = [
        (one.since, one.labels.get("order", ""), one.evidence[-1:])
        for one in host.occurrences
        if one.reason == ORDERED.name and (scan is None or scan.at < one.since)
    ]
    if not told and scan is not None:
        told = [
            (scan.measurements[name], name, ()) for name in ("shutdown_at", "restart_at") if name in scan.measurements
        ]
    if not told:
        return {}
    at, name, evidence = max(told, key=lambda one: one[0])
    when = _beside(at, given.incident.since, 0.0)
    if name == "shutdown_at":
        return {Fact.SHUT_DOWN: Basis(f"it was told to shut down {when}", evidence)}
    fact = Fact.RESTARTING if given.now - at <= RESTART_S else Fact.RESTART_LATE
    return {fact: Basis(f"it was told to restart {when}", evidence)}


def _nearest(one: Incident, until: float) -> Evidence | None:
    """The last line up to `until`; the first one where all came later. The times of a given are those of our clock."""
    timed = [(fact.at, fact) for fact in one.evidence if fact.at is not None]
    before = [pair for pair in timed if pair[0] <= until]
    if before:
        return max(before, key=lambda pair: pair[0])[1]
    if timed:
        return min(timed, key=lambda pair: pair[0])[1]
    return next(iter(one.evidence), None)


def _at(line: Evidence | None, one: Incident) -> float:
    return one.since if line is None or line.at is None else line.at


def _beside(at: float, since: float, probe_s: float) -> str:
    """When something happened, told by the first miss, whose probe took `probe_s`."""
    if at <= since:
        return f"{duration(since - at)} before the first miss"
    return "during the first missed probe" if at <= since + probe_s else f"{duration(at - since)} after the first miss"


# Facts about a server, drawn from its own failing probe (reasons of `generation/<server>`, design §5.1).

REPEATED = 3
"""Windows in a row with a frozen counter before it is no longer a long prefill (260k tokens took a GB10 550 s)."""

_COUNTERS = {
    "engine_frozen": Fact.FROZEN,
    "engine_lost": Fact.LOST,
    "engine_busy": Fact.BUSY_COUNTER,
    "engine_reset": Fact.ENGINE_RESTARTED,
    "engine_partial": Fact.PARTLY_FROZEN,
    "engine_works_for_others": Fact.WORKS_FOR_OTHERS,
    "engine_prefilling": Fact.PREFILLING,
    "engine_prefill_hidden": Fact.PREFILL_HIDDEN,
}


def server_facts(given: DiagnosisInput) -> dict[Fact, Basis]:
    """What the newest failing probe of the incident's server says; nothing without one."""
    newest = given.newest
    if newest is None or newest.verdict is not Verdict.FAIL:
        return {}
    reason, said = newest.reason, Basis(newest.summary)
    found: dict[Fact, Basis] = {}
    fact, row = _fact(newest), row_of(newest.key, newest.reason)
    if fact is not None:
        found[fact] = said
    if GENERATION.has(newest.key) and (row is None or row.sick):
        found[Fact.STOPPED] = said
    for name, fact in _COUNTERS.items():
        if newest.measurements.get(name):
            found[fact] = Basis(_queue(newest))
    found |= _ended_how(newest, found)
    if len(set(given.incident.reasons)) > 1 and found.keys() & {Fact.CONFIGURATION, Fact.MODEL_GONE}:
        found[Fact.DIFFERENT] = Basis(", then ".join(given.incident.reasons))
    if Fact.PREFILL_HIDDEN in found and Fact.PARTLY_FROZEN in found:
        found[Fact.PARTLY_STILL] = found.pop(Fact.PARTLY_FROZEN)
    if reason == ServerReason.BUSY and Fact.BUSY_COUNTER not in found:
        found[Fact.SAYS_BUSY] = said
    http = _http_up(newest)
    if http:
        found[Fact.HTTP_UP] = Basis(http)
    elif reason in {ServerReason.NO_REPLY, ServerReason.UNREACHABLE}:
        found[Fact.SILENT_API] = said
    still = newest.measurements.get("engine_still_windows", 0.0)
    if still >= REPEATED:
        found[Fact.REPEATED] = Basis(f"{still:g}")
    return found


def _ended_how(newest: Observation, found: dict[Fact, Basis]) -> dict[Fact, Basis]:
    """Whether our request went unanswered, or its stream was closed: that says of busy or hung what counters say."""
    row, said = row_of(newest.key, newest.reason), Basis(newest.summary)
    closed = newest.measurements.get("stream_closed")
    if newest.measurements.get("stream_said") and row is not None and row.unanswered:
        return {Fact.UNANSWERED: said, Fact.SAID: said}
    ended = {Fact.BROKEN_OFF: said} if closed else {}
    if row is not None and row.unanswered and (not closed or found.keys() & set(_COUNTERS.values())):
        ended[Fact.UNANSWERED] = said
    return ended


def _http_up(newest: Observation) -> str:
    """How we know that HTTP is up, or "". An open port alone proves only the kernel."""
    if newest.measurements.get("engine_answered"):
        return "its metrics still answer"
    row = row_of(newest.key, newest.reason)
    if (row is not None and row.opened_reply) or newest.measurements.get("http_status") == 200:
        return "the HTTP reply opens"
    return ""


def _fact(seen: Observation) -> Fact | None:
    """The fact that the reason of an observation stands for."""
    if seen.measurements.get("wrong_scheme"):
        return Fact.CONFIGURATION
    row = row_of(seen.key, seen.reason)
    return Fact(row.fact) if row is not None and row.fact else None


def _queue(newest: Observation) -> str:
    """`3 running, 7 waiting`, as far as the engine told."""
    named = (("engine_running", "running"), ("engine_waiting", "waiting"))
    known = [f"{newest.measurements[key]:g} {word}" for key, word in named if key in newest.measurements]
    return ", ".join(known) or "queue length unknown"
