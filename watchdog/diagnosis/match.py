"""From a given to its diagnosis: the first signature whose facts are all there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watchdog.diagnosis.extract import beside_other_ranks, host_facts, loads_since, server_facts, vitals_evidence
from watchdog.diagnosis.facts import Basis, DiagnosisInput, Fact, HostView
from watchdog.diagnosis.signatures import HOST_SIGNATURES, SERVER_SIGNATURES, Signature
from watchdog.kinds import kind_of
from watchdog.model import Confidence, Diagnosis, Evidence, Nature, Verdict
from watchdog.reasons import UNANSWERED, ServerReason
from watchdog.vitals import Load, gpu_words

_FROM_HOSTS = frozenset(
    {
        Fact.HOST_AWAY, Fact.SHUT_DOWN, Fact.RESTARTING, Fact.RESTART_LATE, Fact.OVERHEATED,
        Fact.HOST_ANSWERS, Fact.HOST_SILENT, Fact.HOST_GONE, Fact.GPU_SPINS, Fact.GPU_LOW, Fact.GPU_MEMORY_IDLE,
        Fact.GPU_READS_NOTHING, Fact.GPU_WORKS, Fact.GPU_WEDGED, Fact.RANK_BEHIND, Fact.RANK_GONE, Fact.RANKS_SILENT,
        Fact.MEMORY_LOW, Fact.MEMORY_PRESSED, Fact.NVRM_OOM,
        Fact.OOM_KILLED,
        Fact.REBOOTED, Fact.REBOOT_NOTIFIED, Fact.LINK_BEFORE, Fact.LINK_AFTER, Fact.GPU_FAULT, Fact.KERNEL_STUCK,
    }
)  # fmt: skip

_SIGNS_OF_HANG = frozenset(
    {Fact.GPU_SPINS, Fact.HOST_SILENT, Fact.RANK_BEHIND, Fact.RANK_GONE, Fact.RANKS_SILENT}
)  # fmt: skip


def diagnose(given: DiagnosisInput) -> Diagnosis | None:
    """What most likely lies behind the given's incident; None for what explains itself (kernel lines, ourselves)."""
    kind = kind_of(given.incident.key)
    if given.incident.nature is Nature.OCCURRENCE or given.newest is None or kind is None or not kind.is_diagnosed:
        return None
    if kind.label == "server":
        return _of_server(given)
    return _of_host(given)


def signs_of_hang(given: DiagnosisInput) -> frozenset[Fact]:
    """What says, besides the engine's own counters, that a server hangs: a GPU at work on nothing, a silent
    host, a rank that NCCL itself finds behind or gone, or an NCCL that does not answer.
    """
    found = {fact for facts in _facts_by_host(given).values() for fact in facts}
    return frozenset(found & _SIGNS_OF_HANG)


def matching(
    table: Sequence[Signature], common: Mapping[Fact, Basis], by_host: Mapping[str, Mapping[Fact, Basis]]
) -> tuple[Signature, str] | None:
    """The first signature of `table` whose facts are all there, and the host they are from ("" for none).

    Facts of different hosts are never joined; `common` facts go with each of them.
    """
    for signature in table:
        for host, facts in by_host.items():
            if signature.needs <= common.keys() | facts.keys():
                return signature, host if signature.needs & _FROM_HOSTS else ""
        if not by_host and signature.needs <= common.keys():
            return signature, ""
    return None


def _facts_by_host(given: DiagnosisInput) -> dict[str, dict[Fact, Basis]]:
    """What is known of each host of a server, its GPUs judged beside those of the others."""
    loads = beside_other_ranks(given.hosts, given.incident.since)
    return {host.name: host_facts(host, given, loads[host.name]) for host in given.hosts}


def _of_server(given: DiagnosisInput) -> Diagnosis:
    by_host = _facts_by_host(given)
    common = server_facts(given) | _across_hosts(given, by_host)
    found = matching(SERVER_SIGNATURES, common, by_host)
    if found is None:
        return Diagnosis(
            name="unknown",
            confidence=Confidence.CANNOT_TELL,
            short="cause unknown",
            sentence="nothing else is known",
            evidence=_all_evidence(given, ()),
        )
    signature, host = found
    extra = {"missing": _missing(given, common), "clean": _clean(given, host, by_host)}
    return _diagnosis(signature, host, {**common, **by_host.get(host, {})}, extra, given)


def _of_host(given: DiagnosisInput) -> Diagnosis | None:
    by_host = {host.name: host_facts(host, given) for host in given.hosts}
    found = matching(HOST_SIGNATURES, _servers(given), by_host)
    if found is None:
        return None
    signature, host = found
    return _diagnosis(signature, host, {**_servers(given), **by_host.get(host, {})}, {}, given)


def _diagnosis(
    signature: Signature, host: str, facts: Mapping[Fact, Basis], extra: Mapping[str, str], given: DiagnosisInput
) -> Diagnosis:
    words = {**{fact.value: facts[fact].words for fact in signature.needs}, **extra, "host": host}
    used = tuple(one for fact in sorted(signature.needs) for one in facts[fact].evidence)
    return Diagnosis(
        name=signature.name,
        confidence=signature.confidence,
        short=_fill(signature.short, words),
        sentence=_fill(signature.words, words),
        evidence=_all_evidence(given, used),
        look_at=_fill(signature.look_at, words),
    )


def _fill(template: str, words: Mapping[str, str]) -> str:
    """`template` with its names replaced; the words themselves may hold braces, which mean nothing."""
    for name, text in words.items():
        template = template.replace("{" + name + "}", text.replace("{", "(").replace("}", ")"))
    return template


def _all_evidence(given: DiagnosisInput, used: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """What the diagnosis rests on, and how each host looked since the trouble began; each fact once, in time order."""
    looked = tuple(
        one
        for host in given.hosts
        if host.vitals is not None and host.vitals.at >= given.incident.since
        for one in vitals_evidence(host)
    )
    return tuple(sorted(dict.fromkeys((*looked, *used)), key=lambda one: -1.0 if one.at is None else one.at))


def _across_hosts(given: DiagnosisInput, by_host: Mapping[str, Mapping[Fact, Basis]]) -> dict[Fact, Basis]:
    """Facts that need more than one host, or none."""
    found: dict[Fact, Basis] = {}
    gone = [name for name, facts in by_host.items() if Fact.HOST_GONE in facts]
    if len(gone) >= 2 and len(gone) == len(by_host):
        evidence = tuple(one for name in gone for one in by_host[name][Fact.HOST_GONE].evidence)
        found[Fact.ALL_GONE] = Basis(", ".join(gone), evidence)
    for host in given.hosts:
        for one in loads_since(host, given.incident.since):
            if one.load is Load.EMPTY:
                found.setdefault(Fact.GPU_EMPTY, Basis(f"{host.name}'s {gpu_words(one)}", vitals_evidence(host)))
    for name, facts in by_host.items():
        if Fact.GPU_SPINS in facts:
            found.setdefault(Fact.GPU_HANGS, facts[Fact.GPU_SPINS])
        elif Fact.GPU_WEDGED in facts:
            found.setdefault(Fact.GPU_HANGS, Basis(f"the GPU driver of {name} hangs", facts[Fact.GPU_WEDGED].evidence))
    if given.own_network:
        found[Fact.OWN_NETWORK] = Basis(given.own_network)
    return found


def _servers(given: DiagnosisInput) -> dict[Fact, Basis]:
    """How the servers on the host of a host's incident are, since it began."""
    found: dict[Fact, Basis] = {}
    for seen in given.servers:
        if seen.at + seen.duration_s < given.incident.since:
            continue
        name = seen.labels.get("server", seen.key)
        if seen.verdict is Verdict.PASS:
            found.setdefault(Fact.SERVERS_ALIVE, Basis(f"{name} on it still gives text"))
        elif seen.verdict is not Verdict.FAIL or seen.measurements.get("engine_answered"):
            continue
        elif seen.reason == ServerReason.UNREACHABLE:
            found.setdefault(Fact.SERVERS_UNREACHABLE, Basis(f"{name} on it cannot be reached"))
            found.setdefault(Fact.SERVERS_STOPPED, Basis(f"{name} on it cannot be reached"))
        elif seen.reason in UNANSWERED:
            found.setdefault(Fact.SERVERS_STOPPED, Basis(f"{name} on it does not answer"))
    return found


def _missing(given: DiagnosisInput, common: Mapping[Fact, Basis]) -> str:
    """What would have told busy from hung, and was not there."""
    missing = []
    if not common.keys() & {Fact.FROZEN, Fact.LOST, Fact.BUSY_COUNTER}:
        missing.append("no engine counter tells whether it makes progress")
    loads = [one for host in given.hosts for one in loads_since(host, given.incident.since)]
    if any(one.load is Load.FULL for one in loads):
        missing.append("a GPU is at full load, and its usual power is not known yet")
    elif not loads:
        missing.append("its GPUs have not been checked since")
    return "".join(f"; {one}" for one in missing)


def _clean(given: DiagnosisInput, host: str, by_host: Mapping[str, Mapping[Fact, Basis]]) -> str:
    """The other hosts whose kernel said nothing, as far as it was read since the trouble began."""
    spoke = {Fact.LINK_BEFORE, Fact.LINK_AFTER, Fact.GPU_FAULT, Fact.KERNEL_STUCK}
    clean = [other.name for other in given.hosts if other.name != host and _read_clean(other, given)]
    return "".join(f"; {name} clean" for name in clean if not spoke & by_host[name].keys())


def _read_clean(host: HostView, given: DiagnosisInput) -> bool:
    seen = host.kernel_log
    return (
        seen is not None and seen.verdict is Verdict.PASS and seen.at >= given.incident.since and not host.occurrences
    )
