"""The rules against lines they were not written for, and against every way such lines are pasted and forwarded."""

from __future__ import annotations

import pytest

from tests.support.kernel_corpus import Labelled, held_out_lines
from watchdog.kernlog.lines import Origin, parse_line
from watchdog.kernlog.matcher import Matcher
from watchdog.rulebook import load_rules

MATCHER = Matcher(load_rules())
LINES = held_out_lines()
SCORED = [line for line in LINES if line.role not in ("detail", "injected")]


def severity_and_kind(raw: str) -> tuple[str, str]:
    """What a log with this one line in it gives: severity or "ignore", and kind or "none"."""
    line = parse_line(raw.encode())
    finding = None if line.origin is Origin.USERSPACE else MATCHER.classify(line.message)
    if finding is None or finding.severity.value not in ("page", "warn"):
        return "ignore", "none"
    return finding.severity.value, finding.kind


def test_the_set_is_large_and_mixed() -> None:
    core = [line for line in LINES if line.core]
    benign = [line for line in LINES if line.label == "ignore"]
    assert len(LINES) >= 600
    assert len(core) >= 150
    assert 0.4 <= len(benign) / len(LINES) <= 0.65


def test_every_hard_lock_precursor_pages() -> None:
    missed = [line.raw for line in SCORED if line.core and severity_and_kind(line.raw)[0] != "page"]
    assert missed == []


def test_no_benign_line_pages() -> None:
    woken = [line.raw for line in LINES if line.label == "ignore" and _pages_wrongly(line)]
    assert woken == []


def test_no_line_for_the_daytime_pages() -> None:
    woken = [line.raw for line in SCORED if line.label == "warn" and _pages_wrongly(line)]
    assert woken == []


def test_other_trouble_gets_an_accepted_label() -> None:
    wrong = [
        line.raw for line in SCORED if line.label == "page" and severity_and_kind(line.raw)[0] not in line.accepted
    ]
    assert wrong == []


def test_most_findings_get_the_kind_a_person_gave_them() -> None:
    found = [(line.kind, severity_and_kind(line.raw)) for line in SCORED if line.label != "ignore"]
    kinds = [(wanted, kind) for wanted, (severity, kind) in found if severity != "ignore"]
    assert sum(wanted == kind for wanted, kind in kinds) / len(kinds) >= 0.95


def test_each_raw_line_gives_its_message() -> None:
    for line in LINES:
        if line.role != "userspace":
            assert parse_line(line.raw.encode()).message.strip() == line.line


def test_a_programs_line_is_known_as_one() -> None:
    for line in LINES:
        if line.role == "userspace":
            assert parse_line(line.raw.encode()).origin is Origin.USERSPACE, line.raw


def _pages_wrongly(line: Labelled) -> bool:
    return severity_and_kind(line.raw)[0] == "page" and "page" not in line.accepted


PRECURSORS = (
    "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
    "pcieport 0000:00:03.0:    [14] CmpltTO                (First)",
    "igb 0000:09:00.1: AER: aer_status: 0x00004000, aer_mask: 0x00000000",
    "arm-smmu-v3 arm-smmu-v3.0.auto: CMD_SYNC timeout at 0x00017d73",
    "AMD-Vi: Completion-Wait loop timed out",
    "mlx5_core 0000:61:00.0: wait_func:1132:(pid 14): CREATE_DCT timeout. Will cause a leak of a command resource",
    "NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
    "{1}[Hardware Error]: event severity: fatal",
    "SError Interrupt on CPU4, code 0x00000000be000011 -- SError",
    "Synchronous External Abort: synchronous external abort (0x92000410) at 0x000000003751c6b4",
    "Bad mode in Error handler detected, code 0xbf000002 -- SError",
    "NMI watchdog: BUG: soft lockup - CPU#0 stuck for 24s! [dd:8103]",
    "rcu: INFO: rcu_sched self-detected stall on CPU",
)
FORMS = {
    "bare": "{}",
    "dmesg": "[ 1234.567890] {}",
    "dmesg with caller": "[ 1234.567890][   C0] {}",
    "dmesg with task": "[ 1234.567890] [  T123] {}",
    "dmesg -T": "[Mon Mar  3 10:11:12 2025] {}",
    "dmesg -x": "kern  :err   : [ 1234.567890] {}",
    "dmesg -d": "[  +0.000844] {}",
    "dmesg -e": "[Apr19 16:16] {}",
    "dmesg iso": "2025-03-03T10:11:12,123456+01:00 {}",
    "syslog": "Mar  3 10:11:12 host01 kernel: {}",
    "syslog with stamp": "Mar  3 10:11:12 host01 kernel: [ 1234.567890] {}",
    "syslog with facility": "Mar  3 10:11:12 host01 kern.err kernel: {}",
    "syslog without host": "Mar  3 10:11:12 kernel: {}",
    "rsyslog iso": "2025-03-03T10:11:12.123456+00:00 host01 kernel: {}",
    "rfc 5424": "<3>1 2025-03-03T10:11:12.123456Z host01 kernel - - - {}",
    "journalctl full": "Mon 2025-03-03 10:11:12 UTC host01 kernel: {}",
    "journalctl in French": "avril 30 18:16:51 host01.home kernel: {}",
    "journalctl in German": "Mär 03 10:11:12 host01 kernel: {}",
    "journalctl in Russian": "мар 03 10:11:12 host01 kernel: {}",
    "journalctl in Japanese": " 3月 03 10:11:12 host01 kernel: {}",
    "day before month": "04 Aug, 14:03:32 fd183fd0-0000-374f-986e-000000000000 kernel: {}",
    "openwrt": "Tue Nov 21 21:55:31 2017 kern.err kernel: [11429.343920] {}",
    "talos": "192.0.2.10: kern: warning: [2025-03-03T10:11:12.123456789Z]: {}",
    "clock": "10:11:12.345678  <3>[   12.345678] {}",
    "clock alone": "10:11:12 {}",
    "ci log": "2025-03-03T10:11:12.1234567Z [ 1234.567890] {}",
    "wall": " kernel:{}",
    "kernel alone": "kernel: [ 1234.567890] {}",
    "serial": "<3>[ 1234.567890] {}",
    "netconsole": "3,1234,5678901,-;{}",
    "login prompt": "host01 login: [ 1234.567890] {}",
    "shell prompt": "user@host01:~# [ 1234.567890] {}",
    "pdsh": "b1360: [14280.445220] {}",
    "xen": "(XEN) [ 1234.567890] {}",
    "colours": "\x1b[32m[ 1234.567890] \x1b[0m\x1b[33m{}\x1b[0m",
    "windows line end": "[ 1234.567890] {}\r",
    "byte order mark": "\ufeff[ 1234.567890] {}",
    "quoted mail": "> > [ 1234.567890] {}",
    "quoted mail without stamp": ">> {}",
    "quoted syslog": "> Mar  3 10:11:12 host01 kernel: {}",
    "escaped quote": "&gt; [ 1234.567890] {}",
    "indented": "    [ 1234.567890] {}",
    "indented syslog": "\tMar  3 10:11:12 host01 kernel: {}",
    "list": "- [ 1234.567890] {}",
    "back ticks": "`[ 1234.567890] {}`",
    "table": "| [ 1234.567890] {}",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_precursors_page_in_every_form_they_are_pasted_in(form: str) -> None:
    for message in PRECURSORS:
        raw = form.replace("{}", message)
        assert severity_and_kind(raw)[0] == "page", raw
        assert parse_line(raw.encode()).message.strip().rstrip("`") == message


PROGRAMS = (
    'sudo[123]:   user : TTY=pts/0 ; COMMAND=/usr/bin/grep "Uncorrectable (Fatal)" kern.log',
    "python3[44]: NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
    "inference-watchdog[33]: spark02: watchdog: BUG: soft lockup - CPU#1 stuck for 23s!",
    "(udev-worker)[311]: {1}[Hardware Error]: event severity: fatal",
    "abrt-dump-journal-oops[8]: BUG: unable to handle kernel NULL pointer dereference at 0000000000000286",
)
WRITTEN_BY = {form: text.replace("kernel: {}", "{}") for form, text in FORMS.items() if "kernel: {}" in text}


@pytest.mark.parametrize("form", WRITTEN_BY.values(), ids=WRITTEN_BY.keys())
def test_programs_that_quote_the_kernel_are_passed_over_in_every_form(form: str) -> None:
    for message in PROGRAMS:
        assert parse_line(form.replace("{}", message).encode()).origin is Origin.USERSPACE
