"""Every form in which tools print a kernel line, and the lines that are not the kernel's."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kernel_corpus import copied_lines, in_place_lines
from watchdog.kernlog.lines import MISSED_MESSAGE_ID, Origin, parse_line

TEXT = "mlx5_core 0000:01:00.0: poll_health:817:(pid 0): Fatal error 1 detected"

KERNEL_FORMS = (
    "[    1.881583] ",
    "[  +0.000844] ",
    "[ 1117.938056][    C0] ",
    "[  584.319520][   T31] ",
    "[Sun Jan  5 18:28:55 2025] ",
    "[Sun Dec  1 14:54:40 2024] host01 kernel: ",
    "[...] ",
    "[Aug28 11:55] ",
    "kern  :warn  : [   12.345678] ",
    "kern  :err   : [Sun Jan  5 18:28:55 2025] ",
    "<4>",
    "<4>[   12.345678] ",
    "<3>1 2025-12-05T01:58:54.282032+01:00 host01 kernel - - - ",
    "2025-12-05T01:58:54,282032+01:00 ",
    "2025-12-05T01:58:54.282032+01:00 host01 kernel: [ T1772] ",
    "2025-12-05T01:58:54+0100 host01 kernel: ",
    "2025-12-05 01:58:54 host01 kernel: [   12.345678] ",
    "Sep 22 09:59:09 pve kernel: ",
    "Sep  2 09:59:09 pve kernel: [70517.822257] ",
    "Sun 2025-01-05 18:28:55 UTC host01 kernel: ",
    "[70517.822257] host01 kernel: ",
    "1735689600.123456 host01 kernel: ",
    "nodeA: [14280.445220] ",
    "/var/log/kern.log:12:Sep 22 09:59:09 pve kernel: ",
    "kernel: ",
    "kernel:",
    " kernel:",
    "08:22:19 kernel: ",
    "host01 kernel: ",
    "6,1234,5678,-;",
    "4,339,5140900,-,caller=T1772;",
    "\x1b[32m[   12.345678] \x1b[0m\x1b[33m",
)


@pytest.mark.parametrize("form", KERNEL_FORMS)
def test_each_form_of_a_kernel_line_gives_its_message(form: str) -> None:
    line = parse_line((form + TEXT + "\r\n").encode())
    assert line.message == TEXT
    assert line.origin is not Origin.USERSPACE


@pytest.mark.parametrize("where", [copied_lines, in_place_lines])
def test_every_raw_line_of_the_corpus_gives_its_message(where: object) -> None:
    assert callable(where)
    wrong = []
    for labelled in where():
        parsed = parse_line(labelled.raw.encode())
        if labelled.role != "userspace" and (
            parsed.message.strip() != labelled.line.strip() or parsed.origin is Origin.USERSPACE
        ):
            wrong.append((labelled.raw, parsed))
    assert wrong == []


PROGRAMS = (
    "May  9 22:30:16 host01 sudo:   user : TTY=pts/0 ; PWD=/var/log ; USER=root ; COMMAND=/usr/bin/dmesg",
    "Dec  6 19:25:33 host01 systemd-networkd[2385]: eth0: Lost carrier",
    "2025-12-05T01:58:54.282032+01:00 host01 rasdaemon[811]: ras:aer_event event enabled",
    "2025-12-05T01:58:54+0100 host01 inference-watchdog[1]: watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [x:1]",
    "[70517.822257] host01 vllm[4242]: NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.",
    "[    5.101010] systemd[1]: Started BUG: soft lockup - CPU#1 stuck for 23s!",
    "user  :notice: [   12.345678] BUG: soft lockup - CPU#1 stuck for 23s!",
    "<14>BUG: soft lockup - CPU#1 stuck for 23s!",
    "<30>[   12.3] systemd[1]: BUG: soft lockup - CPU#1 stuck for 23s!",
    "12,900,8123456,-;BUG: soft lockup - CPU#1 stuck for 23s!",
    '{"_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"BUG: soft lockup - CPU#1 stuck for 23s!"}',
    '{"_TRANSPORT":"kernel","SYSLOG_FACILITY":"1","MESSAGE":"BUG: soft lockup - CPU#1 stuck for 23s!"}',
    '{"_TRANSPORT":"stdout","SYSLOG_IDENTIFIER":"vllm","MESSAGE":"BUG: soft lockup - CPU#1 stuck for 23s!"}',
)


@pytest.mark.parametrize("raw", PROGRAMS)
def test_a_programs_line_is_told_apart_whatever_it_quotes(raw: str) -> None:
    assert parse_line(raw.encode()).origin is Origin.USERSPACE


def test_a_crash_report_that_begins_with_a_program_is_still_the_kernels() -> None:
    line = parse_line(b"[147.467058][T10579] python3[10579]: segfault at 4cb420 ip 00000000004cb420 sp 0 error 15")
    assert line.origin is Origin.KERNEL
    assert line.message.startswith("python3[10579]: segfault")


def test_a_kernel_message_after_a_bare_time_does_not_pass_for_a_host_and_a_program() -> None:
    line = parse_line(b"Sep 22 09:59:09 nvme nvme0: controller is down; will reset")
    assert (line.origin, line.message) == (Origin.UNKNOWN, "nvme nvme0: controller is down; will reset")
    line = parse_line(b"Sep 22 09:59:09 pcieport 0000:80:1b.4: AER: device recovery failed")
    assert line.message == "pcieport 0000:80:1b.4: AER: device recovery failed"


def test_journald_saying_that_it_lost_kernel_lines_counts_as_the_kernels() -> None:
    line = parse_line(b"Sep 22 09:59:09 pve systemd-journald[311]: Missed 4741 kernel messages")
    assert (line.origin, line.message) == (Origin.KERNEL, "Missed 4741 kernel messages")


@pytest.mark.parametrize(
    ("transport", "origin"),
    [
        (None, Origin.KERNEL),
        ("driver", Origin.KERNEL),
        ("journal", Origin.USERSPACE),
        ("syslog", Origin.USERSPACE),
        ("kernel", Origin.USERSPACE),
    ],
)
def test_only_journald_itself_can_say_that_it_lost_kernel_lines(transport: str | None, origin: Origin) -> None:
    entry = {"MESSAGE": "Missed 4741 kernel messages", "MESSAGE_ID": MISSED_MESSAGE_ID}
    line = parse_line(json.dumps(entry | ({} if transport is None else {"_TRANSPORT": transport})).encode())
    assert line.origin is origin


JOURNAL = {
    "_TRANSPORT": "kernel",
    "SYSLOG_FACILITY": "0",
    "SYSLOG_IDENTIFIER": "kernel",
    "_BOOT_ID": "0f0e",
    "__REALTIME_TIMESTAMP": "1795000000123456",
    "_SOURCE_MONOTONIC_TIMESTAMP": "6580173598",
}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (TEXT, TEXT),
        (list(TEXT.encode()), TEXT),
        (list(b"bad \xff byte"), "bad \ufffd byte"),
        ([TEXT, "second"], TEXT + "\nsecond"),
        (None, ""),
        ("one\n\ttwo", "one\n\ttwo"),
        ([255], "\ufffd"),
        ([256], ""),
        ([-1], ""),
    ],
)
def test_a_journal_message_is_read_in_every_form_it_comes_in(message: object, text: str) -> None:
    line = parse_line(json.dumps(JOURNAL | {"MESSAGE": message}).encode())
    assert line.message == text
    assert line.origin is Origin.KERNEL
    assert line.at == pytest.approx(1795000000.123456, abs=1e-6)
    assert line.monotonic_s == pytest.approx(6580.173598)
    assert line.boot == "0f0e"


@pytest.mark.parametrize("time", ["-5", "nan", "inf", "9" * 30, "soon", "", None, [], {}])
def test_a_journal_time_that_is_none_gives_no_moment(time: object) -> None:
    fields = ("__REALTIME_TIMESTAMP", "_SOURCE_MONOTONIC_TIMESTAMP")
    line = parse_line(json.dumps(JOURNAL | {"MESSAGE": TEXT} | dict.fromkeys(fields, time)).encode())
    assert (line.message, line.at, line.monotonic_s) == (TEXT, None, None)


def test_dmesg_json_is_read_line_by_line() -> None:
    assert parse_line(b'         "msg": "nvme nvme0: \\"x\\" is down"').message == 'nvme nvme0: "x" is down'
    assert parse_line(b'{"pri":3,"time":12.5,"msg":"EDAC MC0: 1 UE"}').monotonic_s == 12.5


def test_export_format_gives_its_message() -> None:
    assert parse_line(b"MESSAGE=" + TEXT.encode()).message == TEXT


@pytest.mark.parametrize(
    ("raw", "at", "monotonic_s"),
    [
        ("[70517.822257] x", None, 70517.822257),
        ("2025-12-05T01:58:54.5+01:00 h kernel: x", 1764896334.5, None),
        ("[Sun Jan  5 18:28:55 2025] x", 1736101735.0, None),
        ("Sep 22 09:59:09 h kernel: x", 1758535149.0, None),
        ("6,1,5678,-;x", None, 0.005678),
        ("1735689600.5 h kernel: x", None, None),
        ("1735689600.500 h kernel: x", 1735689600.5, None),
        ("[Sun Foo 99 18:28:55 2025] x", None, None),
    ],
)
def test_times_are_read_where_they_are_told(raw: str, at: float | None, monotonic_s: float | None) -> None:
    line = parse_line(raw.encode(), year=2025)
    assert line.at == pytest.approx(at, abs=1e-6)
    assert line.monotonic_s == pytest.approx(monotonic_s)


def test_a_time_without_a_year_gives_no_moment_unless_one_is_given() -> None:
    assert parse_line(b"Sep 22 09:59:09 h kernel: x").at is None


def test_ring_buffer_escapes_become_the_characters_they_stand_for() -> None:
    assert parse_line(b"4,7,1,-;a\\x0ab \\xc3\\xa9").message == "a\nb é"


@given(st.binary(max_size=200))
def test_no_bytes_make_parsing_fail(raw: bytes) -> None:
    for whole in (raw, b"{" + raw, b"[1.1] Sep 22 " + raw):
        line = parse_line(whole)
        assert line.origin in Origin
        assert len(line.message) <= len(whole.decode("utf-8", "replace"))
        assert line.monotonic_s is None or 0 <= line.monotonic_s < math.inf
        assert line.at is None or 0 <= line.at < math.inf


def test_deep_json_does_not_make_parsing_fail() -> None:
    assert parse_line(b'{"MESSAGE":' + b"[" * 200_000).origin is Origin.UNKNOWN
