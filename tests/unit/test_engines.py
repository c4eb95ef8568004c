"""Reading scrapes and comparing them: what the recorded scrapes do not show."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from watchdog.engines.metrics import EngineSample, from_json, read_metrics, to_json
from watchdog.engines.movement import Movement, compare
from watchdog.engines.table import ENGINES, loaded_models, served_models


def _read(*lines: str) -> EngineSample:
    sample = read_metrics("\n".join(lines).encode())
    assert sample is not None
    return sample


def _vllm(
    tokens: dict[str, int], running: dict[str, int], waiting: int = 0, started: float | None = None
) -> EngineSample:
    lines = [f'vllm:generation_tokens_total{{engine="{r}"}} {v}' for r, v in tokens.items()]
    lines += [f'vllm:num_requests_running{{engine="{r}"}} {v}' for r, v in running.items()]
    lines += [f'vllm:num_requests_waiting{{engine="0"}} {waiting}']
    return _read(*lines, *([] if started is None else [f"process_start_time_seconds {started}"]))


@pytest.mark.parametrize("prefix", ["vllm:", "ray_vllm_", "vllm_", "aphrodite:"])
def test_forks_and_ray_are_read_as_vllm(prefix: str) -> None:
    sample = _read(f"{prefix}num_requests_running 2", f"{prefix}generation_tokens_total 7")
    assert (sample.engine, sample.running, sample.progress) == ("vllm", 2, 7)


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"[]", b'{"iter": 5}', b"# HELP x y\n", b"go_goroutines 8\n"])
def test_a_page_without_engine_metrics_is_unavailable_and_not_zero(body: bytes) -> None:
    assert read_metrics(body) is None


def test_a_broken_line_costs_only_itself() -> None:
    sample = _read(
        "vllm:num_requests_running{ 3", "vllm:num_requests_waiting 2", 'vllm:generation_tokens_total{a="b"} x'
    )
    assert (sample.running, sample.waiting, sample.progress) == (None, 2, None)


def test_nan_is_not_available_and_crlf_is_read() -> None:
    sample = _read("llamacpp:requests_processing nan\r", "llamacpp:n_decode_total 1.5e+03\r")
    assert (sample.running, sample.progress) == (None, 1500)


def test_ranks_repeat_and_replicas_add_up() -> None:
    labels = [f'dp_rank="{dp}",tp_rank="{tp}"' for dp in (0, 1) for tp in (0, 1)]
    sample = _read(
        *(f"sglang:num_running_reqs{{{label}}} 3" for label in labels),
        *(
            f'sglang:realtime_tokens_total{{{label},mode="{mode}"}} 10'
            for label in labels
            for mode in ("decode", "prefill")
        ),
    )
    assert (sample.running, sample.progress) == (6, 40)


def test_a_gauge_that_completes_a_counter_is_no_counter_without_it() -> None:
    sample = _read("tensorfold:num_requests_running 1", "tensorfold:generation_tokens_running 40")
    assert (sample.engine, sample.live, sample.progress) == ("tensorfold", {}, None)
    both = _read("tensorfold:generation_tokens_total 100", "tensorfold:generation_tokens_running 40")
    assert both.progress == 140


def test_one_frozen_replica_is_partial_and_an_idle_one_is_not() -> None:
    before = _vllm({"0": 10, "1": 50}, {"0": 1, "1": 1})
    assert compare(before, _vllm({"0": 30, "1": 50}, {"0": 1, "1": 1})).movement is Movement.PARTIAL
    assert compare(before, _vllm({"0": 30, "1": 50}, {"0": 1, "1": 1})).stuck == ("1",)
    idle = _vllm({"0": 10, "1": 50}, {"0": 1, "1": 0})
    assert compare(idle, _vllm({"0": 30, "1": 50}, {"0": 1, "1": 0})).movement is Movement.BUSY


def test_waiting_requests_without_a_running_one_are_frozen() -> None:
    assert compare(_vllm({"0": 9}, {"0": 0}, 2), _vllm({"0": 9}, {"0": 0}, 3)).movement is Movement.FROZEN


def test_a_newer_process_start_is_a_restart_even_when_the_counter_grew() -> None:
    before, after = _vllm({"0": 9}, {"0": 1}, 0, 1000), _vllm({"0": 90}, {"0": 1}, 0, 2000)
    assert compare(before, after).movement is Movement.RESET


def test_prefill_without_output_is_progress() -> None:
    lines = ["vllm:num_requests_running 1", "vllm:generation_tokens_total 5"]
    before, after = _read(*lines, "vllm:prompt_tokens_total 10"), _read(*lines, "vllm:prompt_tokens_total 900")
    assert compare(before, after).movement is Movement.BUSY


def test_a_counter_of_finished_requests_proves_life_by_moving_and_nothing_by_standing() -> None:
    before = _read("sglang:num_running_reqs 5", "sglang:generation_tokens_total 100")
    moved = _read("sglang:num_running_reqs 5", "sglang:generation_tokens_total 130")
    assert compare(before, moved).movement is Movement.BUSY
    assert compare(before, before).movement is Movement.UNKNOWN


def test_a_dropped_reply_is_neither_a_restart_nor_a_hang() -> None:
    """TensorFold's running gauge falls when a client leaves; its total does not."""
    head = ["tensorfold:num_requests_running 1", "tensorfold:generation_tokens_total 90"]
    before, after = (_read(*head, f"tensorfold:generation_tokens_running {n}") for n in (400, 12))
    assert compare(before, after).movement is Movement.UNKNOWN


def test_another_engine_or_no_engine_cannot_be_compared() -> None:
    vllm, tgi = _vllm({"0": 1}, {"0": 1}), _read("tgi_queue_size 1", 'tgi_batch_inference_success{method="decode"} 3')
    assert compare(vllm, tgi).movement is Movement.UNKNOWN
    assert compare(None, tgi).movement is Movement.UNKNOWN


def test_served_models_leave_adapters_out() -> None:
    assert served_models({"data": [{"id": "a"}, {"id": "l", "parent": "a"}]}) == ("a",)
    assert served_models({"data": []}) == ()
    assert served_models({"choices": []}) is None
    assert served_models("x") is None


def test_loaded_models_are_read_per_kind_of_server() -> None:
    assert loaded_models("/api/ps", {"models": [{"name": "a:latest"}]}) == ("a:latest",)
    assert loaded_models("/running", {"running": [{"model": "a", "state": "starting"}]}) == ()
    assert loaded_models(
        "/api/v0/models", {"data": [{"id": "a", "state": "loaded"}, {"id": "b", "state": "not-loaded"}]}
    ) == ("a",)
    assert loaded_models("/api/ps", {"choices": []}) is None


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        ("/api/v0/models", {"object": "list", "data": [{"id": "a", "object": "model", "owned_by": "vllm"}]}),
        ("/api/v0/models", {"object": "list", "data": []}),
        ("/api/v0/models", {"data": [{"id": "a", "state": None}]}),
        ("/api/ps", {"object": "list", "models": [{"id": "a"}], "data": [{"id": "a"}]}),
        ("/running", {"running": ["a"]}),
    ],
)
def test_a_plain_list_of_models_says_nothing_about_memory(path: str, payload: object) -> None:
    """A gateway that answers any path with its models is no on-demand server."""
    assert loaded_models(path, payload) is None


@pytest.mark.parametrize(
    ("line", "running"),
    [
        ('vllm:num_requests_running{engine="0",model="a}b, \\"c\\" {d"} 3 1700000000000', 3),
        ('vllm:num_requests_running { engine = "0" , } 3e0', 3),
        ("vllm:num_requests_running\t3", 3),
        ('vllm:num_requests_running{engine="0" 3', None),
        ("vllm:num_requests_running{engine=0} 3", None),
        ("vllm:num_requests_running NaN", None),
        ("vllm:num_requests_running three", None),
        ("vllm:num_requests_running", None),
    ],
)
def test_a_line_is_read_as_the_text_format_has_it_or_not_at_all(line: str, running: float | None) -> None:
    assert _read(line, "vllm:num_requests_waiting 1").running == running


def test_a_hostile_line_takes_no_longer_than_reading_it() -> None:
    for labels in ("}" * 1_000_000 + " y z", 'b="' * 300_000, " " * 1_000_000, 'b="' + "\\" * 1_000_000):
        started = time.perf_counter()
        read_metrics(f"vllm:num_requests_running{{{labels}}} 1".encode())
        assert time.perf_counter() - started < 2


@pytest.mark.parametrize("more", [0, 9])
def test_metrics_of_an_engine_behind_nim_are_the_engines(more: int) -> None:
    """NVIDIA NIM shows numbers of its own beside those of the engine that it runs."""
    nim = [f'num_requests_running{{a="{n}"}} 1' for n in range(more + 1)]
    assert _read(*nim).engine == "nvidia nim"
    assert _read("vllm:num_requests_running 2", *nim).engine == "vllm"
    assert _read(*nim, "vllm:num_requests_running 2").engine == "vllm"


PREFILLS = {
    "vllm": (
        ["vllm:num_requests_running 1", "vllm:num_requests_waiting 0", "vllm:generation_tokens_total 43",
         "vllm:prompt_tokens_total 43"],
        "vllm:kv_cache_usage_perc",
    ),
    "tensorfold": (
        ["tensorfold:num_requests_running 1", "tensorfold:generation_tokens_total 43"], "tensorfold:kv_cache_usage_perc"
    ),
    "sglang": (["sglang:num_running_reqs 1", "sglang:generation_tokens_total 43"], "sglang:token_usage"),
    "llama.cpp": (
        ["llamacpp:requests_processing 1", "llamacpp:n_decode_total 9", "llamacpp:requests_deferred 0"],
        "llamacpp:n_tokens_max",
    ),
    "tensorrt-llm": (
        ["trtllm_num_requests_running 1", "trtllm_iteration_latency_seconds_count 9"], "trtllm_kv_cache_utilization"
    ),
    "lmdeploy": (
        ["lmdeploy:num_requests_running 1", "lmdeploy:generation_tokens_total 43"], "lmdeploy:gpu_cache_usage_perc"
    ),
    "nvidia nim": (["num_requests_running 1", "generation_tokens_total 43"], "kv_cache_usage_perc"),
}  # fmt: skip


@pytest.mark.parametrize("engine", PREFILLS)
def test_a_prompt_that_is_being_read_is_life_though_no_counter_moves(engine: str) -> None:
    lines, gauge = PREFILLS[engine]
    before, after = _read(*lines, f"{gauge} 0.08"), _read(*lines, f"{gauge} 0.12")
    assert before.engine == engine
    change = compare(before, after)
    assert (change.movement, change.prefilling) == (Movement.BUSY, True)
    assert compare(after, after).movement in (Movement.FROZEN, Movement.UNKNOWN)
    assert from_json(to_json(after)) == replace(after, kv_usage=None)


def test_every_engine_says_which_gauge_rises_in_a_prefill_or_that_nothing_tells() -> None:
    assert {engine.name for engine in ENGINES if not engine.prefill} == {"tgi", "triton"}
    assert {engine.name for engine in ENGINES if engine.prefill} == set(PREFILLS)


def test_kv_use_that_rises_without_a_request_reads_no_prompt() -> None:
    lines = ["vllm:num_requests_running 0", "vllm:num_requests_waiting 0", "vllm:generation_tokens_total 43"]
    before, after = (_read(*lines, f"vllm:kv_cache_usage_perc {use}") for use in (0.1, 0.2))
    assert compare(before, after).movement is Movement.LOST


def test_an_engine_that_works_for_others_and_counts_no_request_does_not_hold_ours() -> None:
    change = compare(_vllm({"0": 9}, {"0": 0}), _vllm({"0": 60}, {"0": 0}))
    assert (change.movement, change.moved) == (Movement.LOST, True)
    assert compare(_vllm({"0": 9}, {"0": 1}), _vllm({"0": 60}, {"0": 0})).movement is Movement.BUSY


def test_a_replica_that_stands_still_is_no_proven_hang_where_the_engine_hides_that_it_reads_a_prompt() -> None:
    def sample(tokens: int) -> EngineSample:
        lines = [f'lmdeploy:generation_tokens_total{{engine="{r}"}} {n}' for r, n in (("0", tokens), ("1", 50))]
        return _read(*lines, *(f'lmdeploy:num_requests_running{{engine="{r}"}} 1' for r in (0, 1)))

    change = compare(sample(10), sample(30))
    assert (change.movement, change.stuck, change.prefill_hidden) == (Movement.PARTIAL, ("1",), True)
    late = compare(_read("lmdeploy:num_requests_running 0", "lmdeploy:generation_tokens_total 5"),
                   _read("lmdeploy:num_requests_running 1", "lmdeploy:generation_tokens_total 5"))  # fmt: skip
    assert (late.movement, late.prefill_hidden) == (Movement.FROZEN, True)


def test_without_a_count_of_running_requests_nobody_says_that_ours_is_missing() -> None:
    sample = _read("vllm:num_requests_waiting 0", "vllm:generation_tokens_total 5")
    assert compare(sample, sample).movement is Movement.UNKNOWN


def test_finished_requests_of_others_are_no_life_of_ours_where_the_engine_counts_none() -> None:
    before, after = (
        _read("sglang:num_running_reqs 0", "sglang:num_queue_reqs 0", f"sglang:generation_tokens_total {n}")
        for n in (100, 130)
    )
    assert (compare(before, after).movement, compare(before, after).moved) == (Movement.LOST, True)


def test_an_exemplar_behind_a_value_is_not_part_of_it() -> None:
    assert _read('vllm:generation_tokens_total{engine="0"} 640.0 # {trace_id="a"} 1.0 1.7e9').progress == 640
