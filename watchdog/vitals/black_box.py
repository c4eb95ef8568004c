"""The last ten minutes of a host, as its live stream brought them: what is left of a machine that falls silent. Pure.

The reader sends a line every five seconds: memory and its pressure, and, from an `nvidia-smi` that runs beside it, each
GPU's temperature, power, clock and utilisation. Nothing of it is stored unless the host is gone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from watchdog.model import LastSeen
from watchdog.text import gib

MARK = b"vitals "
"""What such a line on the live stream begins with; a kernel line begins with a brace."""
KEPT_S = 600.0
LATE_S = 3600.0
MOST = 150
GPU_FRESH_S = 15.0
"""Figures of a GPU that are older say nothing about now: its tool hangs."""
MAX_GPUS = 32
_GREATEST = 1e9


class BlackBox:
    """The newest lines, as points: at most ten minutes of them."""

    def __init__(self) -> None:
        """Start empty."""
        self._points: deque[LastSeen] = deque(maxlen=MOST)
        self._gpus: dict[int, tuple[float, tuple[float | None, ...]]] = {}

    def take(self, line: bytes, now: float) -> None:
        """Take one line, which came at `now` (Unix seconds, our clock). Total on any bytes."""
        name, _, text = line[len(MARK) :].decode("utf-8", "replace").strip().partition("=")
        if name == "gpu":
            self._take_gpu(text, now)
        elif name == "memory":
            self._take_memory(text, now)

    def points(self, until: float) -> tuple[LastSeen, ...]:
        """The ten minutes up to the last point before `until`, oldest first; nothing if that is over an hour ago."""
        before = [one for one in self._points if one.at <= until]
        if not before or before[-1].at < until - LATE_S:
            return ()
        return tuple(one for one in before if one.at >= before[-1].at - KEPT_S)

    def clear(self) -> None:
        """Forget it: the machine restarted."""
        self._points.clear()
        self._gpus.clear()

    def _take_gpu(self, text: str, now: float) -> None:
        index, *numbers = [cell.strip() for cell in text.split(",")]
        if index.isascii() and index.isdigit() and len(index) <= 2 and int(index) < MAX_GPUS and len(numbers) >= 4:
            self._gpus[int(index)] = (now, tuple(_number(cell) for cell in numbers[:4]))

    def _take_memory(self, text: str, now: float) -> None:
        available, *pressures = text.split(" ")
        kib = _number(available)
        some = next(iter(pressures), "").partition("=")[2]
        fresh = [values for at, values in self._gpus.values() if 0 <= now - at <= GPU_FRESH_S]
        hottest = max(fresh, key=lambda values: values[0] or 0.0, default=(None,) * 4)
        if self._points and self._points[-1].at > now:
            self._points.clear()  # our clock was set back
        self._points.append(
            LastSeen(
                at=now,
                available_bytes=None if kib is None else kib * 1024,
                pressure=_number(some),
                temperature_c=hottest[0],
                power_w=hottest[1],
                clock_mhz=hottest[2],
                gpu_util=hottest[3],
                gpu_hangs=bool(self._gpus) and not fresh,
            )
        )


def last_seen_words(point: LastSeen) -> str:
    """`1.2 GiB available, 91 °C, 16 W, 208 MHz`: only what is known; the hottest GPU's figures."""
    parts = []
    if point.available_bytes is not None:
        parts.append(f"{gib(point.available_bytes)} available")
    if point.pressure is not None and point.pressure >= 1:
        parts.append(f"memory pressure {point.pressure:.0f} %")
    for value, unit in (
        (point.temperature_c, "°C"),
        (point.power_w, "W"),
        (point.clock_mhz, "MHz"),
        (point.gpu_util, "% GPU"),
    ):
        if value is not None:
            parts.append(f"{value:.0f} {unit}")
    if point.gpu_hangs:
        parts.append("nvidia-smi hangs")
    return ", ".join(parts) or "nothing of its memory or GPUs"


def thinned(points: Iterable[LastSeen], most: int = 60) -> tuple[LastSeen, ...]:
    """At most `most` of `points`, evenly, and always the last."""
    known = list(points)
    step = max(1, math.ceil(len(known) / most))
    return tuple(known[::-1][::step][::-1])


def _number(text: str) -> float | None:
    """A finite number of a sane size; None for `[N/A]` and anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _GREATEST else None
