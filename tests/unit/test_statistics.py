"""Shares with their Wilson interval, percentiles, and plots that show every failure."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.model import Verdict
from watchdog.overview.format import percent
from watchdog.overview.plot import nice_top
from watchdog.overview.statistics import Length, Share, Span, Spread, cut_points, series_of, span_of
from watchdog.store import Sample


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (1, 10, 0.01788, 0.40415),
        (15, 148, 0.06241, 0.16052),  # Newcombe 1998, table I, method 3
        (81, 263, 0.25526, 0.36621),  # the same table
        (0, 20, 0.0, 0.16113),
        (1, 29, 0.00611, 0.17175),
    ],
)
def test_the_wilson_interval_is_that_of_the_literature(count: int, total: int, low: float, high: float) -> None:
    interval = Share(count, total).interval
    assert interval is not None
    assert interval == pytest.approx((low, high), abs=1e-4)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_an_interval_holds_its_share_and_stays_within_nothing_and_all(count: int, total: int) -> None:
    share = Share(min(count, total), total)
    assert share.interval is not None
    low, high = share.interval
    assert share.value is not None
    assert 0.0 <= low <= share.value <= high <= 1.0


def test_of_nothing_there_is_nothing_to_say() -> None:
    assert (Share(0, 0).value, Share(0, 0).interval) == (None, None)
    assert Spread.of([]) == Spread(0, None, None, None, None, None)
    assert Spread.of([7.0]) == Spread(1, 7.0, 7.0, 7.0, 7.0, 7.0)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_lie_in_order_within_their_values_around_the_median(values: list[float]) -> None:
    cuts = cut_points(values, 100)
    assert cuts == pytest.approx(sorted(cuts))
    assert min(values) <= cuts[0] + 1e-6
    assert cuts[-1] <= max(values) + 1e-6
    assert cuts[49] == pytest.approx(statistics.median(values))


def test_one_failure_of_many_is_never_rounded_to_all() -> None:
    assert percent(21599 / 21600) == "99.9954 %"
    assert percent(1.0) == "100 %"


@given(st.floats(1e-6, 1e6))
def test_a_plot_is_at_least_as_high_as_its_values_and_not_much_higher(value: float) -> None:
    assert value * (1 - 1e-6) <= nice_top(value) <= 2.0001 * value


def test_a_day_ends_at_the_next_full_hour_and_longer_ones_at_midnight_of_their_zone() -> None:
    from zoneinfo import ZoneInfo

    berlin = ZoneInfo("Europe/Berlin")
    now = 1_795_970_000.0  # Sun 2026-11-29 17:33:20 in Berlin
    assert span_of(Length.DAY, now, berlin).marks == ("18:00", "00:00", "06:00", "12:00", "18:00")
    week = span_of(Length.WEEK, now, berlin)
    assert week.marks[0] == "Mon 23"
    assert week.until_at == 1_795_993_200.0
    # A month over the change of the clocks still names every date once.
    month = span_of(Length.MONTH, 1_792_500_000.0 + 10 * 86400, berlin)
    assert len(set(month.marks)) == len(month.marks) == 7


@given(st.lists(st.tuples(st.floats(0, 99.9), st.sampled_from(list(Verdict))), max_size=80))
def test_every_observation_of_the_time_is_in_exactly_one_bucket(seen: list[tuple[float, Verdict]]) -> None:
    samples = [Sample(at, verdict, "x", 1.0, 0.5, 10.0) for at, verdict in seen]
    series = series_of(samples, Span(0.0, 100.0, ("a", "b")), 7)
    assert series.passes + series.fails + series.unknowns == len(seen)
    assert series.fails == sum(verdict is Verdict.FAIL for _, verdict in seen)
    assert all((bucket.ttft is not None) == (bucket.passes > 0) for bucket in series.buckets)
