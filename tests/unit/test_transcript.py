"""The frame around a reader's answer."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from watchdog.journal.frame import LONGEST_LINE_BYTES, Trailer, Transcript, parse_hello

HEADER = b"INFERENCE-WATCHDOG-READER 1 request=hello boot=%s now=1795000000 uptime=12.50 uid=1000 groups=a,adm\n" % (
    b"a" * 32
)
END = b"INFERENCE-WATCHDOG-READER END rc=0 why=ok\n"


def test_noise_before_the_header_is_kept_apart_from_the_data() -> None:
    frame = Transcript()
    lines = frame.feed(b"Welcome!\nLast login: today\n\n" + HEADER + b"one\ntwo\n" + END)
    assert lines == [b"one", b"two"]
    assert frame.noise == b"Welcome!\nLast login: today\n"
    assert frame.complete


def test_without_the_trailer_nothing_is_complete() -> None:
    frame = Transcript()
    assert frame.feed(HEADER + b"one\ntwo") == [b"one"]
    assert frame.trailer is None
    assert not frame.complete


def test_a_refusal_needs_no_header() -> None:
    frame = Transcript()
    frame.feed(b"INFERENCE-WATCHDOG-READER END rc=64 why=bad-character\n")
    assert frame.trailer == Trailer(64, "bad-character")
    assert not frame.complete


def test_nothing_after_the_trailer_is_data() -> None:
    assert Transcript().feed(HEADER + b"one\n" + END + b"logout\n") == [b"one"]


def test_a_trailer_with_a_broken_status_is_no_success() -> None:
    frame = Transcript()
    frame.feed(HEADER + b"INFERENCE-WATCHDOG-READER END rc=x why=\n")
    assert frame.trailer == Trailer(70, "")


def test_a_line_too_long_to_be_a_record_is_counted_and_not_held() -> None:
    frame = Transcript()
    frame.feed(HEADER)
    for _ in range(40):
        assert frame.feed(b"x" * 65536) == []
    assert frame.feed(b"tail of it\nnext\n" + END) == [b"next"]
    assert frame.overlong == 2560 * 1024 // LONGEST_LINE_BYTES - 1
    assert frame.complete


def test_a_long_line_in_small_pieces_costs_no_more_than_one_in_large_pieces() -> None:
    def cost_s(size: int) -> float:
        frame = Transcript()
        frame.feed(HEADER)
        began = time.process_time()
        for _ in range(3 * LONGEST_LINE_BYTES // 4 // size):
            frame.feed(b"x" * size)
        return time.process_time() - began

    assert cost_s(100) < 0.5  # 7,864 pieces; each cost 0.1 ms when the line was joined again for every one


def test_a_flood_of_newlines_costs_next_to_nothing() -> None:
    frame, began = Transcript(), time.process_time()
    frame.feed(HEADER)
    for _ in range(100):
        assert frame.feed(b"\n" * 65536) == []
    assert time.process_time() - began < 2.0  # 6.5 million lines; a person's terminal brings less


@given(st.lists(st.binary(max_size=40) | st.sampled_from([HEADER, END]), max_size=30), st.integers(1, 20))
def test_how_the_bytes_are_cut_makes_no_difference(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    whole, cut = Transcript(), Transcript()
    expected = whole.feed(data)
    got = [line for at in range(0, len(data), size) for line in cut.feed(data[at : at + size])]
    assert got == expected
    assert (cut.header, cut.trailer) == (whole.header, whole.trailer)


def test_the_greeting_names_boot_clock_user_and_boots() -> None:
    frame = Transcript()
    lines = frame.feed(HEADER + b"journalctl=systemd 252\nboots_rc=0\nboot=" + b"b" * 32 + b"\n" + END)
    greeting = parse_hello(frame.header or {}, lines)
    assert greeting is not None
    assert (greeting.boot, greeting.now, greeting.uptime_s, greeting.uid) == ("a" * 32, 1795000000.0, 12.5, 1000)
    assert greeting.may_read_journal
    assert greeting.boots == ("b" * 32,)
    assert greeting.listed


def test_a_list_of_boots_that_ran_out_of_time_is_not_taken_for_complete() -> None:
    header = {"boot": "a" * 32, "now": "1", "uptime": "1", "uid": "0"}
    greeting = parse_hello(header, [b"journalctl=systemd 252", b"boots_rc=124"])
    assert greeting is not None
    assert not greeting.listed


def test_a_greeting_without_a_boot_id_is_none() -> None:
    assert parse_hello({"now": "1"}, []) is None
    assert parse_hello({"boot": "a", "now": "soon", "uptime": "1", "uid": "0"}, []) is None
