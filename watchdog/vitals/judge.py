"""What each GPU is doing: empty, working, or full of a loop that computes nothing.

Utilisation says only that a kernel was resident: ranks that wait for each other show 100 % (measured on two H200:
100 % at 127 W with memory 0 % on one, 0 % on the other; idle 80 W, at work 690 W). Power tells the two apart. It is
evidence beside a failed probe, never an alarm of its own: a slow, living engine can draw little as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchdog.vitals.power import EMPTY_PERCENT, Bounds
from watchdog.vitals.reading import Gpu

LOW_SHARE = 0.4
"""Power below this part of the way from usual idle to usual work is near idle."""
LOW_OF_BUSY = 0.4
LOW_OF_IDLE = 2.0
HARD_OF_BUSY = 0.7
HARD_OF_IDLE = 3.0
SEPARABLE = 1.5
"""Idle and work closer together than this factor cannot be told apart by power."""
LIKE_SIBLING = 1.2
MEMORY_AT_WORK_PERCENT = 5.0


class Load(StrEnum):
    """`SPINNING`: full, at near idle power. `FULL`: full, and nothing says whether it computes."""

    UNKNOWN = "unknown"
    EMPTY = "empty"
    PARTLY = "partly"
    FULL = "full"
    WORKING = "working"
    SPINNING = "spinning"

    @property
    def is_full(self) -> bool:
        """Whether the GPU shows at least 90 %."""
        return self in (Load.FULL, Load.WORKING, Load.SPINNING)


@dataclass(frozen=True, slots=True)
class JudgedGpu:
    """A GPU, what it does, and what power is usual for it."""

    gpu: Gpu
    load: Load
    bounds: Bounds


def judge(gpus: Sequence[Gpu], bounds_of: Callable[[Gpu], Bounds]) -> tuple[JudgedGpu, ...]:
    """Each GPU of one host judged beside the others."""
    return tuple(JudgedGpu(gpu, _load(gpu, gpus, bounds_of(gpu)), bounds_of(gpu)) for gpu in gpus)


def _load(gpu: Gpu, beside: Sequence[Gpu], bounds: Bounds) -> Load:
    if gpu.util is None:
        return Load.UNKNOWN
    if gpu.util <= EMPTY_PERCENT:
        return Load.EMPTY
    return _full(gpu, beside, bounds) if gpu.is_full else Load.PARTLY


def _full(gpu: Gpu, beside: Sequence[Gpu], bounds: Bounds) -> Load:
    if gpu.memory_util is not None and gpu.memory_util >= MEMORY_AT_WORK_PERCENT:
        return Load.WORKING
    hard = None if gpu.power_w is None else _draws_hard(gpu.power_w, bounds)
    if hard is None:
        return Load.SPINNING if _draws_like_an_empty_one(gpu, beside) else Load.FULL
    return Load.WORKING if hard else Load.SPINNING


def _draws_hard(power_w: float, bounds: Bounds) -> bool | None:
    """Whether the power is that of work (True) or near idle (False), by what was learned; None = in between."""
    idle, busy = bounds.idle_w, bounds.busy_w
    if idle is not None and busy is not None:
        if busy < SEPARABLE * idle:
            return None
        if power_w <= idle + LOW_SHARE * (busy - idle):
            return False
        return True if power_w >= HARD_OF_BUSY * busy else None
    if busy is not None:
        return False if power_w <= LOW_OF_BUSY * busy else True if power_w >= HARD_OF_BUSY * busy else None
    if idle is not None:
        return False if power_w <= LOW_OF_IDLE * idle else True if power_w >= HARD_OF_IDLE * idle else None
    return None


def _draws_like_an_empty_one(gpu: Gpu, beside: Sequence[Gpu]) -> bool:
    """Whether a full GPU draws no more than an empty one of its kind next to it: then it computes nothing."""
    if gpu.power_w is None or gpu.memory_util is None:
        return False
    return any(
        other.index != gpu.index
        and other.name == gpu.name
        and other.util is not None
        and other.util <= EMPTY_PERCENT
        and other.power_w is not None
        and gpu.power_w <= LIKE_SIBLING * other.power_w
        for other in beside
    )


def gpu_words(judged: JudgedGpu) -> str:
    """One GPU in a few words: `GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work)`."""
    gpu, bounds = judged.gpu, judged.bounds
    util = "utilisation not told" if gpu.util is None else f"{gpu.util:.0f} %"
    text = f"GPU {gpu.index} {util}"
    if gpu.power_w is not None:
        text += f" at {gpu.power_w:.0f} W"
    usual = [f"{watts:.0f} W {when}" for watts, when in ((bounds.idle_w, "idle"), (bounds.busy_w, "at work")) if watts]
    if usual and judged.load.is_full:
        text += f" (usually {', '.join(usual)})"
    if gpu.memory_util is not None and judged.load.is_full:
        text += f", memory {gpu.memory_util:.0f} %"
    return text
