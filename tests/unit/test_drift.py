"""Alive, but slower than itself."""

from __future__ import annotations

from watchdog.overview.drift import Speed, drift_of

NOW = 1_000_000.0


def _speeds(count: int, ttft_s: float, recent: float, rate: float = 50.0, recent_rate: float = 50.0) -> list[Speed]:
    usual = [Speed(NOW - 120 * (count - n), ttft_s, rate) for n in range(count - 3)]
    return usual + [Speed(NOW - 120 * n, recent, recent_rate) for n in (2, 1, 0)]


def test_a_server_six_times_slower_than_its_median_drifts() -> None:
    drift = drift_of(_speeds(60, 0.5, 3.0), NOW)
    assert drift is not None
    assert (drift.measure, drift.factor, drift.samples) == ("ttft_s", 6.0, 57)
    assert str(drift) == ("alive, but 6.0× slower than its own median of 7 days (first token after 3 s, usually 0.5 s)")


def test_fewer_tokens_a_second_are_a_drift_too() -> None:
    drift = drift_of(_speeds(60, 0.5, 0.5, 50, 10), NOW)
    assert drift is not None
    assert (drift.measure, drift.factor) == ("tokens_per_s", 5.0)
    assert str(drift).endswith("(tokens 10/s, usually 50/s)")


def test_below_fifty_samples_nothing_is_said() -> None:
    assert drift_of(_speeds(49, 0.5, 9.0), NOW) is None
    assert drift_of(_speeds(50, 0.5, 9.0), NOW) is not None


def test_one_slow_probe_says_nothing() -> None:
    speeds = [*_speeds(60, 0.5, 0.5)[:-1], Speed(NOW, 30.0, 1.0)]
    assert drift_of(speeds, NOW) is None


def test_samples_older_than_seven_days_do_not_count() -> None:
    assert drift_of([s._replace(at=s.at - 8 * 86400) for s in _speeds(60, 0.5, 3.0)], NOW) is None


def test_missing_and_zero_measures_are_left_out() -> None:
    speeds = [Speed(NOW - n, None, 0.0) for n in range(200)]
    assert drift_of(speeds, NOW) is None
