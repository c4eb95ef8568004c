"""Servers that take turns: who holds the seat, and whose failures count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.config import SeatSettings
from watchdog.model import Verdict
from watchdog.policy.seats import Seat, Seen, Standing
from watchdog.reasons import ServerReason

SETTINGS = SeatSettings(name="main", servers=("deepseek", "hikari"), swap_for_s=1800.0)
WORDS = {"P": ServerReason.OK, "R": ServerReason.REFUSED, "L": ServerReason.LOADING, "N": ServerReason.NO_TOKEN,
         "E": ServerReason.ENGINE_DEAD}  # fmt: skip


def _seen(letter: str, at: float) -> Seen:
    reason = WORDS[letter]
    return Seen(at, reason.row.verdict, reason)


def told(story: str, every_s: float = 60.0, seat: Seat | None = None) -> list[str]:
    """What each probe of `story` means: `dP` = deepseek gives text, `hR` = hikari refuses, … one each `every_s`."""
    seat = seat or Seat(SETTINGS)
    names = {"d": "deepseek", "h": "hikari"}
    return [
        seat.look(names[one[0]], _seen(one[1], 1e9 + number * every_s)).value
        for number, one in enumerate(story.split())
    ]


@pytest.mark.parametrize(
    ("story", "meanings"),
    [
        ("hR dP hR dP", "undecided holds away holds"),
        ("dP hR dR hR dR", "holds away empty away empty"),
        ("dP hR dR hL dR hP dR", "holds away empty away swapping takes_over away"),
        ("dP hR dR hL dR hR dR", "holds away empty away swapping away empty"),
        ("dP hR dR hL dR hE dR", "holds away empty away swapping away empty"),
        ("dP hR dN hL dN", "holds away empty away empty"),
        ("dP hR dE hL dE", "holds away empty away empty"),
        ("dP hR hP dR hP", "holds away next gives_way holds"),
        ("dP hP dP hP dP hR", "holds next holds second holds away"),
        ("dR hR dR hR", "undecided away empty away"),
        ("dP hR dR hP dP hP", "holds away empty takes_over next holds"),
    ],
)
def test_what_a_probe_means_for_the_seat(story: str, meanings: str) -> None:
    assert told(story) == meanings.split()


def test_a_swap_may_take_as_long_as_swap_for_and_no_longer() -> None:
    seen = told("dP hR dR " + "hL dR " * 40)
    assert seen.count("swapping") == 15  # every second minute up to the thirtieth after the first miss
    assert seen[-1] == "empty"


def test_after_a_restart_the_server_that_gave_text_last_is_the_one_that_counts() -> None:
    seat = Seat(SETTINGS)
    seat.remember("deepseek", 1000.0)
    seat.remember("hikari", 2000.0)
    assert told("dR hR dR hR", seat=seat) == ["undecided", "empty", "away", "empty"]


@given(st.lists(st.tuples(st.sampled_from("dh"), st.sampled_from("PRLNE")), max_size=60))
def test_while_any_server_gives_text_nobodys_failure_counts_and_an_empty_seat_is_one_servers(
    story: list[tuple[str, str]],
) -> None:
    seat = Seat(SETTINGS)
    names = {"d": "deepseek", "h": "hikari"}
    newest: dict[str, Verdict] = {}
    for number, (who, what) in enumerate(story):
        seen = _seen(what, 1e9 + number * 60)
        newest[names[who]] = seen.verdict
        standing = seat.look(names[who], seen)
        if Verdict.PASS in newest.values() and number < 10:
            assert standing is not Standing.EMPTY
        if standing is Standing.EMPTY:
            assert seat.holder == names[who]
        assert (seen.verdict is Verdict.PASS) == (
            standing in (Standing.HOLDS, Standing.TAKES_OVER, Standing.SECOND, Standing.NEXT)
        )
