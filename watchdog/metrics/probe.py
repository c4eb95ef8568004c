"""The result of one probe as metrics, for `/probe`: a scrape that makes the probe it reports."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from watchdog.metrics import PREFIX, encoded
from watchdog.model import Observation, Verdict

UNFINISHED = "scrape_timeout"
"""The reason given when the scrape had to be answered before the probe ended."""


def probe_exposition(server: str, seen: Observation | None, accept: str) -> tuple[bytes, str]:
    """`seen` (None: the probe has not ended in time) in the format that `accept` asks for, and its content type."""
    registry = CollectorRegistry(auto_describe=True)

    def gauge(name: str, words: str, value: float) -> None:
        Gauge(f"{PREFIX}_probe_{name}", words, ["server"], registry=registry).labels(server).set(value)

    passed = seen is not None and seen.verdict is Verdict.PASS
    gauge("success", "1 if generated text came back in time.", float(passed))
    reason = Gauge(f"{PREFIX}_probe_reason", "Always 1; why.", ["server", "verdict", "reason"], registry=registry)
    verdict = Verdict.FAIL if seen is None else seen.verdict
    reason.labels(server, verdict.value, UNFINISHED if seen is None else seen.reason).set(1)
    if seen is not None:
        gauge("started_timestamp_seconds", "When this probe began.", seen.at)
        gauge("last_duration_seconds", "How long it took.", seen.measurements.get("duration_s", seen.duration_s))
        for name, key, words in (
            ("last_first_token_seconds", "ttft_s", "Time to the first token."),
            ("last_tokens_per_second", "tokens_per_s", "Decode rate."),
        ):
            if key in seen.measurements:
                gauge(name, words, seen.measurements[key])
    return encoded(registry, accept)
