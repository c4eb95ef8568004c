"""Which living servers are slower than they use to be, from the history."""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.completion.drift import MIN_SAMPLES, WINDOW_S, Drift, Speed, drift_of
from watchdog.model import Verdict
from watchdog.store import Reader, Sample

MOST_SERVERS = 50
"""A week of one server is 5,000 rows; with more servers than this a status must not read them all."""
GENERATION = "generation/"


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
