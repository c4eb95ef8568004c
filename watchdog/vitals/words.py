"""Vitals in one line for a person."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.quantity import gib
from watchdog.vitals.judge import JudgedGpu, gpu_words
from watchdog.vitals.reading import GpuTool, Vitals

_SHOWN_GPUS = 4
_TOOL = {
    GpuTool.HUNG: "nvidia-smi hangs",
    GpuTool.STUCK: "an earlier nvidia-smi still hangs in the driver",
    GpuTool.SLOW: "nvidia-smi gave no answer within 8 s",
    GpuTool.FAILED: "nvidia-smi failed",
}


def summary(vitals: Vitals, gpus: Sequence[JudgedGpu]) -> str:
    """Memory and GPUs in one line."""
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
    return "; ".join(parts) or "it says nothing about memory or GPUs"
