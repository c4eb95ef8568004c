"""Two independent signs of one event within a minute: what a sign is, how it reaches us, which incident leads.

One sign proves nothing: three failures in a row stay the rule. Two that reach us by different channels are no accident,
so they page at once, together. What is seen by one channel twice is one sign: a lost network makes a host and its
server silent alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchdog.kinds import FOLLOW, GENERATION, KERNEL_LOG, VITALS, row_of
from watchdog.model import Incident, Nature, Observation, Phase, Severity, SignSeen, TrackState, Verdict
from watchdog.policy.plan import AlertPlan

WITHIN_S = 60.0
"""So near to each other, two signs are of one event."""


class Channel(StrEnum):
    """The way by which a sign reaches us. Two signs by one channel are no more than one.

    What NCCL says of a server's ranks goes with the server: one that compiles for a minute stands still by both
    (dynamo#14735), and three failures stay the rule there.
    """

    KERNEL = "kernel"
    SERVER = "server"
    NETWORK = "network"
    GPU_TOOL = "gpu_tool"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRow:
    """What one sign is, in `words` and, in a title, `short`. `{about}` is the host or server, `{kind}` a line's.

    `raises`: with a second one it makes a page of what is none yet. One that a short loss of network gives as well only
    joins what has paged.
    """

    channel: Channel
    words: str
    short: str
    raises: bool = True


class Sign(StrEnum):
    """A fact that hardly comes by chance with another one."""

    KERNEL_LINE = "kernel_line"
    HOST_SILENT = "host_silent"
    HOST_GONE = "host_gone"
    ENGINE_DEAD = "engine_dead"
    STANDS_STILL = "stands_still"
    GPU_TOOL_HANGS = "gpu_tool_hangs"
    MEMORY_GONE = "memory_gone"
    NCCL_MISMATCH = "nccl_mismatch"
    NCCL_RANK_GONE = "nccl_rank_gone"


SIGNS: Mapping[Sign, SignRow] = {
    Sign.KERNEL_LINE: SignRow(
        channel=Channel.KERNEL, words="the kernel of {about} says {kind}{device}", short="{kind} on {about}"
    ),
    Sign.HOST_SILENT: SignRow(
        channel=Channel.NETWORK, words="{about} takes connections but says nothing", short="{about} silent"
    ),
    Sign.HOST_GONE: SignRow(
        channel=Channel.NETWORK, words="{about} does not answer", short="{about} gone", raises=False
    ),
    Sign.ENGINE_DEAD: SignRow(
        channel=Channel.SERVER, words="{about} says that its engine is dead", short="engine dead"
    ),
    Sign.STANDS_STILL: SignRow(
        channel=Channel.SERVER, words="{about} stands still with requests under way", short="stands still"
    ),
    Sign.GPU_TOOL_HANGS: SignRow(
        channel=Channel.GPU_TOOL, words="nvidia-smi hangs on {about}", short="nvidia-smi hangs on {about}"
    ),
    Sign.MEMORY_GONE: SignRow(
        channel=Channel.MEMORY, words="{about} has next to no memory left", short="no memory on {about}"
    ),
    Sign.NCCL_MISMATCH: SignRow(
        channel=Channel.SERVER, words="NCCL on {about} names a rank that is behind", short="a rank is behind on {about}"
    ),
    Sign.NCCL_RANK_GONE: SignRow(
        channel=Channel.SERVER, words="NCCL on {about} has lost a rank", short="a rank is gone on {about}"
    ),
}
FATAL_KINDS = frozenset(
    {
        "pcie.aer.fatal", "pcie.aer.nonfatal", "pcie.aer.uncorrectable", "pcie.dpc", "pcie.cmplt_to", "pcie.eeh",
        "smmu.error", "smmu.fault", "smmu.timeout", "iommu.timeout",
        "mlx5.health", "mlx5.cmd_timeout", "mlx5.tx_timeout", "mlx5.pci_err",
        "gpu.xid", "gpu.sxid", "gpu.fell_off", "gpu.gsp", "gpu.hang", "gpu.nvrm_oom",
        "lockup", "oops", "panic", "serror", "mce", "hw.fatal", "hw.recoverable", "edac.uncorrected",
    }
)  # fmt: skip
"""Kinds of kernel lines that are a sign, from `warn` up: what they tell of can end a machine or its GPU."""
_BY_FACT = {"host_silent": Sign.HOST_SILENT, "host_gone": Sign.HOST_GONE, "engine_dead": Sign.ENGINE_DEAD}
"""Facts that a reason stands for (`reasons.Row.fact`)."""
_BY_MEASUREMENT = {
    "engine_frozen": Sign.STANDS_STILL,
    "gpu_wedged": Sign.GPU_TOOL_HANGS,
    "nccl_mismatch": Sign.NCCL_MISMATCH,
    "nccl_missing": Sign.NCCL_RANK_GONE,
    "nccl_dead": Sign.NCCL_RANK_GONE,
}
NO_MEMORY, FULL_PRESSURE = 0.01, 10.0
"""Of all memory available, and percent of the time in which every program waits for memory: a machine that stands."""
_UNPROVEN = "engine_prefill_hidden"
"""An engine that does not show that it reads a prompt may stand still in good health."""
_OF_HOSTS = (KERNEL_LOG, FOLLOW, VITALS)


def signs_of(seen: Observation, plan: AlertPlan) -> tuple[SignSeen, ...]:
    """The signs that `seen` holds; its incident, where it has none of its own, is that of the host's kernel log."""
    if seen.nature is Nature.OCCURRENCE:
        is_sign = seen.reason in FATAL_KINDS and seen.severity is not Severity.INFO
        return (_sign(Sign.KERNEL_LINE, seen, seen.key),) if is_sign else ()
    if seen.verdict is Verdict.PASS and not VITALS.has(seen.key):
        return ()
    if GENERATION.has(seen.key):
        settings = plan.probes.get(GENERATION.target_of(seen.key))
        if settings is None or not settings.is_sooner or seen.verdict is not Verdict.FAIL:
            return ()
        key = seen.key
    elif any(kind.has(seen.key) for kind in _OF_HOSTS):
        key = KERNEL_LOG.key(seen.labels.get("host", ""))
    else:
        return ()
    row = row_of(seen.key, seen.reason)
    found = [] if row is None or row.fact not in _BY_FACT or seen.answered else [_BY_FACT[row.fact]]
    numbers = seen.measurements
    found += [sign for name, sign in _BY_MEASUREMENT.items() if numbers.get(name) and not numbers.get(_UNPROVEN)]
    found += [Sign.MEMORY_GONE] if _memory_is_gone(numbers) else []
    return tuple(_sign(sign, seen, key) for sign in found)


def _memory_is_gone(numbers: Mapping[str, float]) -> bool:
    available, total = numbers.get("memory_available_bytes"), numbers.get("memory_total_bytes")
    is_empty = available is not None and total is not None and available < NO_MEMORY * total
    return is_empty or numbers.get("memory_full_avg10", 0.0) >= FULL_PRESSURE


def _sign(sign: Sign, seen: Observation, key: str) -> SignSeen:
    """`sign` as it was seen: a line is dated by itself, a probe says what it says from its start to its end."""
    device = seen.labels.get("device", "-")
    given = {
        "about": seen.labels.get("server") or seen.labels.get("host", ""),
        "kind": seen.reason,
        "device": f" on {device}" if device[:1].isalnum() else "",
    }
    at = seen.measurements.get("last_at", seen.at)
    lasts_s = 0.0 if seen.nature is Nature.OCCURRENCE else max(0.0, seen.duration_s)
    row = SIGNS[sign]
    return SignSeen(
        sign=sign.value, key=key, about=given["about"], at=at, until=at + lasts_s,
        words=row.words.format(**given), short=row.short.format(**given),
    )  # fmt: skip


def are_independent(one: SignSeen, other: SignSeen, plan: AlertPlan) -> bool:
    """Whether two signs concern one server or host, within a minute, by different channels."""
    if SIGNS[Sign(one.sign)].channel is SIGNS[Sign(other.sign)].channel:
        return False
    near = one.at <= other.until + WITHIN_S and other.at <= one.until + WITHIN_S
    return near and (one.about == other.about or _runs_on(one, other, plan) or _runs_on(other, one, plan))


def _runs_on(server: SignSeen, host: SignSeen, plan: AlertPlan) -> bool:
    return GENERATION.has(server.key) and host.about in plan.runs_on.get(server.about, ())


def may_raise(signs: Iterable[SignSeen]) -> bool:
    """Whether these together make a page of what is none yet."""
    return all(SIGNS[Sign(one.sign)].raises for one in signs)


def leading_key(
    signs: Iterable[SignSeen], seen: Observation, tracks: Mapping[str, TrackState], opened: Mapping[str, Incident]
) -> str | None:
    """The key of the incident that tells of these signs, of which `seen` brings the last; None: none can.

    What has paged goes on, then a server leads, then what has happened on a host, then the host itself.
    """
    keys = tuple(dict.fromkeys(one.key for one in signs))
    paged = sorted((opened[key] for key in keys if key in opened), key=lambda one: one.opened_at)
    for incident in paged:
        if incident.severity is Severity.PAGE:
            return incident.key
    happens = seen.nature is Nature.OCCURRENCE
    if not may_raise(signs):
        return seen.key if happens and seen.severity is Severity.PAGE else None

    def fails(key: str) -> bool:
        now_failing = key == seen.key and seen.verdict is Verdict.FAIL
        return now_failing or key in opened or (key in tracks and tracks[key].phase is Phase.PENDING)

    of_servers = [key for key in keys if GENERATION.has(key)]
    candidates = [*of_servers, *([seen.key] if happens else []), *(key for key in keys if key in opened), *keys]
    return next((key for key in candidates if fails(key)), None)


class Signs:
    """The signs of the last minutes."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, str], SignSeen] = {}

    def note(self, seen: Observation, plan: AlertPlan, now: float, *, own_network_down: bool) -> tuple[SignSeen, ...]:
        """Two independent signs, the older first, if `seen` brings the second one; else nothing.

        While our own network is down, what is silent proves nothing.
        """
        found = signs_of(seen, plan)
        if own_network_down:
            found = tuple(one for one in found if SIGNS[Sign(one.sign)].channel is not Channel.NETWORK)
        if not found:
            return ()
        kept = {place: one for place, one in self._recent.items() if abs(now - one.until) <= _KEPT_S}
        pairs = [(other, one) for one in found for other in kept.values() if are_independent(one, other, plan)]
        self._recent = kept | {(one.key, one.sign): one for one in found}
        return max(pairs, key=lambda pair: (may_raise(pair), pair[0].until), default=())

    def prove_death(self, server: str, plan: AlertPlan, now: float) -> bool:
        """Whether two independent signs of the last minute are of `server` or its hosts."""
        names = {server, *plan.runs_on.get(server, ())}
        recent = [one for one in self._recent.values() if one.about in names and now - one.until <= WITHIN_S]
        return any(are_independent(one, other, plan) and may_raise((one, other)) for one in recent for other in recent)


_KEPT_S = 180.0
"""A sign that is told late, by a probe that took a minute, may still meet one of before it began."""
