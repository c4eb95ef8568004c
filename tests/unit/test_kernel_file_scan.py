"""Classifying a saved log block by block: which lines come, and whether the kernel's were among them."""

from __future__ import annotations

import pytest

from watchdog.kernlog.file_scan import LogScan
from watchdog.kernlog.matcher import Matcher
from watchdog.rulebook import load_rules

MATCHER = Matcher(load_rules())
XID = "kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."


def scanned(text: str, *, every_line: bool = False, piece: int = 1 << 20) -> tuple[LogScan, list[tuple[int, str]]]:
    scan, raw = LogScan(MATCHER, every_line=every_line), text.encode()
    found = [seen for at in range(0, len(raw), piece) for seen in scan.feed(raw[at : at + piece])]
    found += scan.finish()
    return scan, [(seen.number, seen.line.message) for seen in found]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_every_line_comes_once_with_its_number_however_the_log_is_cut(piece: int) -> None:
    scan, found = scanned("kernel: a\n\nkernel: b\nkernel: c", every_line=True, piece=piece)
    assert found == [(1, "a"), (2, ""), (3, "b"), (4, "c")]
    assert scan.lines == 4


@pytest.mark.parametrize("piece", [1, 50, 1 << 20])
def test_a_finding_has_the_number_of_its_line(piece: int) -> None:
    log = "\n".join(["kernel: fine"] * 3 + [XID] + ["kernel: fine"] * 2 + [XID, ""])
    scan, found = scanned(log, piece=piece)
    assert [number for number, _ in found] == [4, 7]
    assert scan.lines == 7


@pytest.mark.parametrize(
    ("log", "kernel", "unmarked"),
    [
        ("Nov 18 11:06:40 worker kernel: usb 1-1: new device\n", True, False),
        ("Nov 18 11:06:40 worker sshd[5]: hello\n" * 40 + "Nov 18 11:06:40 worker kernel: usb 1-1: new\n", True, False),
        ("Nov 18 11:06:40 worker sshd[5]: hello\n", False, False),
        ("usb 1-1: new device\n", False, True),
        ("-- No entries --\n\n", False, False),
    ],
)
def test_a_scan_knows_whether_a_line_of_the_kernel_was_there_or_may_have_been(
    log: str, kernel: bool, unmarked: bool
) -> None:
    scan, _ = scanned(log)
    assert (scan.kernel_seen, scan.unmarked_seen) == (kernel, unmarked)


def test_of_a_line_without_end_only_the_beginning_is_looked_at() -> None:
    scan, found = scanned(XID + "x" * (3 << 20) + "\n" + XID + "\n", piece=1 << 16)
    assert [number for number, _ in found] == [1, 2]
    assert (scan.cut_lines, scan.lines) == (1, 2)
