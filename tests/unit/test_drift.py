"""Alive, but slower than itself."""

from __future__ import annotations

from watchdog.model import Verdict
from watchdog.overview.status import drift_of
from watchdog.store import Sample

NOW = 1_000_000.0


def _passed(at: float, ttft_s: float | None, tokens_per_s: float) -> Sample:
    return Sample(at, Verdict.PASS, "ok", 1.0, ttft_s, tokens_per_s)


def _samples(count: int, ttft_s: float, recent: float, rate: float = 50.0, recent_rate: float = 50.0) -> list[Sample]:
    usual = [_passed(NOW - 120 * (count - n), ttft_s, rate) for n in range(count - 3)]
    return usual + [_passed(NOW - 120 * n, recent, recent_rate) for n in (2, 1, 0)]


def test_a_server_six_times_slower_than_its_median_drifts() -> None:
    drift = drift_of(_samples(60, 0.5, 3.0), NOW)
    assert drift is not None
    assert (drift.measure, drift.factor, drift.samples) == ("ttft_s", 6.0, 57)
    assert str(drift) == ("alive, but 6.0× slower than its own median of 7 days (first token after 3 s, usually 0.5 s)")


def test_fewer_tokens_a_second_are_a_drift_too() -> None:
    drift = drift_of(_samples(60, 0.5, 0.5, 50, 10), NOW)
    assert drift is not None
    assert (drift.measure, drift.factor) == ("tokens_per_s", 5.0)
    assert str(drift).endswith("(tokens 10/s, usually 50/s)")


def test_below_fifty_samples_nothing_is_said() -> None:
    assert drift_of(_samples(49, 0.5, 9.0), NOW) is None
    assert drift_of(_samples(50, 0.5, 9.0), NOW) is not None


def test_one_slow_probe_says_nothing() -> None:
    samples = [*_samples(60, 0.5, 0.5)[:-1], _passed(NOW, 30.0, 1.0)]
    assert drift_of(samples, NOW) is None


def test_samples_older_than_seven_days_do_not_count() -> None:
    assert drift_of([s._replace(at=s.at - 8 * 86400) for s in _samples(60, 0.5, 3.0)], NOW) is None


def test_missing_and_zero_measures_are_left_out() -> None:
    samples = [_passed(NOW - n, None, 0.0) for n in range(200)]
    assert drift_of(samples, NOW) is None


def test_after_a_failure_nothing_is_said() -> None:
    failed = Sample(NOW, Verdict.FAIL, "no_token", 60.0, None, None)
    assert drift_of([*_samples(60, 0.5, 3.0)[:-1], failed], NOW) is None
