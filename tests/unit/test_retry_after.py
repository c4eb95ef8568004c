"""How long an answer asks to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.http_call import LONGEST_RETRY_AFTER_S, retry_after_s

NOW = "Tue, 01 Dec 2026 04:00:00 GMT"


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        ("37", 37.0),
        ("Tue, 01 Dec 2026 04:01:30 GMT", 90.0),
        ("Tue, 01 Dec 2026 03:59:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER_S),
        ("9" * 4200, 0.0),
        ("soon", 0.0),
        ("", 0.0),
    ],
)
def test_seconds_and_dates_are_understood(after: str, wanted: float) -> None:
    assert retry_after_s({"Retry-After": after, "Date": NOW}) == wanted


def test_a_date_is_nothing_without_the_date_of_the_answer() -> None:
    assert retry_after_s({"Retry-After": NOW}) == 0.0


@given(after=st.text(), date=st.one_of(st.just(NOW), st.text()))
def test_no_header_raises(after: str, date: str) -> None:
    assert 0.0 <= retry_after_s({"Retry-After": after, "Date": date}) <= LONGEST_RETRY_AFTER_S
