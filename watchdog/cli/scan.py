"""`scan`: classify a saved kernel log of any size, streaming."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING

if TYPE_CHECKING:
    from watchdog.kernlog.file_scan import LogScan, ScannedLine
    from watchdog.kernlog.matcher import Finding
    from watchdog.kernlog.rules import RuleSet

BLOCK_BYTES = 1 << 17
MAX_NUL_BYTES = 64 << 20
"""A stream that begins with more NUL bytes than this, as /dev/zero does, never becomes a log."""
MAX_KINDS_SHOWN = 30
MAX_MESSAGE_SHOWN = 160

PACKED = {
    b"\x1f\x8b": ("gzip", "zcat"),
    b"\xfd7zXZ\x00": ("xz", "xzcat"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat"),
    b"BZh": ("bzip2", "bzcat"),
    b"LPKSHHRH": ("systemd's own journal format", "journalctl -k -o json --file"),
    b"PK\x03\x04": ("zip", "unzip -p"),
}
"""First bytes → what it is and what turns it into text."""


@click.command(
    epilog=(
        "Examples: dmesg | inference-watchdog scan -; journalctl -k -b -1 -o json | inference-watchdog scan --json -; "
        "inference-watchdog scan /var/log/kern.log. Exit codes: 0 nothing found, 1 something to look at, 2 something "
        "to be woken for, 3 no kernel log could be read, 64 wrong usage, "
        "141 the reader of the output has gone (scan | head)."
    )
)
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line instead of text.")
@click.option("--all", "every_line", is_flag=True, help="Print every line, also those that no rule matches.")
@click.option(
    "--rules",
    "rule_files",
    multiple=True,
    metavar="F",
    help="A rule file of your own, tried before the packaged rules.",
)
def command(file: str | None, as_json: bool, every_line: bool, rule_files: tuple[str, ...]) -> int:
    """Classify the kernel log in FILE, or on standard input for `-`.

    Reads dmesg in any of its forms, journalctl (short, ISO, JSON), syslog files, /dev/kmsg records and bare messages,
    mixed as they come. Prints each line that precedes or reports trouble: page means wake someone, warn means look at
    it during the day. Lines written by programs are ignored: only the kernel's own lines count.
    """
    from watchdog.config import RulesSettings
    from watchdog.rulebook import load_rules

    if file is None:
        if sys.stdin.isatty():
            raise click.UsageError("Name a FILE, or '-' and pipe a log in: dmesg | inference-watchdog scan -")
        file = "-"
    rules = load_rules(RulesSettings(files=rule_files))
    try:
        with ExitStack() as opened:
            stream = sys.stdin.buffer if file == "-" else opened.enter_context(Path(file).open("rb", buffering=0))
            return _run(stream, file, rules, as_json=as_json, every_line=every_line)
    except OSError as error:
        return _unreadable(f"{file}: cannot read it: {error.strerror or error}")


@dataclass(slots=True)
class _Tally:
    """What was found, by kind and device, with the first line of each."""

    worst: int = EXIT_OK
    counts: dict[str, int] = field(default_factory=lambda: {"page": 0, "warn": 0})
    groups: dict[tuple[str, str], _Group] = field(default_factory=dict)

    def add(self, scanned: ScannedLine) -> None:
        if scanned.finding is None or scanned.severity is None or scanned.severity.value not in self.counts:
            return
        level = scanned.severity.value
        self.counts[level] += 1
        self.worst = max(self.worst, EXIT_CRITICAL if level == "page" else EXIT_WARNING)
        key = (scanned.finding.kind, scanned.finding.device or "-")
        if key not in self.groups and len(self.groups) >= MAX_KINDS_SHOWN:
            return
        group = self.groups.setdefault(key, _Group(scanned.number, scanned.finding, level))
        group.count += 1
        if level == "page" and group.level != "page":
            group.level, group.finding = level, scanned.finding


@dataclass(slots=True)
class _Group:
    first_line: int
    finding: Finding
    level: str
    count: int = 0


def _run(stream: BinaryIO, file: str, rules: RuleSet, *, as_json: bool, every_line: bool) -> int:
    from watchdog.clock import SystemClock
    from watchdog.kernlog.file_scan import LogScan
    from watchdog.kernlog.matcher import Matcher

    head = stream.read(BLOCK_BYTES) or b""
    if problem := _not_text(head, file):
        return _unreadable(problem)
    year = 1970 + int(SystemClock().wall() // 31_556_952)
    scan, tally = LogScan(Matcher(rules), every_line=every_line, year=year), _Tally()
    try:
        for scanned in _scanned(scan, stream, head):
            tally.add(scanned)
            sys.stdout.write(_json_line(scanned) if as_json else _text_line(scanned))
    except _OnlyNulBytesError:
        name = "the input" if file == "-" else file
        return _unreadable(
            f"{name} began with {MAX_NUL_BYTES >> 20} MiB of NUL bytes: that is not a log; if one follows, save it to "
            "a file and scan that"
        )
    if not tally.counts["page"] + tally.counts["warn"] and (problem := _no_kernel_log(scan, head, file)):
        sys.stdout.flush()
        return _unreadable(problem)
    if not as_json:
        click.echo(_summary(scan, tally))
    sys.stdout.flush()
    return tally.worst


def _scanned(scan: LogScan, stream: BinaryIO, head: bytes) -> Iterator[ScannedLine]:
    """All findings, with the progress shown where a person watches and the size is known."""
    progress = _ProgressBar(_size(stream) if sys.stderr.isatty() else 0)
    block = head
    nul_bytes = None if _is_file(stream) else 0
    while block:
        if nul_bytes is not None:
            nul_bytes = None if block.strip(b"\0") else nul_bytes + len(block)
            if nul_bytes is not None and nul_bytes > MAX_NUL_BYTES:
                raise _OnlyNulBytesError
        for scanned in scan.feed(block):
            progress.clear()
            yield scanned
        progress.advance(len(block))
        block = stream.read(BLOCK_BYTES) or b""
    progress.clear()
    yield from scan.finish()


class _ProgressBar:
    """How far a long scan is, on a terminal's last line; nothing where the size is not known."""

    WIDTH = 30

    def __init__(self, size: int) -> None:
        self._size = size if size >= 16 * BLOCK_BYTES else 0
        self._done = 0
        self._shown = -1

    def advance(self, count: int) -> None:
        """Count `count` more bytes as read, and show it when a percent is full."""
        self._done += count
        percent = min(100, 100 * self._done // self._size) if self._size else self._shown
        if percent != self._shown:
            self._shown = percent
            bar = "#" * (percent * self.WIDTH // 100)
            sys.stderr.write(f"\rScanning [{bar:{self.WIDTH}}] {percent:3d}%")
            sys.stderr.flush()

    def clear(self) -> None:
        """Make room for a line of output."""
        if self._shown >= 0:
            self._shown = -1
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _OnlyNulBytesError(Exception):
    """A device or a stream gives NUL bytes and nothing else."""


def _is_file(stream: BinaryIO) -> bool:
    """Whether it has an end: a rotated log may begin with a large hole, and its lines stand behind it."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # no real stream
        return False


def _size(stream: BinaryIO) -> int:
    try:
        place = stream.tell()
        size = stream.seek(0, 2)
        stream.seek(place)
    except OSError:
        return 0
    return size


def _not_text(head: bytes, file: str) -> str | None:
    """Why the input is not a text log, as far as its first bytes show; None if it may be one."""
    name = "this input" if file == "-" else file
    for magic, (what, tool) in PACKED.items():
        if head.startswith(magic):
            return f"{name} is compressed ({what}). Decompress it first: {tool} FILE | inference-watchdog scan -"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{name} is UTF-16 text. Convert it first: iconv -f UTF-16 -t UTF-8 FILE | inference-watchdog scan -"
    return None


def _no_kernel_log(scan: LogScan, head: bytes, file: str) -> str | None:
    """Why nothing found does not mean nothing there; None if lines were read that may be the kernel's."""
    name = "the input" if file == "-" else file
    if not scan.lines or not head.strip():
        return f"{name} is empty: that is not a clean kernel log, it is no log at all"
    if not scan.kernel_seen and not scan.unmarked_seen:
        return (
            f"{name} holds no kernel line in its {scan.lines} lines; for a journal use journalctl -k, not journalctl -u"
        )
    if not scan.kernel_seen and _is_binary(head):
        return f"{name} does not look like text, so nothing can be said about it"
    return None


def _is_binary(head: bytes) -> bool:
    sample = head[:65536]
    odd = sum(sample.count(byte) for byte in range(32) if byte not in (9, 10, 13, 27))
    return odd * 20 > len(sample)


def _unreadable(problem: str) -> int:
    click.echo(f"Not scanned: {problem}.", err=True)
    return EXIT_UNKNOWN


def _json_line(scanned: ScannedLine) -> str:
    finding = scanned.finding
    fields = {
        "line_number": scanned.number,
        "severity": scanned.severity.value if scanned.severity else "ignore",
        "kind": finding.kind if finding else "none",
        "rule": finding.rule if finding else None,
        "device": finding.device if finding else None,
        "message": scanned.line.message,
        "summary": finding.summary if finding else "",
    }
    return json.dumps(fields) + "\n"


_COLOURS = {"page": "red", "warn": "yellow", "info": "blue", "ignore": "bright_black"}


def _text_line(scanned: ScannedLine) -> str:
    finding, level = scanned.finding, scanned.severity.value if scanned.severity else "ignore"
    message = "".join(char if char.isprintable() else " " for char in scanned.line.message.strip()[:MAX_MESSAGE_SHOWN])
    kind, device = (finding.kind, finding.device or "-") if finding else ("none", "-")
    shown = click.style(f"{level:6}", fg=_COLOURS[level]) if sys.stdout.isatty() else f"{level:6}"
    return f"{scanned.number:>9} {shown} {kind:22} {device:20} {message}\n"


def _summary(scan: LogScan, tally: _Tally) -> str:
    """What was read and found, the gravest first, each with what to do."""
    read = f"{scan.lines:,} lines read"
    if scan.cut_lines:
        read += f" ({scan.cut_lines} longer than 1 MiB, only their beginning)"
    if not tally.groups:
        return f"{read}, nothing found."
    at_least = "at least " if scan.suppressed_seen else ""
    parts = [f"\n{read}: {at_least}{tally.counts['page']:,} page, {tally.counts['warn']:,} warn."]
    for (kind, device), group in sorted(tally.groups.items(), key=lambda item: item[1].level != "page"):
        where = "" if device == "-" else f" ({device})"
        times = f", {at_least}{group.count} lines" if group.count > 1 or at_least else ""
        parts.append(f"{group.level.upper()} {kind}{where}: {group.finding.summary}; line {group.first_line}{times}.")
        if group.finding.advice:
            parts.append(f"     {group.finding.advice}")
    return "\n".join(parts)
