"""Which living servers are slower than they use to be, from the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from watchdog import kinds
from watchdog.model import Verdict
from watchdog.store import Reader, Sample
from watchdog.text import quantile

# Alive, but slower than itself: a server compared with its own median of the last days.

WINDOW_S = 7 * 86400.0
MIN_SAMPLES = 50
FACTOR = 3.0
_RECENT = 3


class Speed(NamedTuple):
    """How fast one passing probe was: when (Unix seconds), time to first token, decode rate; None = not measured."""

    at: float
    ttft_s: float | None
    tokens_per_s: float | None


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
        unit = " s" if self.measure == "ttft_s" else "/s"
        what = "first token after" if self.measure == "ttft_s" else "tokens"
        return (
            f"alive, but {self.factor:.1f}× slower than its own median of 7 days "
            f"({what} {self.now_value:.3g}{unit}, usually {self.usual_value:.3g}{unit})"
        )


def drift_of(speeds: Iterable[Speed], now: float, *, factor: float = FACTOR) -> Drift | None:
    """The worst drift of at least `factor`, or None; off below `MIN_SAMPLES` within `WINDOW_S` before `now`.

    The median of the last three samples is compared with the median of all earlier ones in the window, so that one
    slow probe says nothing.
    """
    window = sorted((s for s in speeds if now - WINDOW_S <= s.at <= now), key=lambda s: s.at)
    found = [
        _slower("ttft_s", [s.ttft_s for s in window], lambda recent, usual: recent / usual),
        _slower("tokens_per_s", [s.tokens_per_s for s in window], lambda recent, usual: usual / recent),
    ]
    drifts = [drift for drift in found if drift is not None and drift.factor >= factor]
    return max(drifts, key=lambda drift: drift.factor, default=None)


def _slower(measure: str, values: list[float | None], ratio: Callable[[float, float], float]) -> Drift | None:
    measured = [value for value in values if value is not None and value > 0]
    if len(measured) < MIN_SAMPLES:
        return None
    usual, recent = quantile(measured[:-_RECENT]), quantile(measured[-_RECENT:])
    return Drift(
        measure=measure,
        factor=ratio(recent, usual),
        now_value=recent,
        usual_value=usual,
        samples=len(measured) - _RECENT,
    )


MOST_SERVERS = 50
"""A week of one server is 5,000 rows; with more servers than this a status must not read them all."""
GENERATION = kinds.GENERATION.key("")


def drifts(reader: Reader, keys: Iterable[str], now: float) -> dict[str, Drift]:
    """Key of a generation check → its drift, for those that have one and last passed. Empty for a large fleet."""
    servers = [key for key in keys if key.startswith(GENERATION)]
    if len(servers) > MOST_SERVERS:
        return {}
    found = {key: drift_in(reader.samples(key, now - WINDOW_S, now + 1.0), now) for key in servers}
    return {key: drift for key, drift in found.items() if drift is not None}


def drift_in(samples: Iterable[Sample], now: float) -> Drift | None:
    """The drift of one server whose last sample is a pass; None where a failure says more."""
    seen = tuple(samples)
    if len(seen) < MIN_SAMPLES or seen[-1].verdict is not Verdict.PASS:
        return None
    passed = [Speed(one.at, one.ttft_s, one.tokens_per_s) for one in seen if one.verdict is Verdict.PASS]
    return drift_of(passed, now)
