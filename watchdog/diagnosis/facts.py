"""The facts a signature can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.model import Evidence


class Fact(StrEnum):
    """What can be known. The text is the name under which a signature's words use it."""

    # of the server, from its own probe
    STOPPED = "stopped"
    UNANSWERED = "unanswered"
    HTTP_UP = "http_up"
    FROZEN = "frozen"
    REPEATED = "repeated"
    LOST = "lost"
    BUSY_COUNTER = "busy_counter"
    SAYS_BUSY = "says_busy"
    ENGINE_RESTARTED = "engine_restarted"
    STANDS_STILL = "stands_still"
    PARTLY_FROZEN = "partly_frozen"
    SILENT_API = "silent_api"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    ENGINE_DEAD = "engine_dead"
    LOADING = "loading"
    UPSTREAM_DOWN = "upstream_down"
    GATEWAY_TIMEOUT = "gateway_timeout"
    CONFIGURATION = "configuration"
    MODEL_GONE = "model_gone"
    NO_TEXT_MADE = "no_text_made"
    ERROR_ANSWER = "error_answer"
    BROKEN_OFF = "broken_off"
    NOT_CHAT = "not_chat"
    NAME_OR_TLS = "name_or_tls"
    # of one host
    HOST_ANSWERS = "host_answers"
    HOST_SILENT = "host_silent"
    HOST_GONE = "host_gone"
    GPU_SPINS = "gpu_spins"
    GPU_MEMORY_IDLE = "gpu_memory_idle"
    GPU_WORKS = "gpu_works"
    GPU_WEDGED = "gpu_wedged"
    MEMORY_LOW = "memory_low"
    MEMORY_PRESSED = "memory_pressed"
    NVRM_OOM = "nvrm_oom"
    OOM_KILLED = "oom_killed"
    REBOOTED = "rebooted"
    REBOOT_TOLD = "reboot_told"
    LINK_BEFORE = "link_before"
    LINK_AFTER = "link_after"
    GPU_FAULT = "gpu_fault"
    KERNEL_STUCK = "kernel_stuck"
    # across hosts
    GPU_EMPTY = "gpu_empty"
    ALL_GONE = "all_gone"
    OWN_ROAD = "own_road"
    # of the servers on a host, for an incident of the host
    SERVERS_STOPPED = "servers_stopped"
    SERVERS_UNREACHABLE = "servers_unreachable"
    SERVERS_ALIVE = "servers_alive"


@dataclass(frozen=True, slots=True)
class Seen:
    """A fact that holds: its words, and what it rests on besides the failing check itself."""

    words: str = ""
    evidence: tuple[Evidence, ...] = ()
