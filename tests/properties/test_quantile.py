"""The quantile of our own is the one of the standard library, which an idle daemon does not load."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.text import quantile

SAMPLES = st.lists(st.floats(0, 1e6), min_size=2, max_size=40)


@given(SAMPLES, st.integers(1, 99))
def test_a_quantile_is_that_of_the_standard_library(samples: list[float], percent: int) -> None:
    expected = statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]
    assert quantile(samples, percent) == pytest.approx(expected)


@given(SAMPLES)
def test_fifty_percent_is_the_median(samples: list[float]) -> None:
    assert quantile(samples) == pytest.approx(statistics.median(samples))


def test_one_sample_is_every_quantile_and_none_has_none() -> None:
    assert quantile([7.0], 75) == 7.0
    with pytest.raises(ValueError, match="no samples"):
        quantile([])
