"""What a GPU usually draws, idle and at work, learned from itself: no fixed number of watts fits every machine.

A GB10 idles at 4 to 11 W and works at 45 W, an H200 idles at 80 W and works at 690 W; a hang lies between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from watchdog.model import Json
from watchdog.quantity import quantile
from watchdog.vitals.reading import Gpu

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
        """What is usual for `gpu`."""
        samples = self._gpus.get(_name(gpu))
        if samples is None:
            return Bounds()
        return Bounds(_quantile(samples.idle, 75), _quantile(samples.busy, 50))

    def to_json(self) -> Json:
        """What to keep: GPU → [idle samples, busy samples] in watts."""
        return {name: [samples.idle, samples.busy] for name, samples in self._gpus.items()}


def _name(gpu: Gpu) -> str:
    return f"{gpu.index} {gpu.name}"


def _quantile(samples: list[float], percent: int) -> float | None:
    if len(samples) < ENOUGH:
        return None
    return round(quantile(samples, percent), 1)


def _floats(value: Json) -> list[float]:
    if not isinstance(value, list):
        return []
    return [float(one) for one in value if isinstance(one, int | float) and 0 < one < 1e6][-KEPT:]
