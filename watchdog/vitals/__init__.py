"""What the reader's `vitals` tell about a host: its memory, its GPUs, and how hard they really work. Pure."""

from watchdog.vitals.figures import figures, loads_of
from watchdog.vitals.judge import JudgedGpu, Load, gpu_words, judge
from watchdog.vitals.memory import VitalsMemory
from watchdog.vitals.power import Bounds, PowerHistory
from watchdog.vitals.reading import Gpu, GpuTool, Vitals, merged, read_vitals
from watchdog.vitals.words import summary

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
