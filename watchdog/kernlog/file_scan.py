"""Classifying a saved log of any size, block by block, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from watchdog.kernlog.correlation import Bursts, RecordJoiner
from watchdog.kernlog.lines import KernelLine, Origin, parse_line
from watchdog.kernlog.matcher import Finding, Matcher
from watchdog.model import Severity

MAX_LINE_BYTES = 1 << 20
"""Of a longer line only this much is looked at; no kernel line is longer than some thousand bytes."""

_FROM_TOOLS = re.compile(
    rb"-- |dmesg: |No journal files were |Hint: You are currently not seeing |journalctl: |[ \t]+Users in groups |"
    rb"[ \t]+Pass -q to turn off this notice|Failed to |bash: |sh: |sudo: "
)
"""What dmesg, journalctl and shells say instead of a log, when they may not or cannot read one."""


@dataclass(frozen=True, slots=True)
class ScannedLine:
    """One line of a log. `finding` is None for a line no rule matches; `severity` counts bursts in."""

    number: int
    line: KernelLine
    finding: Finding | None
    severity: Severity | None


class LogScan:
    """Takes a log in blocks and gives its findings in order; afterwards its counters say what was read."""

    def __init__(self, matcher: Matcher, *, every_line: bool = False, year: int | None = None) -> None:
        """`every_line` gives all lines, not only findings of warn and page. `year` is for stamps without one."""
        self.lines = 0
        self.cut_lines = 0
        self.kernel_seen = False
        self.unmarked_seen = False
        self.suppressed_seen = False
        self._matcher = matcher
        self._every_line = every_line
        self._year = year
        self._records = RecordJoiner()
        self._bursts = Bursts()
        self._rest = b""
        self._skipping = False
        self._at = 0.0

    def feed(self, block: bytes) -> Iterator[ScannedLine]:
        """Findings in the lines that `block` completes."""
        if self._skipping:
            end = block.find(b"\n")
            if end < 0:
                return
            block, self._skipping = block[end + 1 :], False
        cut = block.rfind(b"\n") + 1
        if cut == 0:
            self._rest += block
        else:
            whole = self._rest + block[:cut] if self._rest else block[:cut]
            self._rest = block[cut:]
            yield from self._lines(whole)
        if len(self._rest) > MAX_LINE_BYTES:
            self.cut_lines += 1
            self._skipping = True
            whole, self._rest = self._rest[:MAX_LINE_BYTES] + b"\n", b""
            yield from self._lines(whole)

    def finish(self) -> Iterator[ScannedLine]:
        """Findings in a last line without a line end."""
        if self._rest:
            whole, self._rest = self._rest + b"\n", b""
            yield from self._lines(whole)

    def _lines(self, whole: bytes) -> Iterator[ScannedLine]:
        if not self.suppressed_seen:
            self.suppressed_seen = b" callbacks suppressed" in whole
        if not (self.kernel_seen or self.unmarked_seen):
            self._look_for_kernel(whole)
        first, at = self.lines + 1, 0
        places = _line_spans(whole) if self._every_line else self._matcher.candidates(whole)
        for start, end in places:
            first += whole.count(b"\n", at, start)
            at = start
            if (scanned := self._scan(first, whole[start:end])) is not None:
                yield scanned
        self.lines = first - 1 + whole.count(b"\n", at)

    def _scan(self, number: int, raw: bytes) -> ScannedLine | None:
        line = parse_line(raw[:MAX_LINE_BYTES], year=self._year)
        finding = None if line.origin is Origin.USERSPACE else self._matcher.classify(line.message)
        if finding is None:
            return ScannedLine(number, line, None, None) if self._every_line else None
        finding = self._records.join(number, finding)
        severity = Severity.INFO if finding.detail else self._severity(finding, line)
        if severity is Severity.INFO and not self._every_line:
            return None
        return ScannedLine(number, line, finding, severity)

    def _severity(self, finding: Finding, line: KernelLine) -> Severity:
        """The finding's severity, or its rule's burst's; a line without a time counts at the time before it."""
        stamp = line.at if line.at is not None else line.monotonic_s
        self._at = self._at if stamp is None else stamp
        return self._bursts.severity(finding, self._matcher.ruleset.by_id[finding.rule].bursts, self._at)

    def _look_for_kernel(self, whole: bytes) -> None:
        """Note whether any line is the kernel's, or may be; a log of programs' lines alone says nothing about it."""
        for start, end in _line_spans(whole):
            raw = whole[start : min(end, start + 512)]
            if not raw.strip() or _FROM_TOOLS.match(raw):
                continue
            origin = parse_line(raw).origin
            self.kernel_seen = self.kernel_seen or origin is Origin.KERNEL
            self.unmarked_seen = self.unmarked_seen or origin is Origin.UNKNOWN
            if self.kernel_seen or self.unmarked_seen:
                return


def _line_spans(whole: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of every line of `whole`, which ends with a line end."""
    start = 0
    while (end := whole.find(b"\n", start)) >= 0:
        yield start, end
        start = end + 1
