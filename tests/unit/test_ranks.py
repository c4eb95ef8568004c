"""What NCCL's own record says of the ranks, against the answers recorded on two H200 (`tests/fixtures/nccl`)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ras_answers import FORMATS, lines_of, recorded
from watchdog.engines.ranks import FORGET_S, LASTING_S, Answer, RankHistory, RankRecord, RankTrouble, read_ranks

STATES = tuple(recorded("text"))


def read(kind: str, state: str) -> RankRecord:
    return read_ranks(lines_of(recorded(kind)[state]))


def after(kind: str, *states: str, gap_s: float = LASTING_S) -> RankTrouble | None:
    """What is known after these looks, `gap_s` apart."""
    history, found = RankHistory(), None
    for number, state in enumerate(states):
        found = history.look(read(kind, state), number * gap_s, number * gap_s)
    return found


def words(found: RankTrouble | None) -> str:
    return "" if found is None else found.words("worker", lambda _address: "")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("state", STATES)
def test_each_recorded_state_is_what_the_readme_says(kind: str, state: str) -> None:
    seen = read(kind, state)
    name = state.partition("-")[0]
    if recorded(kind)[state].startswith(b"<"):
        assert seen.answer is (Answer.NOBODY if name == "gone" else Answer.HANGS)
        assert (seen.is_there, seen.hangs) == (name != "gone", name != "gone")
        return
    assert (seen.answer, seen.is_readable, seen.hangs, seen.nodes) == (Answer.DONE, True, False, 1)
    assert len(seen.differences) == (name == "skip")
    assert [rank.number for rank in seen.missing] == ([1] if name == "stopped" else [])
    assert [rank.number for rank in seen.dead] == ([1] if name == "killed" else [])
    assert all(rank.address == "192.0.2.2" and rank.process in (570, 611) for rank in (*seen.missing, *seen.dead))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("state", ["busy", "idle", "graph", "equal"])
def test_counts_that_stand_still_and_counts_that_move_prove_nothing(kind: str, state: str) -> None:
    assert after(kind, f"{state}-0", f"{state}-1", f"{state}-2", gap_s=60) is None


@pytest.mark.parametrize(("kind", "operation"), [("text", 2781), ("json", 2692)])
def test_a_skipped_collective_names_the_rank_once_it_lasts(kind: str, operation: int) -> None:
    assert after(kind, "skip-3s") is None
    assert after(kind, "skip-3s", "skip-8s", gap_s=LASTING_S / 2) is None
    found = after(kind, "skip-3s", "skip-20s")
    assert words(found) == f"rank 1 (worker) has not launched AllReduce {operation}; rank 0 waits in it"
    assert found is not None
    assert found.measurements() == {"nccl_mismatch": 1.0, "nccl_rank": 1.0}


def test_a_difference_that_moves_on_is_health() -> None:
    moved = recorded("text")["skip-3s"].replace(b"operation 2781", b"operation 2881")
    history = RankHistory()
    for at in range(6):
        raw = recorded("text")["skip-3s"] if at % 2 else moved
        assert history.look(read_ranks(lines_of(raw)), at * 20.0, at * 20.0) is None


def test_a_difference_of_another_trouble_is_begun_anew() -> None:
    history = RankHistory()
    assert history.look(read("json", "skip-3s"), 0.0, 0.0) is None
    assert history.look(read("json", "skip-3s"), FORGET_S + 1, FORGET_S + 1) is None


SEQUENCES = {
    "text": [
        ("skip-3s", "skip-20s"), ("skip-8s", "skip-20s"), ("stopped-3s", "stopped-10s"), ("stopped-10s", "stopped-30s"),
        ("killed-3s", "killed-15s"),
    ],
    "json": [
        ("skip-3s", "skip-20s"), ("skip-8s", "skip-20s"), ("stopped-3s", "stopped-10s"), ("stopped-10s", "stopped-30s"),
        ("killed-3s", "killed-15s"),
    ],
}  # fmt: skip
"""Ten real hangs, each as two looks ten seconds apart would have found it."""


def test_nine_of_ten_recorded_hangs_name_the_right_rank_and_all_ten_are_signs() -> None:
    found = [after(kind, *looks) for kind in FORMATS for looks in SEQUENCES[kind]]
    assert len(found) == 10
    assert all(one is not None for one in found)
    named = [one for one in found if one is not None and [rank.number for rank in one.ranks] == [1]]
    assert len(named) == 9
    assert all("1 (worker)" in words(one) for one in named)


def test_a_query_that_hangs_keeps_the_rank_that_was_named_before() -> None:
    found = after("text", "stopped-3s", "stopped-10s")
    assert words(found) == "rank 1 (worker) does not answer NCCL; by now NCCL itself does not answer"
    assert found is not None
    assert found.measurements() == {"nccl_missing": 1.0, "nccl_hangs": 1.0, "nccl_rank": 1.0}
    alone = after("text", "stopped-10s")
    assert alone is not None
    assert alone.measurements() == {"nccl_hangs": 1.0}
    assert words(alone) == "NCCL on worker takes the question how its ranks are, and does not answer"
    assert words(after("json", "killed-3s")) == "NCCL counts rank 1 (worker) as dead"


def test_recovery_leaves_nothing_behind() -> None:
    assert after("json", "stopped-3s", "busy-0") is None
    assert after("text", "skip-3s", "busy-again", "skip-20s") is None


LARGE = b"""Communicators... (0.01s)
=============

Errors
======

INCOMPLETE
  Missing communicator data from 3 job processes

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 3 ranks
  The missing ranks: 3,5-6

Warnings
========

#1-0 (cf264af53edbe987) MISMATCH
  Communicator ranks have different AllReduce operation counts
  26 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 4 -- GPU 4 managed by process 483076 on node 192.0.2.10
  Rank 9 -- GPU 1 managed by process 483081 on node 192.0.2.11
"""


def test_a_large_job_tells_its_ranks_in_groups() -> None:
    seen = read_ranks(lines_of(LARGE))
    assert [rank.number for rank in seen.missing] == [3, 5, 6]
    (found,) = seen.differences
    assert (found.operation, found.behind_count, found.waiting_count) == (6650, 2, 26)
    said = RankTrouble(behind=found).words("head", {"192.0.2.11": "worker"}.get)  # type: ignore[arg-type]
    assert said == "ranks 4 (192.0.2.10), 9 (worker) have not launched AllReduce 6650; 26 ranks wait in it"
    assert RankTrouble(missing=seen.missing).words("head", lambda _address: "").startswith("ranks 3, 5, 6 do not")


def test_an_older_nccl_refuses_the_format_and_answers_as_text() -> None:
    raw = b"ERROR: Unknown command set format json\n" + recorded("text")["killed-3s"]
    assert [rank.number for rank in read_ranks(lines_of(raw)).dead] == [1]


def test_json_with_its_comma_and_a_rank_that_left_in_good_order() -> None:
    whole = recorded("json")["stopped-3s"].replace(b'"nvml_dev": 1\n          "status"', b'"nvml_dev": 1,\n"status"')
    assert [rank.number for rank in read_ranks(lines_of(whole)).missing] == [1]
    left = whole.replace(b'"unresponsive": true', b'"unresponsive": false')
    assert read_ranks(lines_of(left)).missing == ()


def test_an_answer_cut_in_the_middle_says_nothing() -> None:
    for kind in FORMATS:
        raw = recorded(kind)["skip-3s"]
        for length in range(0, len(raw), 97):
            seen = read_ranks(lines_of(raw[:length]))
            assert not seen.missing
            assert all(one.behind for one in seen.differences)


def test_the_longest_answer_costs_little() -> None:
    many = b"Communicators... (0.0s)\n#0-0 (ab) INCOMPLETE\n" + b"  The missing ranks: " + b"0-999999999," * 80 + b"\n"
    lines = lines_of(many + b"  The missing ranks: 1-999999999,7-9\n" * 6000)
    assert len(read_ranks(lines).missing) == 4096
    nested = lines_of(b'{"communicators": ' + b'[{"ranks": ' * 20_000)
    assert not read_ranks(nested).is_readable


JSON_ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["communicators", "ranks", "missing_ranks", "rank", "host", "pid", "collective_counts",
                             "AllReduce", "status", "unresponsive", "considered_dead", "hash"]),
            inner, max_size=5,
        )
    ),
    max_leaves=25,
)  # fmt: skip


@given(st.lists(st.binary(max_size=80), max_size=30))
def test_any_bytes_are_read(lines: list[bytes]) -> None:
    _never_raises(lines)
    _never_raises([b"| " + line for line in lines])


@given(JSON_ANSWERS)
def test_any_json_is_read(value: object) -> None:
    _never_raises(lines_of(json.dumps({"communicators": value}).encode()))


PIECES = recorded("text")["skip-3s"].splitlines() + recorded("text")["killed-3s"].splitlines() + LARGE.splitlines()


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.integers(0, 60))
def test_lines_in_any_order_are_read(lines: list[bytes], cut: int) -> None:
    _never_raises([b"| " + line[: cut or None] for line in lines] + [b"nccl_rc=hangs"])


def _never_raises(lines: list[bytes]) -> None:
    history = RankHistory()
    for at in (0.0, 11.0):
        found = history.look(read_ranks(lines), at, at)
        if found is not None:
            assert words(found)
            assert found.measurements()
