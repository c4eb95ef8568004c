"""One row per engine: how its metrics are named and which of its counters move while a request is running.

A counter that moves only when a request ends says nothing while it stands still. Adding an engine is adding a row
here and a recorded scrape under `tests/fixtures`.
"""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How one engine's metrics are read. All names are without their prefix.

    `running`, `waiting` and `kv_usage` are alternatives: the first that is present counts, the others are mirrors or
    older names. `live` are progress counters, each the sum of its names; the first present is the main one.
    `prefill` are gauges that rise while a prompt is read (alternatives, the first present counts); `prefill_hidden`
    says that they do not, or not all the while, so that a long prefill and a hang look the same. `stepping` are gauges
    about the last step of the engine (alternatives): any other value is a step. `begun` and `ended` count work that
    goes in and comes out: more begun than ended runs now, whatever `running` says. `finished` moves only when requests
    end. `gauges` are members of `live` that may fall without a restart. `drafted` and `accepted` count the tokens that
    a draft model proposes, and those of them that are taken (alternatives).
    """

    name: str
    prefixes: tuple[str, ...]
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv_usage: tuple[str, ...] = ()
    live: tuple[tuple[str, ...], ...] = ()
    prefill: tuple[str, ...] = ()
    prefill_hidden: bool = False
    stepping: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    gauges: frozenset[str] = frozenset()
    drafted: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Every metric name that this row reads."""
        live = [name for counter in self.live for name in counter]
        others = (
            self.kv_usage,
            self.prefill,
            self.stepping,
            self.begun,
            self.ended,
            self.finished,
            self.drafted,
            self.accepted,
        )
        return frozenset([*self.running, *self.waiting, *live, *(name for names in others for name in names)])


# vllm/v1/spec_decode/metrics.py
_VLLM_DRAFTED, _VLLM_ACCEPTED = ("spec_decode_num_draft_tokens_total",), ("spec_decode_num_accepted_tokens_total",)
_VLLM_LIVE = (("generation_tokens_total",), ("iteration_tokens_total_count",), ("prompt_tokens_total",))

VLLM = Engine(
    name="vllm",
    prefixes=("vllm:", "ray_vllm_", "ray_vllm:", "vllm_"),
    # Recorded with 0.32: a prompt of 96k tokens moved no counter for 954 s, and this in each of 445 windows.
    prefill=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    live=_VLLM_LIVE,
    drafted=_VLLM_DRAFTED,
    accepted=_VLLM_ACCEPTED,
)
NIM = Engine(
    name="nvidia nim",
    prefill=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    prefixes=("",),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    live=_VLLM_LIVE,
    drafted=_VLLM_DRAFTED,
    accepted=_VLLM_ACCEPTED,
)
TENSORFOLD = Engine(
    name="tensorfold",
    prefill=("kv_cache_usage_perc", "kv_cache_usage_ratio"),
    prefixes=("tensorfold:", "tensorfold_"),
    running=("num_requests_running", "requests_running"),
    waiting=("num_requests_waiting", "requests_waiting"),
    kv_usage=("kv_cache_usage_perc", "kv_cache_usage_ratio"),
    # The total moves when a reply ends, the gauge holds what the running replies have so far: only the sum is live.
    live=(("generation_tokens_total", "generation_tokens_running"), ("decode_rounds_total",), ("mtp_drafted_total",)),
    gauges=frozenset({"generation_tokens_running"}),
    drafted=("mtp_drafted_total",),
    accepted=("mtp_accepted_total",),
)
SGLANG = Engine(
    name="sglang",
    # Its scheduler sets it with each chunk of a prompt, and counts the chunk in realtime_tokens_total; its running
    # gauge leaves out the prompt that is being read (scheduler_metrics_mixin.report_prefill_stats).
    prefill=("token_usage",),
    prefixes=("sglang:", "sglang_"),
    running=("num_running_reqs",),
    waiting=("num_queue_reqs",),
    kv_usage=("token_usage",),
    live=(("realtime_tokens_total",), ("cuda_graph_passes_total",), ("forward_execution_seconds_total",)),
    finished=("generation_tokens_total", "prompt_tokens_total"),
)
LLAMA_CPP = Engine(
    name="llama.cpp",
    # Measured with build 11549: a counter of decode calls moves with each batch of a prompt; these two as well, above
    # their earlier mark.
    prefill=("kv_cache_usage_ratio", "n_tokens_max", "n_past_max"),
    prefixes=("llamacpp:", "llamacpp_"),
    running=("requests_processing",),
    waiting=("requests_deferred",),
    kv_usage=("kv_cache_usage_ratio",),
    live=(("n_decode_total",),),
    finished=("tokens_predicted_total", "prompt_tokens_total"),
)
TGI = Engine(
    name="tgi",
    # A prompt is read in one call, and its batch is in no gauge meanwhile: only the calls begun and not ended show it
    # (backends/v3/src/backend.rs).
    prefill_hidden=True,
    begun=("batch_inference_count", "batch_inference_count_total"),
    ended=(
        "batch_inference_success",
        "batch_inference_success_total",
        "batch_inference_failure",
        "batch_inference_failure_total",
    ),
    prefixes=("tgi_",),
    running=("batch_current_size",),
    waiting=("queue_size",),
    live=(("batch_inference_success",), ("batch_inference_success_total",)),
    finished=("request_generated_tokens_sum", "request_success", "request_success_total"),
)
TENSORRT_LLM = Engine(
    name="tensorrt-llm",
    prefill=("kv_cache_utilization",),
    prefixes=("trtllm_", "trtllm:"),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("kv_cache_utilization",),
    # A histogram once, now the latency of the last iteration; the other two count blocks and chunks of each iteration
    # (tensorrt_llm/metrics/collector.py). Its token counters move when a request ends.
    live=(("iteration_latency_seconds_count",), ("kv_cache_gen_alloc_blocks_total",), ("prefill_batch_tokens_count",)),
    stepping=("iteration_latency_seconds",),
    finished=("generation_tokens_total", "num_requests_completed_total"),
)
LMDEPLOY = Engine(
    name="lmdeploy",
    # Blocks for a whole prompt are taken when it is scheduled (DefaultBlockManager.num_required_blocks): the gauge
    # rises once and then stands still.
    prefill=("gpu_cache_usage_perc", "kv_cache_usage_perc"),
    prefill_hidden=True,
    prefixes=("lmdeploy:", "lmdeploy_"),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("gpu_cache_usage_perc", "kv_cache_usage_perc"),
    live=(("generation_tokens_total",), ("iteration_tokens_total_count",), ("prompt_tokens_total",)),
)
TRITON = Engine(
    name="triton",
    prefixes=("nv_inference_",),
    running=(),
    waiting=("pending_request_count",),
    finished=("request_success",),
)

ENGINES = (VLLM, TENSORFOLD, SGLANG, LLAMA_CPP, TGI, TENSORRT_LLM, LMDEPLOY, TRITON, NIM)
"""Ollama, LM Studio, mlx-lm, tabbyAPI and transformers serve have no row: without metrics nobody can tell."""
BY_NAME = {engine.name: engine for engine in ENGINES}

RANK_LABELS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "rank"})
"""Each rank repeats the same series: take the highest, never the sum."""

REPLICA_LABELS = ("engine", "engine_id", "engine_index", "dp_rank", "ReplicaId", "replica")
"""Independent replicas behind one front end: sum them, but look at each, because one can freeze alone."""

METRICS_PATHS = ("/metrics", "/v1/metrics", "/prometheus/metrics")
"""Where engines keep their metrics, from the server's root: nearly all, NVIDIA NIM, TensorRT-LLM."""

DRAINED_PATHS = ("/metrics", "/v1/metrics")
DRAINS_METRICS = frozenset({"tensorrt_llm", "tensorrt-llm", "trtllm"})
"""Who owns the models of a server whose figures at `DRAINED_PATHS` are emptied by reading: users' tools need them."""

# Which models a server lists, and which it holds in memory now.

LONGEST_NAME = 500
"""Characters in the name of a model; what is longer is none, and would be remembered and sent back."""
LOADED_PATHS = ("/api/ps", "/running", "/api/v0/models")
"""Where on-demand servers say what is loaded, from the server's root: Ollama, llama-swap, LM Studio."""


def served_models(payload: Json) -> tuple[str, ...] | None:
    """Names of the models in a `/v1/models` reply, adapters of another one left out; None if it is not such a list."""
    data = payload.get("data") if isinstance(payload, dict) else None
    if not isinstance(data, list):
        return None
    found = [m for m in data if isinstance(m, dict) and isinstance(m.get("id"), str) and len(m["id"]) <= LONGEST_NAME]
    return tuple(m["id"] for m in found if not m.get("parent")) or tuple(m["id"] for m in found)


def engine_owning(payload: Json) -> str:
    """Who owns the first model of a `/v1/models` reply, in lower case: an engine's own name; "" if it does not say."""
    data = payload.get("data") if isinstance(payload, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    owner = first.get("owned_by") if isinstance(first, dict) else None
    return owner.lower() if isinstance(owner, str) else ""


def loaded_models(path: str, payload: Json) -> tuple[str, ...] | None:
    """Names of the models in memory according to the reply of one of `LOADED_PATHS`; None if it does not say.

    A server that answers every path, or lists its models in OpenAI's form there, says nothing about its memory: only
    entries with the field that says so count (LM Studio's `state`; a name with Ollama and llama-swap).
    """
    if not isinstance(payload, dict):
        return None
    key = {"/api/ps": "models", "/running": "running", "/api/v0/models": "data"}[path]
    entries = payload.get(key)
    if not isinstance(entries, list):
        return None
    fields = ("state",) if path == "/api/v0/models" else ("model", "name")
    found = [entry for entry in entries if isinstance(entry, dict) and any(_is_text(entry.get(one)) for one in fields)]
    if not found and (entries or path == "/api/v0/models"):
        return None
    names = []
    for entry in found:
        if entry.get("state", "loaded") not in ("loaded", "ready"):
            continue
        name = entry.get("model") or entry.get("name") or entry.get("id")
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
            names.append(name)
    return tuple(names)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def same_model(asked: str, listed: str) -> bool:
    """Whether `listed` is the model that was asked for; Ollama lists `name:latest` for `name`."""
    return listed in (asked, f"{asked}:latest")
