"""Vitals as the numbers of an observation, and what a diagnosis reads back from them.

Names: `uptime_s`, `memory_total_bytes`, `memory_available_bytes`, `memory_drop_bytes`, `memory_some_avg10` and its
relatives, `clock_offset_s` (the host's clock minus ours), `gpu_wedged` (nvidia-smi hangs), and per GPU
`gpu0_util`, `gpu0_memory_util`, `gpu0_power_w`, `gpu0_temperature_c`, `gpu0_idle_w`, `gpu0_busy_w`, `gpu0_load`,
`gpu0_part` (equal numbers: the same kind of GPU), `gpu0_known_idle_w` (what that kind draws idle at most); the last two
only where a judgement needs them.
What is not known has no entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watchdog.text import gib
from watchdog.vitals.gpu_load import Bounds, JudgedGpu, Load, gpu_words
from watchdog.vitals.reading import MAX_GPUS, Gpu, GpuTool, Vitals

_LOADS = tuple(Load)


def measurements_of(
    vitals: Vitals, gpus: Sequence[JudgedGpu], *, clock_offset_s: float | None = None, drop: float | None = None
) -> dict[str, float]:
    """The measurements of an observation: name to value, without those that are unknown."""
    known: dict[str, float | None] = {
        "uptime_s": vitals.uptime_s,
        "memory_total_bytes": vitals.memory_total,
        "memory_available_bytes": vitals.memory_available,
        "memory_drop_bytes": drop,
        "clock_offset_s": clock_offset_s,
        "gpu_wedged": 1.0 if vitals.gpu_tool.wedged else 0.0,
        **{f"memory_{name}": value for name, value in vitals.pressure.items()},
    }
    for one in gpus:
        known |= {f"gpu{one.gpu.index}_{name}": value for name, value in _of_gpu(one).items()}
    return {name: value for name, value in known.items() if value is not None}


def _of_gpu(one: JudgedGpu) -> dict[str, float | None]:
    return {
        "util": one.gpu.util,
        "memory_util": one.gpu.memory_util,
        "power_w": one.gpu.power_w,
        "temperature_c": one.gpu.temperature_c,
        "idle_w": one.bounds.idle_w,
        "busy_w": one.bounds.busy_w,
        "load": float(_LOADS.index(one.load)),
        "part": float(one.part) if one.part and (one.load is Load.EMPTY or one.load.is_full) else None,
        "known_idle_w": one.known_idle_w if one.load is Load.LOW else None,
    }


def loads_of(numbers: Mapping[str, float]) -> tuple[JudgedGpu, ...]:
    """The judged GPUs that `figures` wrote, in order."""
    found = []
    for index in range(MAX_GPUS):
        place = numbers.get(f"gpu{index}_load")
        if place is None:
            continue
        gpu = Gpu(
            index=index,
            util=numbers.get(f"gpu{index}_util"),
            memory_util=numbers.get(f"gpu{index}_memory_util"),
            power_w=numbers.get(f"gpu{index}_power_w"),
        )
        load = _LOADS[int(place)] if 0 <= place < len(_LOADS) else Load.UNKNOWN
        bounds = Bounds(numbers.get(f"gpu{index}_idle_w"), numbers.get(f"gpu{index}_busy_w"))
        part = int(numbers.get(f"gpu{index}_part", 0))
        found.append(JudgedGpu(gpu, load, bounds, part, numbers.get(f"gpu{index}_known_idle_w")))
    return tuple(found)


# Vitals in one line for a person.

_SHOWN_GPUS = 4
_TOOL = {
    GpuTool.HUNG: "nvidia-smi hangs",
    GpuTool.STUCK: "an earlier nvidia-smi still hangs in the driver",
    GpuTool.SLOW: "nvidia-smi gave no answer within 8 s",
    GpuTool.FAILED: "nvidia-smi failed",
}


def summary(vitals: Vitals, gpus: Sequence[JudgedGpu]) -> str:
    parts = []
    if vitals.memory_available is not None:
        of = "" if vitals.memory_total is None else f" of {gib(vitals.memory_total)}"
        parts.append(f"{gib(vitals.memory_available)}{of} memory available")
    some = vitals.pressure.get("some_avg10", 0.0)
    if some >= 1:
        parts.append(f"memory pressure {some:.0f} %")
    parts += [gpu_words(one) for one in gpus[:_SHOWN_GPUS]]
    if len(gpus) > _SHOWN_GPUS:
        parts.append(f"and {len(gpus) - _SHOWN_GPUS} more GPUs")
    if vitals.gpu_tool in _TOOL:
        parts.append(_TOOL[vitals.gpu_tool])
    return "; ".join(parts) or "it reports nothing about memory or GPUs"
