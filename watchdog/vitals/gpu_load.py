"""What each GPU is doing: empty, working, or full of a loop that computes nothing.

Utilisation says only that a kernel was resident: ranks that wait for each other show 100 % (measured on two H200:
100 % at 127 W with memory 0 % on one, 0 % on the other; idle 80 W, at work 690 W). Power tells the two apart. It is
evidence beside a failed probe, never an alarm of its own: a slow, living engine can draw little as well.
"""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from watchdog.model import Json
from watchdog.vitals.reading import Gpu

# What a GPU usually draws, idle and at work, learned from itself: no fixed number of watts fits every machine.

EMPTY_PERCENT = 5.0
WORKING_PERCENT = 50.0
KEPT = 32
"""Samples kept per GPU and kind: the newest. Days of them at the usual pace."""
ENOUGH = 5
"""Samples before a quantile means anything."""
MAX_KNOWN = 64


@dataclass(frozen=True, slots=True)
class Bounds:
    """Usual power in watts: idle (three quarters of idle samples draw no more) and at work (median); None = unknown."""

    idle_w: float | None = None
    busy_w: float | None = None


@dataclass(slots=True)
class _Samples:
    idle: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)


class PowerHistory:
    """The newest power samples of each GPU of one host, bounded, as JSON and back."""

    def __init__(self, stored: Json = None) -> None:
        """Start from what `to_json` gave; anything else starts empty."""
        self._gpus: dict[str, _Samples] = {}
        for name, rows in stored.items() if isinstance(stored, Mapping) else ():
            if isinstance(rows, list) and len(rows) == 2 and len(self._gpus) < MAX_KNOWN:
                self._gpus[str(name)] = _Samples(_floats(rows[0]), _floats(rows[1]))

    def learn(self, gpus: Iterable[Gpu]) -> None:
        """Take samples of a host with which nothing is wrong: a hang must not become what is usual."""
        for gpu in gpus:
            if gpu.util is None or gpu.power_w is None or gpu.power_w <= 0:
                continue
            samples = self._gpus.get(_name(gpu))
            if samples is None:
                if len(self._gpus) >= MAX_KNOWN:
                    self._gpus.clear()
                samples = self._gpus.setdefault(_name(gpu), _Samples())
            if gpu.util <= EMPTY_PERCENT:
                samples.idle = [*samples.idle, round(gpu.power_w, 1)][-KEPT:]
            elif gpu.util >= WORKING_PERCENT:
                samples.busy = [*samples.busy, round(gpu.power_w, 1)][-KEPT:]

    def bounds(self, gpu: Gpu) -> Bounds:
        """The usual power of `gpu`, idle and busy, in watts; unknown until enough samples were taken."""
        samples = self._gpus.get(_name(gpu))
        if samples is None:
            return Bounds()
        return Bounds(_quartile(samples.idle, 3), _quartile(samples.busy, 2))

    def to_json(self) -> Json:
        """What to keep: GPU → [idle samples, busy samples] in watts."""
        return {name: [samples.idle, samples.busy] for name, samples in self._gpus.items()}


def _name(gpu: Gpu) -> str:
    return f"{gpu.index} {gpu.name}"


def _quartile(samples: list[float], number: int) -> float | None:
    if len(samples) < ENOUGH:
        return None
    return round(statistics.quantiles(samples, n=4, method="inclusive")[number - 1], 1)


def _floats(value: Json) -> list[float]:
    if not isinstance(value, list):
        return []
    return [float(one) for one in value if isinstance(one, int | float) and 0 < one < 1e6][-KEPT:]


LOW_SHARE = 0.4
"""Power below this part of the way from usual idle to usual work is near idle."""
LOW_OF_BUSY = 0.4
LOW_OF_IDLE = 2.0
HARD_OF_BUSY = 0.7
HARD_OF_IDLE = 3.0
SEPARABLE = 1.5
"""Idle and work closer together than this factor cannot be told apart by power."""
LIKE_SIBLING = 1.3
"""Measured on two H200 hung in a collective: up to 1.21 times what an empty one with a process on it draws."""
MEMORY_AT_WORK_PERCENT = 5.0
KNOWN_IDLE_W = {"NVIDIA GB10": 20.0, "NVIDIA H200": 135.0}
"""The most that such a part was seen to draw while it computed nothing, a process on it: a weak sign, until it is known
what this one draws. At work a GB10 draws 45 W and an H200 690 W."""
NEAR_KNOWN_IDLE = 1.2


class Load(StrEnum):
    """`SPINNING`: full, at near idle power. `FULL`: full, and nothing says whether it computes.

    `LOW`: full, at what such a part draws idle, with nothing learned of this one: a weak sign that it spins.
    """

    UNKNOWN = "unknown"
    EMPTY = "empty"
    PARTLY = "partly"
    FULL = "full"
    WORKING = "working"
    SPINNING = "spinning"
    LOW = "low"  # the last one: loads are stored by their place

    @property
    def is_full(self) -> bool:
        """Whether utilisation is at least 90 %."""
        return self in (Load.FULL, Load.WORKING, Load.SPINNING, Load.LOW)


@dataclass(frozen=True, slots=True)
class JudgedGpu:
    """A GPU, what it does, and what power is usual for it.

    `part` is the same number for the same kind of GPU, 0 where that is not known; `known_idle_w` is what that kind
    draws idle at most, None where nobody measured it.
    """

    gpu: Gpu
    load: Load
    bounds: Bounds
    part: int = 0
    known_idle_w: float | None = None

    @property
    def reads_no_memory(self) -> bool:
        """Whether it surely reads none: a GB10 shows 0 % whatever it does."""
        used = self.gpu.memory_util
        return used is not None and used < 1 and self.part not in (0, _part("NVIDIA GB10"))


def judge_gpus(gpus: Sequence[Gpu], bounds_of: Callable[[Gpu], Bounds]) -> tuple[JudgedGpu, ...]:
    """Each GPU of one host judged beside the others."""
    alone = tuple(
        JudgedGpu(gpu, _load(gpu, bounds_of(gpu)), bounds_of(gpu), _part(gpu.name), _known_idle(gpu.name))
        for gpu in gpus
    )
    return tuple(beside(one, (other for other in alone if other.gpu.index != one.gpu.index)) for one in alone)


def beside(full: JudgedGpu, others: Iterable[JudgedGpu]) -> JudgedGpu:
    """`full` judged beside `others`, GPUs that share its work: also those of other hosts of one server.

    One that is full and draws no more than an empty one of its kind computes nothing: `SPINNING`.
    """
    if full.load not in (Load.FULL, Load.LOW) or full.gpu.power_w is None or full.gpu.memory_util is None:
        return full
    for other in others:
        if other.load is not Load.EMPTY or other.gpu.power_w is None or not full.part or other.part != full.part:
            continue
        if full.gpu.power_w <= LIKE_SIBLING * other.gpu.power_w:
            return replace(full, load=Load.SPINNING)
    return full


def _part(name: str) -> int:
    return zlib.crc32(name.encode()) if name else 0


def _known_idle(name: str) -> float | None:
    return next((watts for part, watts in KNOWN_IDLE_W.items() if name.startswith(part)), None)


def _load(gpu: Gpu, bounds: Bounds) -> Load:
    if gpu.util is None:
        return Load.UNKNOWN
    if gpu.util <= EMPTY_PERCENT:
        return Load.EMPTY
    return _full(gpu, bounds) if gpu.is_full else Load.PARTLY


def _full(gpu: Gpu, bounds: Bounds) -> Load:
    if gpu.memory_util is not None and gpu.memory_util >= MEMORY_AT_WORK_PERCENT:
        return Load.WORKING
    hard = None if gpu.power_w is None else _draws_hard(gpu.power_w, bounds)
    if hard is None:
        return Load.LOW if bounds == Bounds() and _near_known_idle(gpu) else Load.FULL
    return Load.WORKING if hard else Load.SPINNING


def _near_known_idle(gpu: Gpu) -> bool:
    watts = _known_idle(gpu.name)
    return watts is not None and gpu.power_w is not None and gpu.power_w <= NEAR_KNOWN_IDLE * watts


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


def gpu_words(judged: JudgedGpu) -> str:
    """One GPU in a few words: `GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work)`."""
    gpu, bounds = judged.gpu, judged.bounds
    util = "utilisation unknown" if gpu.util is None else f"{gpu.util:.0f} %"
    text = f"GPU {gpu.index} {util}"
    if gpu.power_w is not None:
        text += f" at {gpu.power_w:.0f} W"
    usual = [f"{watts:.0f} W {when}" for watts, when in ((bounds.idle_w, "idle"), (bounds.busy_w, "at work")) if watts]
    if usual and judged.load.is_full:
        text += f" (usually {', '.join(usual)})"
    elif judged.load is Load.LOW and judged.known_idle_w is not None:
        text += f" (such a GPU draws up to {judged.known_idle_w:.0f} W idle)"
    if gpu.memory_util is not None and judged.load.is_full:
        text += f", memory {gpu.memory_util:.0f} %"
    return text


# What the vitals check of one host remembers between its runs: usual power, and how much memory was free lately.

LATELY_S = 1800.0
_KEPT = 40


class VitalsMemory:
    """Bounded, and all of it can be learned again."""

    def __init__(self, stored: Json = None) -> None:
        """Start from what `to_json` returned; anything missing or of a wrong type starts empty."""
        raw = stored if isinstance(stored, Mapping) else {}
        self.power = PowerHistory(raw.get("power"))
        self._available: list[tuple[float, float]] = _pairs(raw.get("available"))

    def drop(self, available: float, now: float) -> float:
        """Note the bytes available now; returns how many fewer that are than at the best of the last half hour."""
        lately = [(at, value) for at, value in self._available if 0 <= now - at <= LATELY_S]
        best = max((value for _, value in lately), default=available)
        self._available = [*lately, (round(now, 1), available)][-_KEPT:]
        return max(0.0, best - available)

    def to_json(self) -> Json:
        return {"power": self.power.to_json(), "available": [list(pair) for pair in self._available]}


def _pairs(value: Json) -> list[tuple[float, float]]:
    rows = value if isinstance(value, list) else []
    return [
        (float(row[0]), float(row[1]))
        for row in rows
        if isinstance(row, list) and len(row) == 2 and all(isinstance(cell, int | float) for cell in row)
    ][-_KEPT:]
