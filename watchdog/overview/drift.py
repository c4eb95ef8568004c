"""Alive, but slower than itself: a server compared with its own median of the last days."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from watchdog.model import Verdict
from watchdog.overview import GENERATION
from watchdog.store import Reader, Sample

WINDOW_S = 7 * 86400.0
MIN_SAMPLES = 50
FACTOR = 3.0
MOST_SERVERS = 50
"""A week of one server is 5,000 rows; with more servers than this a status must not read them all."""
_RECENT = 3
"""Samples whose median is compared with the usual one: one slow probe says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How many times slower than usual (`factor`), by which measure, over how many earlier samples."""

    measure: str
    factor: float
    now_value: float
    usual_value: float
    samples: int

    def __str__(self) -> str:
        """The sentence for the status: `alive, but 6.0× slower than its own median of 7 days (…)`."""
        what, unit = ("first token after", " s") if self.measure == "ttft_s" else ("tokens", "/s")
        return (
            f"alive, but {self.factor:.1f}× slower than its own median of 7 days "
            f"({what} {self.now_value:.3g}{unit}, usually {self.usual_value:.3g}{unit})"
        )


def drifts(reader: Reader, keys: Iterable[str], now: float) -> dict[str, Drift]:
    """Key of a generation check → its drift, for those that have one. Empty for a large fleet."""
    servers = [key for key in keys if key.startswith(GENERATION)]
    if len(servers) > MOST_SERVERS:
        return {}
    found = {key: drift_of(reader.samples(key, now - WINDOW_S, now + 1.0), now) for key in servers}
    return {key: drift for key, drift in found.items() if drift is not None}


def drift_of(samples: Iterable[Sample], now: float) -> Drift | None:
    """The worst drift of a server by at least `FACTOR`, or None.

    None also with fewer than `MIN_SAMPLES` passes within `WINDOW_S` before `now`, and where the last sample is no pass:
    a failure says more.
    """
    window = sorted((one for one in samples if now - WINDOW_S <= one.at <= now), key=lambda one: one.at)
    if not window or window[-1].verdict is not Verdict.PASS:
        return None
    passed = [one for one in window if one.verdict is Verdict.PASS]
    found = (
        _slower("ttft_s", [one.ttft_s for one in passed], lambda recent, usual: recent / usual),
        _slower("tokens_per_s", [one.tokens_per_s for one in passed], lambda recent, usual: usual / recent),
    )
    worst = max((drift for drift in found if drift is not None), key=lambda drift: drift.factor, default=None)
    return worst if worst is not None and worst.factor >= FACTOR else None


def _slower(measure: str, values: list[float | None], ratio: Callable[[float, float], float]) -> Drift | None:
    measured = [value for value in values if value is not None and value > 0]
    if len(measured) < MIN_SAMPLES:
        return None
    earlier = measured[:-_RECENT]
    usual, recent = median(earlier), median(measured[-_RECENT:])
    return Drift(
        measure=measure, factor=ratio(recent, usual), now_value=recent, usual_value=usual, samples=len(earlier)
    )
