"""The last minutes of a host, from the lines on its live stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.model import LastSeen
from watchdog.overview.plot import last_seen_plots
from watchdog.vitals.black_box import BlackBox, last_seen_words, thinned

NOW = 1_795_000_000.0
MEMORY = b"vitals memory=1258291 avg10=0.00 avg10=0.00"


def test_the_last_line_is_what_is_told() -> None:
    box = BlackBox()
    box.take(b"vitals gpu=0, 91, 16.02, 208, 100", NOW - 2)
    box.take(MEMORY, NOW)
    (point,) = box.points(NOW + 60)
    assert last_seen_words(point) == "1.2 GiB available, 91 °C, 16 W, 208 MHz, 100 % GPU"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([MEMORY], "1.2 GiB available"),
        ([b"vitals gpu=0, [N/A], [N/A], [N/A], [N/A]", MEMORY], "1.2 GiB available"),
        ([b"vitals gpu=0, 61, [N/A], 2411, 96", MEMORY], "1.2 GiB available, 61 °C, 2411 MHz, 96 % GPU"),
        ([b"vitals gpu=0, 50, 1, 2, 3", b"vitals gpu=1, 80, 4, 5, 6", MEMORY],
         "1.2 GiB available, 80 °C, 4 W, 5 MHz, 6 % GPU"),
        ([b"vitals memory=1258291 avg10=38.20 avg10=11.00"], "1.2 GiB available, memory pressure 38 %"),
        ([b"vitals memory=  "], "nothing of its memory or GPUs"),
    ],
)  # fmt: skip
def test_only_what_is_known_is_said_and_not_available_is_never_zero(lines: list[bytes], words: str) -> None:
    box = BlackBox()
    for line in lines:
        box.take(line, NOW)
    assert last_seen_words(box.points(NOW)[-1]) == words


def test_a_gpu_that_is_no_longer_told_of_hangs_and_its_old_figures_are_not_shown() -> None:
    box = BlackBox()
    box.take(b"vitals gpu=0, 61, 45, 2411, 96", NOW)
    box.take(MEMORY, NOW + 20)
    assert last_seen_words(box.points(NOW + 20)[-1]) == "1.2 GiB available, nvidia-smi hangs"


def test_ten_minutes_are_kept_and_what_came_before_a_restart_is_found_after_it() -> None:
    box = BlackBox()
    for number in range(200):
        box.take(MEMORY, NOW + 5 * number)
    assert box.points(NOW + 1000)[0].at >= NOW + 1000 - 610
    for number in range(10):
        box.take(MEMORY, NOW + 1100 + 5 * number)
    before = box.points(NOW + 1090)
    assert before[-1].at == NOW + 995
    assert box.points(NOW + 9000) == ()


def test_it_is_thinned_for_an_incident_and_keeps_the_last() -> None:
    points = [LastSeen(at=float(number)) for number in range(121)]
    kept = thinned(points)
    assert len(kept) <= 60
    assert kept[-1] is points[-1]


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b"gpu=0, 1, 2, 3, 4", b"memory=5 avg10=1 avg10=2", b"gpu=,,,,"]))
)
def test_any_bytes_on_such_a_line_are_taken_without_an_exception_and_within_bounds(lines: list[bytes]) -> None:
    box = BlackBox()
    for number, line in enumerate(lines):
        box.take(b"vitals " + line, NOW + number)
        for point in box.points(NOW + number):
            assert all(value is None or 0 <= value < 1e13 for value in (point.available_bytes, point.temperature_c))
    assert len(box.points(NOW + len(lines))) <= 150


def test_the_plots_have_words_for_those_who_do_not_see_them() -> None:
    points = [LastSeen(at=NOW + 5 * n, available_bytes=(20 - n) * 2.0**30, power_w=45.0) for n in range(19)]
    drawn = str(last_seen_plots(points))
    assert drawn.count("<figure") == 2
    assert "20 → 2 GiB available (at most 20) in 2 min" in drawn
    assert last_seen_plots(()) is None
