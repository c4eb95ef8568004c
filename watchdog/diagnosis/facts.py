"""The facts a signature can ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from watchdog.model import Evidence, Incident, Observation


class Fact(StrEnum):
    """What can be known. The text is the name under which a signature's words use it."""

    # of the server, from its own probe
    STOPPED = "stopped"
    UNANSWERED = "unanswered"
    HTTP_UP = "http_up"
    FROZEN = "frozen"
    REPEATED = "repeated"
    LOST = "lost"
    WORKS_FOR_OTHERS = "works_for_others"
    BUSY_COUNTER = "busy_counter"
    PREFILLING = "prefilling"
    PREFILL_HIDDEN = "prefill_hidden"
    SAYS_BUSY = "says_busy"
    ENGINE_RESTARTED = "engine_restarted"
    STANDS_STILL = "stands_still"
    PARTLY_FROZEN = "partly_frozen"
    PARTLY_STILL = "partly_still"
    SILENT_API = "silent_api"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    ENGINE_DEAD = "engine_dead"
    LOADING = "loading"
    SLOW = "slow"
    STALLED = "stalled"
    DIFFERENT = "different"
    SAID = "said"
    UPSTREAM_DOWN = "upstream_down"
    GATEWAY_TIMEOUT = "gateway_timeout"
    CONFIGURATION = "configuration"
    MODEL_GONE = "model_gone"
    NO_TEXT_MADE = "no_text_made"
    ERROR_ANSWER = "error_answer"
    BROKEN_OFF = "broken_off"
    NOT_CHAT = "not_chat"
    NAME_OR_TLS = "name_or_tls"
    SLOWER = "slower"
    FEWER_DRAFTS = "fewer_drafts"
    # of one host
    HOST_ANSWERS = "host_answers"
    HOST_SILENT = "host_silent"
    HOST_GONE = "host_gone"
    HOST_AWAY = "host_away"
    SHUT_DOWN = "shut_down"
    RESTARTING = "restarting"
    RESTART_LATE = "restart_late"
    OVERHEATED = "overheated"
    GPU_SPINS = "gpu_spins"
    GPU_LOW = "gpu_low"
    GPU_MEMORY_IDLE = "gpu_memory_idle"
    GPU_READS_NOTHING = "gpu_reads_nothing"
    GPU_WORKS = "gpu_works"
    GPU_WEDGED = "gpu_wedged"
    RANK_BEHIND = "rank_behind"
    RANK_GONE = "rank_gone"
    RANKS_SILENT = "ranks_silent"
    MEMORY_LOW = "memory_low"
    MEMORY_PRESSED = "memory_pressed"
    NVRM_OOM = "nvrm_oom"
    OOM_KILLED = "oom_killed"
    REBOOTED = "rebooted"
    REBOOT_NOTIFIED = "reboot_notified"
    LINK_BEFORE = "link_before"
    LINK_AFTER = "link_after"
    GPU_FAULT = "gpu_fault"
    KERNEL_STUCK = "kernel_stuck"
    # across hosts
    GPU_EMPTY = "gpu_empty"
    GPU_HANGS = "gpu_hangs"
    ALL_GONE = "all_gone"
    OWN_NETWORK = "own_network"
    # of the servers on a host, for an incident of the host
    SERVERS_STOPPED = "servers_stopped"
    SERVERS_UNREACHABLE = "servers_unreachable"
    SERVERS_ALIVE = "servers_alive"


@dataclass(frozen=True, slots=True)
class Basis:
    """A fact that holds: its words, and what it rests on besides the failing check itself."""

    words: str = ""
    evidence: tuple[Evidence, ...] = ()


# What is known at the moment of a decision.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host: its newest vitals and its newest reading of the kernel log (None: never seen), its open occurrences."""

    name: str
    vitals: Observation | None = None
    kernel_log: Observation | None = None
    occurrences: tuple[Incident, ...] = ()

    @property
    def clock_offset_s(self) -> float:
        """How far its clock is ahead of ours in seconds; 0.0 when that is not known."""
        return 0.0 if self.vitals is None else self.vitals.measurements.get("clock_offset_s", 0.0)

    def with_clock_note(self, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
        """Evidence from this host, its source saying how far the host's clock is off, as its own log shows that time.

        The times themselves are on our clock already: the reading of the kernel log places them there.
        """
        offset = self.clock_offset_s
        if not offset:
            return tuple(evidence)
        return tuple(Evidence(one.at, f"{one.source} (its clock {offset:+.0f} s)", one.text) for one in evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisInput:
    """An incident and what is known around it at `now` (Unix seconds). All times are on our clock.

    `newest` is the newest failing observation of the incident's own key. `hosts` are those the server runs on, or the
    one host the incident is about; `servers` are the newest observations of `generation/<server>` of the servers that
    run on such hosts. `own_network` says, if our own network is known to be down, how.
    """

    incident: Incident
    newest: Observation | None
    now: float
    hosts: tuple[HostView, ...] = ()
    servers: tuple[Observation, ...] = ()
    own_network: str = ""
