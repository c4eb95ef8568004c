"""What the reader's `vitals` tell about a host: its memory, its GPUs, and how hard they really work. Pure."""

from watchdog.vitals.gpu_load import (
    Bounds,
    JudgedGpu,
    Load,
    PowerHistory,
    VitalsMemory,
    beside,
    gpu_words,
    judge_gpus,
)
from watchdog.vitals.measurements import loads_of, measurements_of, summary
from watchdog.vitals.reading import UNIFIED_FLOOR, Gpu, GpuTool, Vitals, merge_samples, read_vitals

__all__ = [
    "UNIFIED_FLOOR",
    "Bounds",
    "Gpu",
    "GpuTool",
    "JudgedGpu",
    "Load",
    "PowerHistory",
    "Vitals",
    "VitalsMemory",
    "beside",
    "gpu_words",
    "judge_gpus",
    "loads_of",
    "measurements_of",
    "merge_samples",
    "read_vitals",
    "summary",
]
