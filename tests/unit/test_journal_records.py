"""Journal records in every form journalctl prints them, and records of the kernel's ring buffer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.journal import records as journal_records
from watchdog.journal.records import RecordKind, records_between, same_entry

BASE = {
    "__CURSOR": "s=1;i=2;b=3",
    "_BOOT_ID": "a" * 32,
    "__REALTIME_TIMESTAMP": "1795000100000000",
    "__MONOTONIC_TIMESTAMP": "100000000",
    "_SOURCE_MONOTONIC_TIMESTAMP": "40000000",
    "_TRANSPORT": "kernel",
    "SYSLOG_FACILITY": "0",
    "SYSLOG_IDENTIFIER": "kernel",
    "MESSAGE": "hello",
}


def parse(**changes: object) -> journal_records.Record:
    record = journal_records.parse_journal(json.dumps({**BASE, **changes}).encode())
    assert record is not None
    return record


def test_a_kernel_line_is_placed_by_the_kernels_own_stamp_not_by_when_journald_came_to_it() -> None:
    record = parse()
    assert record.kind is RecordKind.KERNEL
    assert record.stamp_us == 40_000_000
    assert record.wall_at == 1795000040.0


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("plain", "plain"),
        ("two\nlines", "two\nlines"),
        ([99, 97, 102, 233], "caf\\xe9"),
        ([27, 91, 51, 49, 109], "\x1b[31m"),
        (["one", "two"], "one\ntwo"),
        (["one", [116, 119, 111]], "one\ntwo"),
        ("", ""),
        ([0, 255], "\0\\xff"),
        ([256], None),
        ([-1], None),
    ],
)
def test_a_message_is_read_in_each_of_its_forms(message: object, text: str | None) -> None:
    assert parse(MESSAGE=message).message == text


def test_a_message_left_out_for_its_length_is_not_an_empty_one() -> None:
    assert parse(MESSAGE=None).message is None


def test_a_line_root_wrote_to_kmsg_is_marked() -> None:
    assert parse(SYSLOG_FACILITY="1").kind is RecordKind.USERSPACE
    assert parse(SYSLOG_IDENTIFIER="systemd").kind is RecordKind.USERSPACE


def test_a_line_under_the_name_kernel_from_any_user_is_foreign() -> None:
    assert parse(_TRANSPORT="syslog").kind is RecordKind.FOREIGN
    assert parse(_TRANSPORT="journal", MESSAGE_ID="0" * 32).kind is RecordKind.FOREIGN


def test_journalds_own_word_on_lost_lines_counts_them() -> None:
    record = parse(
        _TRANSPORT="driver", MESSAGE="Missed 4741 kernel messages", MESSAGE_ID="e9bf28e6e834481bb6f48f548ad13606"
    )
    assert (record.kind, record.lost) == (RecordKind.MISSED, 4741)


def test_a_user_cannot_forge_lost_lines() -> None:
    record = parse(_TRANSPORT="journal", MESSAGE="Missed 9", MESSAGE_ID="e9bf28e6e834481bb6f48f548ad13606")
    assert record.kind is RecordKind.FOREIGN


@pytest.mark.parametrize("field", ["__CURSOR", "_BOOT_ID", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP"])
def test_an_object_without_its_place_is_no_record(field: str) -> None:
    assert (
        journal_records.parse_journal(json.dumps({key: value for key, value in BASE.items() if key != field}).encode())
        is None
    )


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: json.dumps(text).encode()))
def test_parsing_never_fails_on_any_bytes(line: bytes) -> None:
    assert journal_records.parse_journal(line) is None
    ring = journal_records.parse_kmsg(line)
    assert ring is None or ring.sequence >= 0


@given(st.dictionaries(st.sampled_from(sorted(BASE)), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_parsing_never_fails_on_fields_of_any_type(changes: dict[str, object]) -> None:
    record = journal_records.parse_journal(json.dumps({**BASE, **changes}).encode())
    assert record is None or isinstance(record.kind, RecordKind)


def test_deeply_nested_json_is_no_record() -> None:
    assert journal_records.parse_journal(b"[" * 100_000) is None


def test_cursors_of_one_numbering_tell_how_many_records_lie_between() -> None:
    assert records_between("s=a;i=f;b=1", "s=a;i=14;b=1") == 4
    assert records_between("s=a;i=f", "s=b;i=14") is None
    assert records_between("garbage", "s=b;i=zz") is None


def test_an_entry_is_the_same_under_another_numbering_but_not_at_another_time() -> None:
    assert same_entry("s=1;i=1;b=2;m=3;t=4;x=5", "s=9;i=8;b=2;m=3;t=4;x=5")
    assert not same_entry("s=1;i=1;b=2;m=3;t=4;x=5", "s=1;i=2;b=2;m=3;t=5;x=5")
    assert not same_entry("-", "s=1;i=2;b=2;m=3;t=5;x=5")
    assert not same_entry("-", "garbage")


def test_a_part_of_a_cursor_may_hold_another_equals_sign() -> None:
    assert same_entry("s=1;i=1;b=2;m=3;t=4;x=5=6", "s=9;i=8;b=2;m=3;t=4;x=5=6")
    assert not same_entry("s=1;i=1;b=2;m=3;t=4;x=5=6", "s=1;i=1;b=2;m=3;t=4;x=5=7")
    assert records_between("s=a=b;i=1", "s=a=b;i=3") == 1
    assert records_between("s=a=b;i=1", "s=a=c;i=3") is None


def test_a_ring_record_gives_sequence_stamp_and_text_with_its_escapes_undone() -> None:
    record = journal_records.parse_kmsg(b"3,812,1234567,-,caller=T1;usb 1-1: caf\\xe9 back\\x5cslash")
    assert record is not None
    assert (record.sequence, record.stamp_us, record.from_kernel) == (812, 1234567, True)
    assert record.message == "usb 1-1: caf\\xe9 back\\slash"


def test_a_ring_record_of_another_facility_is_not_the_kernels() -> None:
    record = journal_records.parse_kmsg(b"12,1,2,-;written by root")
    assert record is not None
    assert not record.from_kernel


def test_fields_and_empty_lines_between_ring_records_are_no_damage() -> None:
    assert journal_records.parse_kmsg(b" SUBSYSTEM=pci") is None
    assert journal_records.is_continuation(b" SUBSYSTEM=pci")
    assert journal_records.is_continuation(b"")
    assert not journal_records.is_continuation(b"what is this")


def test_the_loss_between_two_sequence_numbers_is_exact() -> None:
    assert journal_records.lost_before(8135, 8125) == 9
    assert journal_records.lost_before(8126, 8125) == 0
    assert journal_records.lost_before(5, 8125) == 0
