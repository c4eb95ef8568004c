"""The signatures: which facts together mean what, in which words, and who has seen it so.

The first signature whose facts are all there is the diagnosis, so those that ask for more stand above those that ask
for less, and what the evidence excludes (a wrong key, a moving counter) stands above what it would blame. Words use
`{fact}` for a fact's own words, `{host}` for the host in question. Sources: issue numbers of public reports, and the
measurements recorded in `tests/fixtures/corpus`.
"""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.diagnosis.facts import Fact
from watchdog.model import Confidence

_LIKELY, _UNCLEAR = Confidence.LIKELY, Confidence.CANNOT_TELL
_CONSOLE = "the console of {host}"
_SERVER_LOG = "the log of the server process"
_KERNEL_LOG = "the kernel log of {host} (journalctl -k), also of the boot before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """`needs` are the facts it asks for. `short` is for a title; `words` are the sentence."""

    name: str
    needs: frozenset[Fact]
    short: str
    words: str
    confidence: Confidence
    look_at: str
    source: str


def _row(
    name: str, needs: tuple[Fact, ...], short: str, words: str, confidence: Confidence, look_at: str, source: str
) -> Signature:
    return Signature(
        name=name,
        needs=frozenset(needs),
        short=short,
        words=words,
        confidence=confidence,
        look_at=look_at,
        source=source,
    )


F = Fact
SERVER_SIGNATURES: tuple[Signature, ...] = (
    _row("different_refusals", (F.DIFFERENT, F.CONFIGURATION), "different failures",
         "different failures in turn ({different}), the last: {configuration}", _LIKELY,
         "the evidence of each: somebody changes the server, or several stand behind one address", "two faults in one"),
    _row("different_then_gone", (F.DIFFERENT, F.MODEL_GONE), "different failures",
         "different failures in turn ({different}), the last: the model is not served", _LIKELY,
         "the evidence of each: somebody changes the server, or several stand behind one address", "two faults in one"),
    _row("configuration", (F.CONFIGURATION,), "configuration", "{configuration}", _LIKELY,
         "this server's section of the configuration", "RFC 9110 §15.5"),
    _row("model_gone", (F.MODEL_GONE,), "the model is not served", "the server answers, but not with this model",
         _LIKELY, "what /v1/models lists, and who changed it", "vllm#1988"),
    _row("busy_and_hung", (F.BUSY_COUNTER, F.GPU_SPINS, F.GPU_READS_NOTHING), "a rank hangs",
         "part of it hangs: {gpu_spins}, although a counter moves ({busy_counter})", _LIKELY, _SERVER_LOG,
         "recorded on two H200 hung in a collective: memory 0 %, at work 22 %"),
    _row("busy_and_spinning", (F.BUSY_COUNTER, F.GPU_SPINS, F.GPU_MEMORY_IDLE), "a rank hangs",
         "part of it hangs: {gpu_spins} with its memory idle, although a counter moves ({busy_counter})", _LIKELY,
         _SERVER_LOG, "recorded on two H200 hung in a collective: memory 0 %"),
    _row("prefilling", (F.BUSY_COUNTER, F.PREFILLING), "reads a long prompt",
         "it is alive and reads a long prompt: no token comes, but its KV cache fills ({prefilling})", _LIKELY,
         "the lengths of the running requests", "vLLM 0.32, 96k tokens of prompt, measured: 954 s to the first token"),
    _row("busy", (F.BUSY_COUNTER,), "busy, not hung",
         "it is busy, not hung: the engine works ({busy_counter}) while our request waits", _LIKELY,
         "the queue: who sends so many requests, how many slots there are",
         "llama.cpp with one slot, measured: 85.7 s"),
    _row("slow", (F.SLOW,), "slow, not hung", "it is slow, not hung: text still came when the time was over", _LIKELY,
         "the load and the queue of the server", "one token each 1.5 s, measured"),
    _row("slower_and_low", (F.SLOWER, F.GPU_LOW), "clocks or power held back",
         "{gpu_low}, which may be why", _UNCLEAR, "clock and power limits of {host} (nvidia-smi -q -d CLOCK,POWER)",
         "a GB10 held at 513 MHz after a power event answers at a third of its speed"),
    _row("slower", (F.SLOWER,), "slower than usual", "nothing known explains it", _UNCLEAR,
         "GPU clocks and power on its hosts, and the link between them", "the slower machine sets the pace"),
    _row("fewer_drafts", (F.FEWER_DRAFTS,), "fewer drafts accepted",
         "another kind of text, or a draft model that no longer fits", _UNCLEAR,
         "what is asked of it: another kind of text does the same", "speculative decoding"),
    _row("says_busy", (F.SAYS_BUSY,), "it says it is busy", "the server itself says that it is at capacity", _LIKELY,
         "the queue: who sends so many requests, how many slots there are", "TGI 429, Ollama 503"),
    _row("hangs_since_restart", (F.UNANSWERED, F.REBOOTED, F.GPU_HANGS), "a rank hangs",
         "it hangs: {gpu_hangs}; {rebooted}, which may be why", _LIKELY, _SERVER_LOG,
         "a rank whose partner restarted waits for it; a restart long over explains nothing"),
    _row("host_rebooted", (F.STOPPED, F.REBOOTED, F.REBOOT_NOTIFIED), "{host} restarted", "{rebooted}{reboot_notified}",
         _LIKELY, _KERNEL_LOG, "boot id and the end of the boot before"),
    _row("host_restarted", (F.STOPPED, F.REBOOTED), "{host} restarted",
         "{rebooted}; how the previous boot ended is not known yet", _LIKELY, _KERNEL_LOG, "uptime"),
    _row("locked_up", (F.STOPPED, F.LINK_BEFORE, F.HOST_SILENT), "{host} locked up",
         "{host} has locked up after a PCIe or network error: {link_before}, and now {host_silent}", _LIKELY, _CONSOLE,
         "DSpark#146: AER, then mlx5 recovery wedges the machine"),
    _row("own_road", (F.UNREACHABLE, F.OWN_NETWORK), "perhaps our own network",
         "our own network is down or unreliable ({own_network}), so this says little about the server", _UNCLEAR,
         "the network of the machine that runs inference-watchdog", "design §5.4"),
    _row("locked_up_gone", (F.SILENT_API, F.LINK_BEFORE, F.HOST_GONE), "{host} locked up or NIC lost",
         "{host} has locked up, or lost its network card, after a PCIe or network error: {link_before}, and now "
         "{host_gone}",
         _LIKELY, _CONSOLE, "a hard lock answers no TCP: measured on locked VMs with AER injected"),
    _row("locked_up_stuck", (F.STOPPED, F.KERNEL_STUCK, F.HOST_SILENT), "{host} locked up",
         "{host} has locked up after an error of its kernel: {kernel_stuck}, and now {host_silent}", _LIKELY, _CONSOLE,
         "DSpark#146: soft lockups, then silence"),
    _row("locked_up_stuck_gone", (F.SILENT_API, F.KERNEL_STUCK, F.HOST_GONE), "{host} locked up",
         "{host} has locked up or crashed after an error of its kernel: {kernel_stuck}, and now {host_gone}", _LIKELY,
         _CONSOLE, "a hard lock and a panic answer no TCP: measured on VMs"),
    _row("link_failing", (F.STOPPED, F.LINK_BEFORE), "{host}: PCIe or NIC fails",
         "the PCIe link or the network card fails: {link_before}{clean}", _LIKELY, _KERNEL_LOG, "DSpark#146"),
    _row("oom_killed", (F.STOPPED, F.OOM_KILLED), "killed: out of memory",
         "the kernel's OOM killer ended a process: {oom_killed}", _LIKELY, _KERNEL_LOG, "mm/oom_kill.c"),
    _row("gpu_fault", (F.STOPPED, F.GPU_FAULT), "{host}: GPU error", "the GPU reports a fault: {gpu_fault}", _LIKELY,
         _KERNEL_LOG, "NVIDIA Xid table"),
    _row("kernel_stuck", (F.STOPPED, F.KERNEL_STUCK), "{host}: kernel stuck",
         "the kernel of {host} is in trouble: {kernel_stuck}", _LIKELY, _KERNEL_LOG, "DSpark#146: soft lockups"),
    _row("driver_wedged", (F.STOPPED, F.GPU_WEDGED), "{host}: GPU driver hangs",
         "the GPU driver of {host} hangs: {gpu_wedged}", _LIKELY, _KERNEL_LOG,
         "gpu-monitoring-tools#46, gpud#117, dcgm-exporter#84"),
    _row("memory_storm", (F.STOPPED, F.MEMORY_LOW, F.NVRM_OOM), "{host}: out of memory",
         "{host} is running out of memory: {memory_low}, and its GPU driver complains ({nvrm_oom})", _LIKELY,
         "what takes the memory on {host}", "open-gpu-kernel-modules#1358, dgx-spark-playbooks#97"),
    _row("memory_going", (F.STOPPED, F.MEMORY_LOW, F.MEMORY_PRESSED), "{host}: out of memory",
         "{host} is running out of memory: {memory_low}, and {memory_pressed}", _LIKELY,
         "what takes the memory on {host}", "Linux PSI; dgx-spark-playbooks#97"),
    _row("network", (F.UNREACHABLE, F.SILENT_API, F.ALL_GONE), "no machine answers",
         "none of its machines answers ({all_gone}): they are off, or the network between us is", _UNCLEAR,
         "the switch and the power", "two machines rarely die in one minute"),
    _row("host_frozen", (F.SILENT_API, F.HOST_SILENT), "{host} is frozen",
         "{host} is frozen: {host_silent}, and the API is as silent", _LIKELY, _CONSOLE,
         "measured: a stopped machine accepts TCP and sends nothing"),
    _row("host_down", (F.UNREACHABLE, F.SILENT_API, F.HOST_GONE), "{host} is down",
         "{host} is down or off the network: {host_gone}, and its API cannot be reached", _LIKELY, _CONSOLE,
         "GLM-5.3#193"),
    _row("host_mute", (F.STOPPED, F.HOST_SILENT), "{host}: SSH is silent",
         "{host_silent}; frozen or overloaded: the API does not tell which", _UNCLEAR, _CONSOLE,
         "half-dead machines answer some and not others"),
    _row("host_unreached", (F.STOPPED, F.HOST_GONE), "{host}: no SSH",
         "{host} cannot be reached over SSH ({host_gone}); unclear whether anything else is down", _UNCLEAR,
         _CONSOLE, "GLM-5.3#193"),
    _row("waiting_rank", (F.UNANSWERED, F.GPU_SPINS, F.GPU_MEMORY_IDLE, F.GPU_EMPTY), "one rank waits for the other",
         "one rank waits for the other: {gpu_spins}, while {gpu_empty}", _LIKELY,
         "the ranks' logs and the link between them", "recorded on two H200 hung in a collective; vllm#41725"),
    _row("false_alive", (F.UNANSWERED, F.HTTP_UP, F.FROZEN, F.GPU_SPINS), "engine hung, HTTP alive",
         "the engine hangs behind a living HTTP front: {http_up}, its counters stand still ({frozen}), and {gpu_spins}",
         _LIKELY, _SERVER_LOG, "Fastllm-proxy#19, DSpark#87, vllm#39863"),
    _row("gpu_spinning", (F.UNANSWERED, F.HTTP_UP, F.GPU_SPINS), "hung: GPU full, idle power",
         "the engine hangs: {http_up}, and {gpu_spins}", _LIKELY, _SERVER_LOG,
         "GB10: 16-27 W at 96 % while deadlocked"),
    _row("spinning_only", (F.UNANSWERED, F.GPU_SPINS), "GPU full at idle power",
         "probably hung: {gpu_spins}; unknown whether HTTP still answers", _UNCLEAR, _SERVER_LOG,
         "GB10: 16-27 W at 96 % while deadlocked"),
    _row("frozen_low", (F.UNANSWERED, F.FROZEN, F.GPU_LOW), "engine hung",
         "the engine hangs: its counters stand still ({frozen}), and {gpu_low}", _LIKELY, _SERVER_LOG,
         "GB10: 16-27 W at 96 % while deadlocked, 46-72 W in a long prefill"),
    _row("low", (F.UNANSWERED, F.GPU_LOW), "perhaps hung: GPU power low",
         "perhaps hung: {gpu_low}; what this one draws at work is not known yet", _UNCLEAR, _SERVER_LOG,
         "GB10: 16-27 W at 96 % while deadlocked"),
    _row("long_work", (F.UNANSWERED, F.FROZEN, F.GPU_WORKS), "long prefill, or hung",
         "its counters stand still ({frozen}), but {gpu_works}: a very long prompt looks like this, and a hang can too",
         _UNCLEAR, "the lengths of the running requests", "DS4.1#22: 96 % at 72 W was an honest prefill"),
    _row("front_end", (F.UNANSWERED, F.LOST, F.WORKS_FOR_OTHERS), "front end hangs, engine works",
         "what stands in front of the engine hangs: the engine works for others and counts no request of ours", _LIKELY,
         "the gateway or API process in front of the engine", "LiteLLM stopped, nginx with a dead upstream: measured"),
    _row("lost", (F.UNANSWERED, F.LOST), "front end or engine hangs",
         "what stands in front of the engine hangs, or the engine itself: it counts no request of ours, and nothing "
         "moves",
         _LIKELY, "the gateway or API process in front of the engine, and its log",
         "SGLang#33858; vLLM's counts go stale when its idle engine stops"),
    _row("partly_still", (F.UNANSWERED, F.PARTLY_STILL), "a replica hangs, or reads",
         "one replica stands still while others work ({partly_still}): it hangs, or it reads a long prompt, which this "
         "engine does not show", _UNCLEAR, _SERVER_LOG, "LMDeploy takes all blocks of a prompt at once"),
    _row("partly_frozen", (F.UNANSWERED, F.PARTLY_FROZEN), "one replica hangs",
         "one replica stands still while others work ({partly_frozen})", _LIKELY, _SERVER_LOG, "SGLang#29548"),
    _row("frozen_or_prefill", (F.UNANSWERED, F.FROZEN, F.PREFILL_HIDDEN), "hung, or a long prefill",
         "hung, or a long prefill: its counters stood still ({frozen}), and this engine shows nothing while it reads a "
         "prompt", _UNCLEAR, _SERVER_LOG, "TGI reads a prompt in one call; LMDeploy takes all its blocks at once"),
    _row("frozen", (F.UNANSWERED, F.FROZEN, F.REPEATED), "engine hung",
         "the engine hangs: over {repeated} probes its counters stood still ({frozen})", _LIKELY, _SERVER_LOG,
         "vllm#39863, gonka#1421"),
    _row("working", (F.UNANSWERED, F.GPU_WORKS), "slow rather than hung",
         "slow rather than hung: {gpu_works}; no counter proves that tokens flow", _UNCLEAR,
         "the lengths of the running requests", "DS4.1#22"),
    _row("engine_restarted", (F.UNANSWERED, F.ENGINE_RESTARTED), "engine restarted",
         "the engine restarted during the probe", _LIKELY, _SERVER_LOG, "process_start_time_seconds"),
    _row("engine_dead", (F.ENGINE_DEAD,), "engine dead, HTTP alive",
         "the engine has died behind an API that still answers; the API's end usually follows", _LIKELY, _SERVER_LOG,
         "vLLM EngineCore; DSpark#87"),
    _row("process_gone", (F.REFUSED, F.HOST_ANSWERS), "process gone, host fine",
         "the server process is gone, or still starting: nothing listens on its port, and {host_answers}", _LIKELY,
         "whether the server process runs, and its log", "vLLM, SGLang, TRT-LLM listen late"),
    _row("loading", (F.LOADING,), "loading its model", "the server says that it is loading its model", _LIKELY,
         "the server's log, if this does not end", "llama.cpp 503; DSpark#87: about 12 min"),
    _row("proxy", (F.UPSTREAM_DOWN,), "answers, server behind not",
         "{upstream_down}", _LIKELY, "the server behind the address",
         "502/503 of nginx, LiteLLM 429 No deployments"),
    _row("proxy_gave_up", (F.GATEWAY_TIMEOUT,), "gave up waiting for the server",
         "what answers gave up waiting for the server behind it; busy or hung: unknown", _UNCLEAR,
         "the server behind the address", "504 after 60 s equals a timeout"),
    _row("memory_low", (F.STOPPED, F.MEMORY_LOW), "{host}: memory is low",
         "{memory_low}; unclear whether that is the cause", _UNCLEAR, "what takes the memory on {host}",
         "one low reading proves little"),
    _row("link_after", (F.STOPPED, F.LINK_AFTER), "{host}: PCIe or NIC error",
         "{link_after}: unclear whether cause or consequence", _UNCLEAR, _KERNEL_LOG, "DSpark#146"),
    _row("frozen_once", (F.UNANSWERED, F.FROZEN), "hung, or a long prefill",
         "hung, or a long prefill: its counters stood still ({frozen}), so far not for long", _UNCLEAR, _SERVER_LOG,
         "GB10: 260k tokens of prompt took 286-550 s"),
    _row("stands_still", (F.STANDS_STILL, F.GPU_SPINS), "long requests hang",
         "long requests hang while short ones pass: {gpu_spins}", _LIKELY, "the long requests", "SGLang#29548"),
    _row("long_stand", (F.STANDS_STILL,), "long requests stand still",
         "short requests pass and long ones stand still: hung, or very long prompts", _UNCLEAR, "the long requests",
         "SGLang#29548"),
    _row("no_text_made", (F.NO_TEXT_MADE,), "replies without text",
         "the server answers in time, but without any text: chat template, stop tokens or weights", _UNCLEAR,
         "one request by hand", "Qwen3.8#216, LM Studio#2286"),
    _row("error_answer", (F.ERROR_ANSWER,), "answers with an error", "the server answers, with an error of its own",
         _UNCLEAR, _SERVER_LOG, "500 of any engine"),
    _row("broken_off", (F.BROKEN_OFF,), "breaks off", "the server, or a proxy before it, breaks the connection off",
         _UNCLEAR, _SERVER_LOG, "vLLM and TGI end a stream on an error"),
    _row("not_chat", (F.NOT_CHAT,), "another program answers",
         "what answers is not a chat server, perhaps another program", _UNCLEAR,
         "base_url, and what listens there", "HTML with status 200"),
    _row("name_or_tls", (F.NAME_OR_TLS,), "name or certificate", "{name_or_tls}", _LIKELY,
         "the name, the certificate, ca_file", "RFC 8446, RFC 1035"),
    _row("refused", (F.REFUSED,), "connection refused",
         "nothing listens on its port; the state of its machine is unknown", _UNCLEAR,
         "whether the machine and the server process run", "ECONNREFUSED is sent by a living kernel or a firewall"),
    _row("unreachable", (F.UNREACHABLE,), "cannot be reached",
         "its machine does not answer; nothing else is known of it", _UNCLEAR,
         "whether the machine is up and on the network", "ETIMEDOUT, EHOSTUNREACH"),
    _row("said", (F.UNANSWERED, F.SAID), "an error in the stream", "{said}", _UNCLEAR, _SERVER_LOG, "mistral.rs#1874"),
    _row("stalled", (F.UNANSWERED, F.STALLED), "stops in mid-reply",
         "text began, then nothing more came: hung, or the stream is held up on its way{missing}", _UNCLEAR,
         _SERVER_LOG, "SGLang#29548, LM Studio: stalls after some tokens"),
    _row("alive_no_token", (F.UNANSWERED, F.HTTP_UP), "busy or hung",
         "busy or hung: {http_up}, but no token comes{missing}", _UNCLEAR, _SERVER_LOG,
         "43 of 99 public reports: health stays 200"),
    _row("no_answer", (F.UNANSWERED,), "busy or hung", "busy or hung: no answer at all{missing}", _UNCLEAR, _SERVER_LOG,
         "a stopped process accepts TCP in its kernel"),
)  # fmt: skip
"""For `generation/<server>` and `progress/<server>`."""

PAGING = frozenset({"busy_and_hung"})
"""Proof enough to page, also where the probe alone says busy."""

HOST_SIGNATURES: tuple[Signature, ...] = (
    _row("ssh_only", (F.HOST_SILENT, F.SERVERS_ALIVE), "SSH only",
         "probably only its SSH: {servers_alive}", _LIKELY, "the SSH server of {host}", "a token is a token"),
    _row("ssh_only_gone", (F.HOST_GONE, F.SERVERS_ALIVE), "SSH only",
         "probably only the way to its SSH: {servers_alive}", _LIKELY, "the SSH server of {host}",
         "a token is a token"),
    _row("locked_up", (F.HOST_SILENT, F.LINK_BEFORE), "locked up",
         "{host} has locked up after a PCIe or network error: {link_before}", _LIKELY, _CONSOLE, "DSpark#146"),
    _row("locked_up_gone", (F.HOST_GONE, F.LINK_BEFORE), "locked up or NIC lost",
         "{host} has locked up, or lost its network card, after a PCIe or network error: {link_before}", _LIKELY,
         _CONSOLE, "a hard lock answers no TCP: measured on locked VMs with AER injected"),
    _row("locked_up_stuck", (F.HOST_SILENT, F.KERNEL_STUCK), "locked up",
         "{host} has locked up after an error of its kernel: {kernel_stuck}", _LIKELY, _CONSOLE,
         "DSpark#146: soft lockups, then silence"),
    _row("locked_up_stuck_gone", (F.HOST_GONE, F.KERNEL_STUCK), "locked up",
         "{host} has locked up or crashed after an error of its kernel: {kernel_stuck}", _LIKELY, _CONSOLE,
         "a hard lock and a panic answer no TCP: measured on VMs"),
    _row("host_frozen", (F.HOST_SILENT, F.SERVERS_STOPPED), "frozen",
         "{host} is frozen: it accepts connections but sends nothing, and {servers_stopped}", _LIKELY, _CONSOLE,
         "measured: a stopped machine accepts TCP and sends nothing"),
    _row("host_down", (F.HOST_GONE, F.SERVERS_UNREACHABLE), "down or off the network",
         "{host} is down or off the network: SSH and API cannot be reached", _LIKELY, _CONSOLE, "GLM-5.3#193"),
    _row("host_mute", (F.HOST_SILENT,), "SSH is silent",
         "frozen, or only its SSH: nothing else is known of it since", _UNCLEAR, _CONSOLE,
         "middle boxes accept too"),
    _row("host_unreached", (F.HOST_GONE,), "no SSH",
         "down, off the network, or only its SSH: nothing else is known of it since", _UNCLEAR, _CONSOLE,
         "ETIMEDOUT, EHOSTUNREACH"),
)  # fmt: skip
"""For `kernel_log/<host>`: a host that cannot be reached."""
