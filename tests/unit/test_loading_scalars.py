"""Durations: what is one, and what only looks like one."""

from __future__ import annotations

import pytest

from watchdog.loading.problems import SettingError
from watchdog.loading.scalars import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("7d", 604800.0),
        ("1.5h", 5400.0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "5",
        "0",
        "-5s",
        "+5s",
        "5 s",
        "5s ",
        "1m1h",
        "1s1s",
        "1e3s",
        "5S",
        "5sec",
        "inf",
        "nan",
        "1h30",
        "٣s",
        "9999w",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(SettingError):
        duration(text)


def test_a_number_without_a_unit_is_asked_about() -> None:
    with pytest.raises(SettingError) as caught:
        duration("120")
    assert caught.value.hint == "did you mean 120s?"
