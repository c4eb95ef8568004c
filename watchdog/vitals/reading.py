"""The data lines of one `vitals` answer, taken apart. What a machine does not tell is None, never 0."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

MAX_GPUS = 32
MAX_VALUES = 100
FULL_PERCENT = 90.0


class GpuTool(StrEnum):
    """How `nvidia-smi` ended. `STUCK`: an earlier one hangs in the driver, so no other was started."""

    DONE = "done"
    NONE = "none"
    SLOW = "slow"
    HUNG = "hung"
    STUCK = "stuck"
    FAILED = "failed"
    UNTOLD = "untold"

    @property
    def wedged(self) -> bool:
        """Whether it hangs: the driver does not answer a program that only asks."""
        return self in (GpuTool.HUNG, GpuTool.STUCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU at one moment. Utilisations in percent, memory in MiB; None where it prints `[N/A]`."""

    index: int
    name: str = ""
    util: float | None = None
    memory_util: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether it shows 90 % or more: then it computes, or waits in a loop."""
        return self.util is not None and self.util >= FULL_PERCENT


_SHARES_MEMORY = ("GB10", "Orin", "Xavier", "Thor", "Tegra")
UNIFIED_FLOOR = 4.0 * 2**30
"""Bytes. Where a GPU has no memory of its own, a model that grows takes the machine's: it swaps, then stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """One answer. `host_now` is the host's wall clock (whole Unix seconds), memory in bytes.

    `pressure` maps `some_avg10`, `full_avg60` and the like to percent of time (Linux PSI); empty without PSI.
    """

    boot: str
    uptime_s: float
    host_now: float | None = None
    memory_total: float | None = None
    memory_available: float | None = None
    pressure: Mapping[str, float] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    gpu_tool: GpuTool = GpuTool.UNTOLD

    @property
    def shares_memory(self) -> bool:
        """Whether its GPU and its programs live in the same memory."""
        return any(part in gpu.name for gpu in self.gpus for part in _SHARES_MEMORY)


def read_vitals(header: Mapping[str, str], lines: Iterable[bytes]) -> Vitals | None:
    """The answer in a header and its data lines; None when the header lacks boot or uptime. Total on any bytes."""
    uptime_s = _number(header.get("uptime", ""))
    if not header.get("boot") or uptime_s is None:
        return None
    values: dict[str, float] = {}
    gpus: dict[int, Gpu] = {}
    tool = GpuTool.UNTOLD
    for line in lines:
        name, _, text = line.decode("utf-8", "replace").partition("=")
        if name == "gpu":
            gpu = _gpu(text)
            if gpu is not None and len(gpus) < MAX_GPUS:
                gpus[gpu.index] = gpu
        elif name == "gpu_rc":
            tool = _tool(text)
        elif len(values) < MAX_VALUES and (number := _number(text)) is not None:
            values[name] = number
    pressure = {name.removeprefix("memory_"): value for name, value in values.items() if name.startswith("memory_")}
    return Vitals(
        boot=header["boot"][:64],
        uptime_s=uptime_s,
        host_now=_number(header.get("now", "")),
        memory_total=_bytes(values.get("MemTotal_kib")),
        memory_available=_bytes(values.get("MemAvailable_kib")),
        pressure=pressure,
        gpus=tuple(gpus[index] for index in sorted(gpus)),
        gpu_tool=tool,
    )


def merge_samples(samples: Sequence[Vitals]) -> Vitals:
    """The newest of some answers taken within seconds, with each GPU's medians: one sample of a GPU may mislead."""
    last = samples[-1]
    return replace(last, gpus=tuple(_median_of(gpu, samples) for gpu in last.gpus))


def _median_of(gpu: Gpu, samples: Sequence[Vitals]) -> Gpu:
    seen = [other for sample in samples for other in sample.gpus if other.index == gpu.index]

    def middle(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return replace(
        gpu,
        util=middle([one.util for one in seen]),
        memory_util=middle([one.memory_util for one in seen]),
        power_w=middle([one.power_w for one in seen]),
    )


def _gpu(text: str) -> Gpu | None:
    """One line of `nvidia-smi --query-gpu`, as `gpu_fields` in reader.sh orders it. Older readers end earlier."""
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) < 7 or not cells[0].isascii() or not cells[0].isdigit() or len(cells[0]) > 3:
        return None
    util, power, temperature, used, total = map(_number, cells[2:7])
    memory_util = _number(cells[7]) if len(cells) > 7 else None
    return Gpu(
        index=int(cells[0]),
        name=cells[1][:60],
        util=util,
        memory_util=memory_util,
        power_w=power,
        temperature_c=temperature,
        memory_used_mib=used,
        memory_total_mib=total,
    )


def _tool(text: str) -> GpuTool:
    word = text.partition("-")[0]
    return GpuTool(word) if word in set(GpuTool) else GpuTool.UNTOLD


def _number(text: str) -> float | None:
    """The number in `text`; None for `[N/A]`, `[Not Supported]`, `nan` and everything else that is none."""
    words = text.split()
    try:
        value = float(words[0]) if words else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e15 else None


def _bytes(kib: float | None) -> float | None:
    return None if kib is None else kib * 1024
