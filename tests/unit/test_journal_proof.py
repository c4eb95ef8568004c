"""A journal that nobody writes looks like one in which nothing happens; our own login tells them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchdog.checks.journal_proof import JournalProof
from watchdog.journal.frame import Hello, parse_hello
from watchdog.model import Json
from watchdog.reasons import HostReason

GREETING = Hello("a" * 32, 1_795_000_000.0, 900.0, 0, frozenset({"root"}), "systemd 252", ("a" * 32,))
NOW = 1_795_000_000.0


def seen(age_s: float | None, journald: str = "running") -> Hello:
    return replace(GREETING, newest_age_s=age_s, journald=journald)


@pytest.mark.parametrize(("in_memory", "words"), [(False, "its disk is full"), (True, "kept in is full")])
def test_a_full_place_is_named_even_where_logins_were_never_seen(in_memory: bool, words: str) -> None:
    full = replace(seen(600.0), free_kib=0, in_memory=in_memory)
    error = JournalProof().judge(full, 1.0, NOW)
    assert error is not None
    assert words in error.summary
    assert JournalProof().is_doubtful(full, 1.0)
    assert JournalProof().judge(replace(full, newest_age_s=0.5), 1.0, NOW) is None


@pytest.mark.parametrize(
    ("lines", "unreadable", "in_memory", "full"),
    [
        ([b"storage=/var/log/journal readable=yes free_kib=900000", b"disk_free_kib=900000"], False, False, False),
        ([b"storage=/var/log/journal readable=no free_kib=unknown"], True, False, False),
        ([b"storage=/run/log/journal readable=yes free_kib=70000", b"disk_free_kib=0"], False, True, True),
        ([b"storage=/run/log/journal readable=yes free_kib=70000"], False, True, False),
        ([b"storage=", b"disk_free_kib=unknown"], False, False, False),
    ],
)
def test_where_the_journal_is_kept(lines: list[bytes], unreadable: bool, in_memory: bool, full: bool) -> None:
    header = {"boot": "a" * 32, "now": "1", "uptime": "1", "uid": "1001", "groups": "adm"}
    greeting = parse_hello(header, lines)
    assert greeting is not None
    assert (greeting.unreadable, greeting.in_memory, greeting.disk_is_full) == (unreadable, in_memory, full)
    assert greeting.may_read_journal is not unreadable


@pytest.mark.parametrize(
    ("learnt", "journald", "age_s", "words"),
    [
        (True, "running", 1.0, None),
        (True, "running", 600.0, "recorded not even our login; its newest record is 10 min old"),
        (True, "unknown", 600.0, "recorded not even our login"),
        (True, "running", -3600.0, "recorded not even our login"),
        (True, "stopped", 600.0, "suspended"),
        (True, "stopped", 1.0, "suspended"),
        (True, "gone", 600.0, "is not running"),
        (False, "running", 600.0, None),
        (False, "unknown", 600.0, None),
        (False, "stopped", 600.0, "suspended"),
        (False, "gone", None, "is not running"),
        (True, "running", None, None),
        (False, "unknown", None, None),
    ],
)
def test_the_journal_is_stale_unless_our_login_is_in_it(
    learnt: bool, journald: str, age_s: float | None, words: str | None
) -> None:
    error = JournalProof(logins_recorded=learnt).judge(seen(age_s, journald), 3.0, NOW)
    if words is None:
        assert error is None
    else:
        assert error is not None
        assert error.reason is HostReason.STALE
        assert words in error.summary
        assert error.advice
        assert not error.ours


def test_a_login_that_was_recorded_is_remembered_over_a_restart() -> None:
    proof = JournalProof()
    assert proof.judge(seen(0.5), 3.0, NOW) is None
    again = JournalProof.from_json(proof.to_json())
    assert again.judge(seen(600.0), 3.0, NOW + 600) is not None


def test_a_stale_journal_stays_stale_until_it_is_written_again() -> None:
    proof = JournalProof(logins_recorded=True)
    for scans in range(1, 20):
        assert proof.judge(seen(600.0 * scans), 3.0, NOW + 600 * scans) is not None
    assert proof.judge(seen(1.0), 3.0, NOW + 13_000) is None


def test_a_host_whose_logins_leave_no_record_any_more_is_not_stale_for_ever() -> None:
    proof = JournalProof(logins_recorded=True)
    assert proof.judge(seen(60.0), 3.0, NOW) is not None
    assert proof.judge(seen(60.0), 3.0, NOW + 600) is None
    assert not proof.logins_recorded


def test_a_second_look_is_taken_only_where_it_can_change_the_verdict() -> None:
    assert not JournalProof().is_doubtful(seen(600.0), 3.0)
    assert JournalProof(logins_recorded=True).is_doubtful(seen(600.0), 3.0)
    assert not JournalProof(logins_recorded=True).is_doubtful(seen(1.0), 3.0)
    assert JournalProof().is_doubtful(seen(1.0, "gone"), 3.0)


@pytest.mark.parametrize("stored", [None, [], "x", {}, {"logins_recorded": 1, "stale_at": True}, {"stale_at": "x"}])
def test_a_memory_that_is_damaged_is_nothing_known(stored: Json) -> None:
    assert JournalProof.from_json(stored) == JournalProof()


@pytest.mark.parametrize(
    ("lines", "age_s", "journald"),
    [
        ([b"newest_us=1795000000500000 looked=1795000010", b"journald=stopped"], 10.0, "stopped"),
        ([b"newest_us=x looked=1795000010"], None, "unknown"),
        ([b"newest_us=1795000000500000"], None, "unknown"),
        ([], None, "unknown"),
    ],
)
def test_the_greeting_says_how_old_the_newest_record_is(lines: list[bytes], age_s: float | None, journald: str) -> None:
    greeting = parse_hello({"boot": "a" * 32, "now": "1795000010", "uptime": "9", "uid": "0"}, lines)
    assert greeting is not None
    assert (greeting.newest_age_s, greeting.journald) == (age_s, journald)
