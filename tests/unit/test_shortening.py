"""Cutting a message to the room of a service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.message.shortening import Limits, fitted, plain
from watchdog.model import Text

LAST = "incident 6f39e044 · attempt 1"
BODY = (
    "deepseek: no text since 11:06 UTC (6 min, 3 failed probes, last good 11:04 UTC)\n"
    "likely: engine hung, HTTP alive: running 1, counters frozen, GPU 0 at 96 % and 20 W\n"
    "page · generation/deepseek · no_token\n"
    "- 11:07:40 UTC probe: no token after 60 s\n"
    "- 11:08:50 UTC worker kernel: pcieport 0000:00:03.0: AER: Uncorrected (Fatal) error\n"
    "look at: the log of the server process\n"
    "acknowledge: inference-watchdog ack 6f39e044\n"
    f"{LAST}"
)
LINES = BODY.split("\n")
MESSAGE = Text("FIRING deepseek: no text for 6 min: engine hung, HTTP alive", BODY)


def test_what_fits_is_left_alone() -> None:
    assert fitted(MESSAGE, Limits(title=250, body=1024, body_bytes=4000, lines=20)) == MESSAGE
    assert fitted(MESSAGE, Limits()) == MESSAGE


def test_the_sentence_the_newest_evidence_and_the_id_stay_longest() -> None:
    body = fitted(MESSAGE, Limits(body=300)).body
    assert body.split("\n") == [LINES[0], LINES[1], LINES[4], LAST]
    assert fitted(MESSAGE, Limits(body=200)).body.split("\n") == [LINES[0], LINES[4], LAST]
    assert fitted(MESSAGE, Limits(body=115)).body.split("\n") == [LINES[0], LAST]


def test_an_sms_holds_the_title_and_the_id() -> None:
    cut = fitted(MESSAGE, Limits(body=160, joined=True))
    assert cut.title == MESSAGE.title
    assert cut.body.startswith("deepseek: no text since 11:06 UTC")
    assert cut.body.endswith(LAST)
    tiny = fitted(MESSAGE, Limits(body=80, joined=True))
    assert tiny.title == "FIRING deepseek: no text for 6 min: engine hung,…"
    assert tiny.body == LAST


def test_a_long_title_is_cut_where_the_service_has_titles_of_its_own() -> None:
    assert fitted(MESSAGE, Limits(title=30)).title == "FIRING deepseek: no text for…"


def test_the_plainest_form_is_short_and_ascii() -> None:
    short = plain(MESSAGE)
    assert short.title.isascii()
    assert short.body == LINES[0] + "\nincident 6f39e044 - attempt 1"


@pytest.mark.parametrize("joined", [False, True])
@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=200), max_size=12),
    title=st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=80),
    room=st.integers(60, 2000),
    room_bytes=st.sampled_from([0, 200, 4000]),
    most_lines=st.integers(3, 20) | st.just(0),
)
def test_whatever_it_is_it_fits_and_ends_with_the_id(
    joined: bool, lines: list[str], title: str, room: int, room_bytes: int, most_lines: int
) -> None:
    limits = Limits(title=0 if joined else 60, body=room, body_bytes=room_bytes, lines=most_lines, joined=joined)
    cut = fitted(Text(title, "\n".join([*lines, LAST])), limits)
    assert cut.body.endswith(LAST)
    assert len(cut.body) + (len(cut.title) + 2 if joined else 0) <= room
    assert not room_bytes or len(cut.body.encode()) <= room_bytes
    assert not most_lines or cut.body.count("\n") + 1 + joined <= most_lines
