"""What a host's vitals say: answers taken apart, power learned, GPUs judged against recorded ones."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.vitals import (
    Bounds,
    Gpu,
    GpuTool,
    JudgedGpu,
    Load,
    PowerHistory,
    Vitals,
    VitalsMemory,
    beside,
    judge_gpus,
    loads_of,
    measurements_of,
    merge_samples,
    read_vitals,
    summary,
)
from watchdog.vitals.gpu_load import KEPT

RECORDED = Path(__file__).parents[1] / "fixtures/corpus/gpu/h200x2_idle_busy_hung_collective.csv"
HEADER = {"boot": "a" * 32, "uptime": "86400.5", "now": "1795000000"}
GB10 = b"gpu=0, NVIDIA GB10, 96, 20.41, 48, [N/A], [N/A], 0"


def recorded() -> dict[str, list[tuple[Gpu, ...]]]:
    """Phase → the GPUs at each moment of it."""
    moments: dict[tuple[str, str], list[Gpu]] = defaultdict(list)
    with RECORDED.open() as file:
        for row in csv.DictReader(file):
            moments[row["phase"], row["time"]].append(
                Gpu(
                    index=int(row["index"]),
                    name=row["name"],
                    util=float(row["utilization.gpu"]),
                    memory_util=float(row["utilization.memory"]),
                    power_w=float(row["power.draw"]),
                )
            )
    phases: dict[str, list[tuple[Gpu, ...]]] = defaultdict(list)
    for (phase, _), gpus in moments.items():
        phases[phase].append(tuple(gpus))
    return phases


def learned(*moments: tuple[Gpu, ...]) -> PowerHistory:
    history = PowerHistory()
    for gpus in moments:
        history.learn(gpus)
    return history


def test_a_gb10_answer_is_taken_apart_and_not_told_is_never_zero() -> None:
    lines = [b"MemTotal_kib=125000000", b"MemAvailable_kib=24000000", b"memory_some_avg10=1.50", GB10, b"gpu_rc=done"]
    vitals = read_vitals(HEADER, lines)
    assert vitals is not None
    assert (vitals.boot, vitals.uptime_s, vitals.host_now) == ("a" * 32, 86400.5, 1_795_000_000)
    assert (vitals.memory_total, vitals.memory_available) == (125000000 * 1024, 24000000 * 1024)
    assert vitals.pressure == {"some_avg10": 1.5}
    (gpu,) = vitals.gpus
    assert (gpu.util, gpu.power_w, gpu.temperature_c, gpu.memory_util) == (96, 20.41, 48, 0)
    assert gpu.memory_used_mib is None
    assert gpu.memory_total_mib is None
    assert vitals.gpu_tool is GpuTool.DONE


@pytest.mark.parametrize("cell", ["[N/A]", "[Not Supported]", "[Unknown Error]", "N/A", "", "nan", "inf", "-1"])
def test_a_figure_that_is_not_told_is_none(cell: str) -> None:
    vitals = read_vitals(HEADER, [f"gpu=0, NVIDIA GB10, {cell}, {cell}, {cell}, {cell}, {cell}, {cell}".encode()])
    assert vitals is not None
    (gpu,) = vitals.gpus
    assert (gpu.util, gpu.power_w, gpu.memory_util) == (None, None, None)
    (judged,) = judge_gpus(vitals.gpus, lambda _: Bounds())
    assert judged.load is Load.UNKNOWN
    assert set(measurements_of(vitals, (judged,))) == {"uptime_s", "gpu_wedged", "gpu0_load"}


def test_an_older_reader_without_memory_utilisation_is_understood() -> None:
    vitals = read_vitals(HEADER, [b"gpu=1, NVIDIA H200, 100, 127.23, 39, 1833, 143771"])
    assert vitals is not None
    assert (vitals.gpus[0].index, vitals.gpus[0].power_w, vitals.gpus[0].memory_util) == (1, 127.23, None)


@pytest.mark.parametrize(
    ("word", "tool", "wedged"),
    [
        ("hung", GpuTool.HUNG, True),
        ("stuck", GpuTool.STUCK, True),
        ("slow", GpuTool.SLOW, False),
        ("failed-9", GpuTool.FAILED, False),
        ("none", GpuTool.NONE, False),
        ("something else", GpuTool.UNTOLD, False),
    ],
)
def test_how_nvidia_smi_ended_is_known(word: str, tool: GpuTool, wedged: bool) -> None:
    vitals = read_vitals(HEADER, [f"gpu_rc={word}".encode()])
    assert vitals is not None
    assert (vitals.gpu_tool, vitals.gpu_tool.wedged) == (tool, wedged)
    assert measurements_of(vitals, ())["gpu_wedged"] == float(wedged)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=20), max_size=5), st.lists(st.binary(max_size=90)))
def test_any_bytes_are_an_answer_or_none(header: dict[str, str], lines: list[bytes]) -> None:
    for given_header in (header, {**HEADER, **header}):
        vitals = read_vitals(given_header, lines)
        if vitals is not None:
            judged = judge_gpus(vitals.gpus, lambda _: Bounds())
            json.dumps(measurements_of(vitals, judged), allow_nan=False)
            assert summary(vitals, judged)


def test_the_recorded_hang_is_recognised_and_idle_and_work_never_are() -> None:
    """With what was learned from the machine's own idle and busy hours, and with nothing learned at all."""
    phases = recorded()
    history = learned(*phases["idle"], *phases["busy"])
    for bounds_of in (history.bounds, lambda _: Bounds()):
        for gpus in phases["hung-collective"]:
            assert [one.load for one in judge_gpus(gpus, bounds_of)] == [Load.SPINNING, Load.EMPTY]
        for gpus in phases["idle"]:
            assert {one.load for one in judge_gpus(gpus, bounds_of)} == {Load.EMPTY}
        for gpus in phases["busy"]:
            assert {one.load for one in judge_gpus(gpus, bounds_of)} == {Load.WORKING}


def test_without_memory_utilisation_the_recorded_hang_needs_learned_power() -> None:
    phases = recorded()
    history = learned(*phases["idle"], *phases["busy"])
    blind = [Gpu(index=g.index, name=g.name, util=g.util, power_w=g.power_w) for g in phases["hung-collective"][0]]
    assert judge_gpus(blind, history.bounds)[0].load is Load.SPINNING
    assert judge_gpus(blind, lambda _: Bounds())[0].load is Load.LOW
    busy = [Gpu(index=g.index, name=g.name, util=g.util, power_w=g.power_w) for g in phases["busy"][0]]
    assert judge_gpus(busy, history.bounds)[0].load is Load.WORKING


def gb10(util: float | None, power_w: float | None) -> Gpu:
    return Gpu(index=0, name="NVIDIA GB10", util=util, memory_util=0, power_w=power_w)


@pytest.mark.parametrize(
    ("idle", "busy", "power_w", "load"),
    [
        (11, 45, 20, Load.SPINNING),  # 96 % at 20 W: the deadlock spin of public reports
        (4, 45, 16, Load.SPINNING),
        (11, 45, 72, Load.WORKING),  # 96 % at 72 W with no token: an honest long prefill (DS4.1 #22)
        (11, 45, 29, Load.FULL),  # in between: nobody can tell
        (11, None, 20, Load.SPINNING),
        (11, None, 45, Load.WORKING),
        (None, 45, 17, Load.SPINNING),
        (None, 45, 44, Load.WORKING),
        (None, None, 20, Load.LOW),  # a fresh daemon: what such a part draws idle is a weak sign
        (None, None, 29, Load.FULL),
        (40, 45, 41, Load.FULL),  # idle and work too close together
    ],
)
def test_full_at_idle_power_is_judged_by_the_machines_own_habits(
    idle: float | None, busy: float | None, power_w: float, load: Load
) -> None:
    (judged,) = judge_gpus([gb10(96, power_w)], lambda _: Bounds(idle, busy))
    assert judged.load is load


def test_an_unknown_part_of_unknown_habits_is_left_undecided_and_a_busy_one_of_a_known_part_is_never_low() -> None:
    unknown = Gpu(index=0, name="Some GPU", util=99, memory_util=0, power_w=8.0)
    assert judge_gpus([unknown], lambda _: Bounds())[0].load is Load.FULL
    for gpus in recorded()["busy"]:
        blind = [Gpu(index=g.index, name=g.name, util=g.util, power_w=g.power_w) for g in gpus]
        assert {one.load for one in judge_gpus(blind, lambda _: Bounds())} == {Load.FULL}


def test_ranks_on_two_hosts_are_judged_beside_each_other_also_when_read_back() -> None:
    """Of the recorded hang, each GPU on a host of its own; the most it drew was 1.21 times what the empty one did."""
    for power_w, load in ((1.209 * 104, Load.SPINNING), (1.5 * 104, Load.LOW), (400.0, Load.FULL)):
        full = Gpu(index=0, name="NVIDIA H200", util=100, memory_util=0, power_w=power_w)
        empty = Gpu(index=0, name="NVIDIA H200", util=0, memory_util=0, power_w=104)
        (one,), (other,) = (_read_back(judge_gpus([gpu], lambda _: Bounds())) for gpu in (full, empty))
        assert beside(one, [other]).load is load
        assert beside(other, [one]).load is Load.EMPTY
        (stranger,) = _read_back(judge_gpus([replace(empty, name="NVIDIA A100")], lambda _: Bounds()))
        assert beside(one, [stranger]).load is one.load


def _read_back(judged: tuple[JudgedGpu, ...]) -> tuple[JudgedGpu, ...]:
    return loads_of(measurements_of(Vitals(boot="b", uptime_s=1.0), judged))


def test_power_that_is_not_told_leaves_a_full_gpu_undecided() -> None:
    (judged,) = judge_gpus([gb10(96, None)], lambda _: Bounds(11, 45))
    assert judged.load is Load.FULL


def test_what_is_usual_is_learned_from_a_few_samples_and_stays_bounded() -> None:
    history = learned(*[(gb10(0, 11.0),)] * 4)
    assert history.bounds(gb10(0, 11)) == Bounds(None, None)
    history.learn([gb10(0, 11.0)])
    assert history.bounds(gb10(0, 11)) == Bounds(11.0, None)
    for _ in range(500):
        history.learn([gb10(96, 45.0)])
        history.learn([gb10(30, 25.0)])
    assert history.bounds(gb10(0, 11)) == Bounds(11.0, 45.0)
    kept = history.to_json()
    assert [len(row) for row in kept["0 NVIDIA GB10"]] == [5, KEPT]
    assert PowerHistory(json.loads(json.dumps(kept))).bounds(gb10(0, 11)) == Bounds(11.0, 45.0)


@pytest.mark.parametrize("stored", [None, 3, [], {"power": 5, "available": {}}, {"power": {"0": [["x"], 2]}}])
def test_memory_of_another_form_starts_anew(stored: object) -> None:
    memory = VitalsMemory(stored)
    assert memory.power.bounds(gb10(0, 1)) == Bounds()
    assert memory.drop(5.0, 100.0) == 0.0


def test_a_fall_of_available_memory_is_counted_over_half_an_hour() -> None:
    memory = VitalsMemory()
    for minute, size in enumerate((50.0, 48.0, 30.0, 12.0)):
        memory = VitalsMemory(json.loads(json.dumps(memory.to_json())))
        fallen = memory.drop(size, 1000.0 + 300 * minute)
    assert fallen == 38.0
    assert memory.drop(12.0, 1000.0 + 7200) == 0.0


def test_several_samples_give_the_middle_one() -> None:
    samples = [read_vitals(HEADER, [f"gpu=0, X, {util}, {power}, 40, 1, 2, 0".encode()]) for util, power in
               ((96, 20), (0, 11), (97, 21))]  # fmt: skip
    gpu = merge_samples([one for one in samples if one is not None]).gpus[0]
    assert (gpu.util, gpu.power_w) == (96, 20)


def test_figures_are_read_back_as_they_were_judged() -> None:
    vitals = read_vitals(HEADER, [GB10, b"gpu_rc=done"])
    assert vitals is not None
    judged = judge_gpus(vitals.gpus, lambda _: Bounds(11.0, 45.0))
    (back,) = loads_of(measurements_of(vitals, judged))
    assert (back.load, back.bounds, back.gpu.power_w) == (Load.SPINNING, Bounds(11.0, 45.0), 20.41)
    assert "GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work), memory 0 %" in summary(vitals, judged)


def test_free_memory_of_another_form_is_left_out() -> None:
    rows = [[10.0, 9e9], [11.0], [12.0, "x"], [13.0, 5e9, 1], "no", [14.0, 7e9]]
    memory = VitalsMemory({"available": rows})
    assert memory.to_json() == {"power": PowerHistory().to_json(), "available": [[10.0, 9e9], [14.0, 7e9]]}


@pytest.mark.parametrize(("place", "load"), [(-1.0, Load.UNKNOWN), (float(len(Load)), Load.UNKNOWN)])
def test_a_load_of_a_newer_version_is_unknown(place: float, load: Load) -> None:
    (judged,) = loads_of({"gpu0_load": place})
    assert judged.load is load


@pytest.mark.parametrize(
    ("used", "power_w", "other", "load"),
    [
        (0.0, 12.0, Gpu(index=1, name="A", util=0.0, power_w=11.0), Load.SPINNING),
        (0.0, 30.0, Gpu(index=1, name="A", util=0.0, power_w=11.0), Load.FULL),
        (0.0, 12.0, Gpu(index=1, name="B", util=0.0, power_w=11.0), Load.FULL),
        (0.0, 12.0, Gpu(index=1, name="A", util=90.0, power_w=11.0), Load.FULL),
        (0.0, 12.0, Gpu(index=1, name="A", util=0.0), Load.FULL),
        (0.0, 12.0, Gpu(index=0, name="A", util=0.0, power_w=11.0), Load.FULL),
        (None, 12.0, Gpu(index=1, name="A", util=0.0, power_w=11.0), Load.FULL),
        (0.0, None, Gpu(index=1, name="A", util=0.0, power_w=11.0), Load.FULL),
        (90.0, 12.0, Gpu(index=1, name="A", util=0.0, power_w=11.0), Load.WORKING),
    ],
)
def test_a_full_gpu_of_unknown_habits_is_judged_by_an_empty_one_of_its_kind(
    used: float | None, power_w: float | None, other: Gpu, load: Load
) -> None:
    full = Gpu(index=0, name="A", util=100.0, power_w=power_w, memory_util=used)
    judged = judge_gpus((full, other), lambda _: Bounds(None, None))
    assert judged[0].load is load
