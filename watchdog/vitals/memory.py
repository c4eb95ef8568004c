"""What the vitals check of one host remembers between its runs: usual power, and how much memory was free lately."""

from __future__ import annotations

from collections.abc import Mapping

from watchdog.model import Json
from watchdog.vitals.power import PowerHistory

LATELY_S = 1800.0
_KEPT = 40


class VitalsMemory:
    """Bounded, and all of it can be learned again."""

    def __init__(self, stored: Json = None) -> None:
        """Start from what `to_json` gave; what is missing or of a wrong type starts anew."""
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
        """What to keep."""
        return {"power": self.power.to_json(), "available": [list(pair) for pair in self._available]}


def _pairs(value: Json) -> list[tuple[float, float]]:
    rows = value if isinstance(value, list) else []
    return [
        (float(row[0]), float(row[1]))
        for row in rows
        if isinstance(row, list) and len(row) == 2 and all(isinstance(cell, int | float) for cell in row)
    ][-_KEPT:]
