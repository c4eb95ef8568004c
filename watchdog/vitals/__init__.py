"""What the reader's `vitals` tell about a host: its memory, its GPUs, and how hard they really work. Pure."""

from watchdog.vitals.gpu_load import Bounds, JudgedGpu, Load, PowerHistory, VitalsMemory, gpu_words, judge
from watchdog.vitals.measurements import figures, loads_of, summary
from watchdog.vitals.reading import Gpu, GpuTool, Vitals, merged, read_vitals

__all__ = [
    "Bounds",
    "Gpu",
    "GpuTool",
    "JudgedGpu",
    "Load",
    "PowerHistory",
    "Vitals",
    "VitalsMemory",
    "figures",
    "gpu_words",
    "judge",
    "loads_of",
    "merged",
    "read_vitals",
    "summary",
]
