"""From a scene to its diagnosis: the first signature whose facts are all there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watchdog.diagnosis.extract import host_facts, loads_since, server_facts, vitals_evidence
from watchdog.diagnosis.facts import Fact, HostView, Scene, Seen
from watchdog.diagnosis.signatures import HOST_SIGNATURES, SERVER_SIGNATURES, Signature
from watchdog.kinds import kind_of
from watchdog.model import Confidence, Diagnosis, Evidence, Nature, Verdict
from watchdog.reasons import UNANSWERED, ServerReason
from watchdog.vitals import Load, gpu_words

_FROM_HOSTS = frozenset(
    {
        Fact.HOST_ANSWERS, Fact.HOST_SILENT, Fact.HOST_GONE, Fact.GPU_SPINS, Fact.GPU_MEMORY_IDLE, Fact.GPU_WORKS,
        Fact.GPU_WEDGED, Fact.MEMORY_LOW, Fact.MEMORY_PRESSED, Fact.NVRM_OOM, Fact.OOM_KILLED, Fact.REBOOTED,
        Fact.REBOOT_TOLD, Fact.LINK_BEFORE, Fact.LINK_AFTER, Fact.GPU_FAULT, Fact.KERNEL_STUCK,
    }
)  # fmt: skip


def diagnose(scene: Scene) -> Diagnosis | None:
    """What most likely lies behind the scene's incident; None for what explains itself (kernel lines, ourselves)."""
    kind = kind_of(scene.incident.key)
    if scene.incident.nature is Nature.OCCURRENCE or scene.newest is None or kind is None or not kind.is_diagnosed:
        return None
    if kind.label == "server":
        return _of_server(scene)
    return _of_host(scene)


def matching(
    table: Sequence[Signature], common: Mapping[Fact, Seen], by_host: Mapping[str, Mapping[Fact, Seen]]
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


def _of_server(scene: Scene) -> Diagnosis:
    by_host = {host.name: host_facts(host, scene) for host in scene.hosts}
    common = server_facts(scene) | _across(scene, by_host)
    found = matching(SERVER_SIGNATURES, common, by_host)
    if found is None:
        return Diagnosis(
            name="unknown",
            confidence=Confidence.CANNOT_TELL,
            short="cause not known",
            sentence="nothing more is known",
            evidence=_looks(scene, ()),
        )
    signature, host = found
    extra = {"missing": _missing(scene, common), "clean": _clean(scene, host, by_host)}
    return _told(signature, host, {**common, **by_host.get(host, {})}, extra, scene)


def _of_host(scene: Scene) -> Diagnosis | None:
    by_host = {host.name: host_facts(host, scene) for host in scene.hosts}
    found = matching(HOST_SIGNATURES, _servers(scene), by_host)
    if found is None:
        return None
    signature, host = found
    return _told(signature, host, {**_servers(scene), **by_host.get(host, {})}, {}, scene)


def _told(
    signature: Signature, host: str, facts: Mapping[Fact, Seen], extra: Mapping[str, str], scene: Scene
) -> Diagnosis:
    words = {**{fact.value: facts[fact].words for fact in signature.needs}, **extra, "host": host}
    used = tuple(one for fact in sorted(signature.needs) for one in facts[fact].evidence)
    return Diagnosis(
        name=signature.name,
        confidence=signature.confidence,
        short=_filled(signature.short, words),
        sentence=_filled(signature.words, words),
        evidence=_looks(scene, used),
        look_at=_filled(signature.look_at, words),
    )


def _filled(template: str, words: Mapping[str, str]) -> str:
    """`template` with its names replaced; the words themselves may hold braces, which mean nothing."""
    for name, text in words.items():
        template = template.replace("{" + name + "}", text.replace("{", "(").replace("}", ")"))
    return template


def _looks(scene: Scene, used: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """What the diagnosis rests on, and how each host looked since the trouble began; each fact once, in time order."""
    looked = tuple(
        one
        for host in scene.hosts
        if host.vitals is not None and host.vitals.at >= scene.incident.since
        for one in vitals_evidence(host)
    )
    return tuple(sorted(dict.fromkeys((*looked, *used)), key=lambda one: -1.0 if one.at is None else one.at))


def _across(scene: Scene, by_host: Mapping[str, Mapping[Fact, Seen]]) -> dict[Fact, Seen]:
    """Facts that need more than one host, or none."""
    found: dict[Fact, Seen] = {}
    gone = [name for name, facts in by_host.items() if Fact.HOST_GONE in facts]
    if len(gone) >= 2 and len(gone) == len(by_host):
        evidence = tuple(one for name in gone for one in by_host[name][Fact.HOST_GONE].evidence)
        found[Fact.ALL_GONE] = Seen(", ".join(gone), evidence)
    for host in scene.hosts:
        for one in loads_since(host, scene.incident.since):
            if one.load is Load.EMPTY:
                found.setdefault(Fact.GPU_EMPTY, Seen(f"{host.name}'s {gpu_words(one)}", vitals_evidence(host)))
    if scene.own_road:
        found[Fact.OWN_ROAD] = Seen(scene.own_road)
    return found


def _servers(scene: Scene) -> dict[Fact, Seen]:
    """How the servers on the host of a host's incident are, since it began."""
    found: dict[Fact, Seen] = {}
    for seen in scene.servers:
        if seen.at + seen.duration_s < scene.incident.since:
            continue
        name = seen.labels.get("server", seen.key)
        if seen.verdict is Verdict.PASS:
            found.setdefault(Fact.SERVERS_ALIVE, Seen(f"{name} on it still gives text"))
        elif seen.verdict is not Verdict.FAIL or seen.measurements.get("engine_answered"):
            continue
        elif seen.reason == ServerReason.UNREACHABLE:
            found.setdefault(Fact.SERVERS_UNREACHABLE, Seen(f"{name} on it cannot be reached"))
            found.setdefault(Fact.SERVERS_STOPPED, Seen(f"{name} on it cannot be reached"))
        elif seen.reason in UNANSWERED:
            found.setdefault(Fact.SERVERS_STOPPED, Seen(f"{name} on it gives no answer"))
    return found


def _missing(scene: Scene, common: Mapping[Fact, Seen]) -> str:
    """What would have told busy from hung, and was not there."""
    missing = []
    if not common.keys() & {Fact.FROZEN, Fact.LOST, Fact.BUSY_COUNTER}:
        missing.append("no counter of its engine tells whether it moves")
    loads = [one for host in scene.hosts for one in loads_since(host, scene.incident.since)]
    if any(one.load is Load.FULL for one in loads):
        missing.append("a GPU is full, and its usual power is not learned yet")
    elif not loads:
        missing.append("its GPUs have not been seen since")
    return "".join(f"; {one}" for one in missing)


def _clean(scene: Scene, host: str, by_host: Mapping[str, Mapping[Fact, Seen]]) -> str:
    """The other hosts whose kernel said nothing, as far as it was read since the trouble began."""
    spoke = {Fact.LINK_BEFORE, Fact.LINK_AFTER, Fact.GPU_FAULT, Fact.KERNEL_STUCK}
    clean = [other.name for other in scene.hosts if other.name != host and _read_clean(other, scene)]
    return "".join(f"; {name} clean" for name in clean if not spoke & by_host[name].keys())


def _read_clean(host: HostView, scene: Scene) -> bool:
    seen = host.kernel_log
    return (
        seen is not None and seen.verdict is Verdict.PASS and seen.at >= scene.incident.since and not host.occurrences
    )
