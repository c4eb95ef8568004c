"""One line of a kernel log, in any of the forms tools print it: its message, its time, and who wrote it.

Forms: bare messages; dmesg (`[ 12.3]`, `-T`, `-d`, `-x`, ISO times, callers `[   C0]`, `[ T1772]`, raw `<4>`);
journalctl short, short-iso, short-full, short-monotonic, short-unix, export; rsyslog files; `kernel:` alone; lines
prefixed with a host (`nodeA: [12.3]`); JSON of journalctl and of `dmesg -J`; records of /dev/kmsg.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

# What stands before the message in a text line of a kernel log: times, priority, caller, host, program.

_PRIORITY = re.compile(r"<(\d{1,4})>(?:1 (?=\d{4}-))?")
_DECODED = re.compile(
    r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|res\d|local\d) *: {0,8}[a-z]{3,7} *: ?"
)
_STAMP = re.compile(r"\[ {0,12}(\d{1,10}\.\d{1,9})(?:@\d{1,3})?\] ?")
_OTHER_STAMP = re.compile(
    r"\[(?: {0,8}[+-]\d{1,9}\.\d{1,9}|\.\.\.| {0,8}[CT]\d{1,8}|[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d(?::\d\d)?"
    r"|(?P<date>[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:[.,]\d{1,9})? \d{4})"
    r"|[^\W\d_]{2,4}\.? [^\W\d_]{3,4}\.? {1,2}\d{1,2} \d\d:\d\d:\d\d(?: \d{4})?"
    r"|(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?))\](?:: ?| )?"
)
_ISO = re.compile(
    r"(?:[A-Z][a-z]{2} )?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?Z|[+-]\d\d:?\d\d| UTC\b)?)"
    r"(?: (?:GMT|MSK|[A-Z]{2,4}T)(?= ))?:? "
)
_DMESG_ISO = re.compile(r",\d{6}[+-]\d\d:\d\d$")
"""Only `dmesg --time-format iso` writes a comma and six digits; no host and no program stand behind it."""
_SHORT = re.compile(
    r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) {1,2}(\d{1,2})(?: (\d{4}))? (\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?"
    r"(?: (\d{4})(?= ))? "
)
_LOCAL = re.compile(
    r"(?:(?:\d{1,2}月|[^\W\d_]{2,9}\.?) {1,2}\d{1,2}\.?|\d{1,2} [^\W\d_]{3,4}\.?,?) \d\d:\d\d:\d\d(?:[.,]\d{1,9})? "
)
"""The time of journalctl and syslog in another language or order than the usual one; its month is not read."""
_UNIX = re.compile(r"(\d{9,10}\.\d{3,9}) (?=[A-Za-z])")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:\.\d{1,9})? {1,3}")
_KERNEL = re.compile(
    r" {0,2}(?:[A-Za-z0-9][\w.-]{0,63} )?(?:kern\.[a-z]{3,7} )?kernel"
    r"(?:(?:\[\d{1,7}\])?:(?: |$|(?=\S))| - - (?:- )?)"
)
_PROGRAM = re.compile(
    r"([A-Za-z0-9][\w.-]{0,63}) (?:[a-z]{2,8}\.[a-z]{3,7} )?([A-Za-z_(][\w./@+()-]{0,63})(\[\d{1,10}\])?:(?: |(?!\d))"
)
_PROGRAM_ALONE = re.compile(r"[A-Za-z_(][\w./@+()-]{0,63}\[\d{1,10}\]: ?")
_PREFIXED = re.compile(
    r"(?:[\w./-]{1,120}:(?:\d{1,9}:)? ?|[\w.-]{1,64} login: {0,4}|[^\s\[\]]{1,80}[#$] ?|\(XEN\) |kern\.[a-z]{3,7}: )"
    r"(?=\[ {0,12}\d{1,10}\.\d{1,9}\]|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:|kern: {0,8}[a-z]{3,7}: \[)"
)
_QUOTED = re.compile(r"(?:[ \t]{0,8}(?:>|&gt;)){1,12} ?|[`|] ?|[-*•] (?!-)")
"""Marks of mails and web pages in front of a pasted line."""
_SET_OFF = re.compile(
    r"(?:[ \t\xa0\ufeff>|`*\"'•-]|&gt;|=20){1,48}"
    r"(?=\[ {0,12}\d{1,10}\.\d{1,9}\]|<\d{1,3}>|\[[A-Z][a-z]{2} [A-Z][a-z]{2} |kernel: |\d{4}-\d\d-\d\d[T ]\d\d:"
    r"|(?:\d{1,2}月|[^\W\d_]{2,9}\.?) {1,2}\d{1,2} \d\d:\d\d:\d\d )"
)
"""The same and blanks, before what shows by its time that a line begins there; other blanks belong to the message."""
_INIT = re.compile(r"(?:systemd(?:-[\w-]{1,32})?|cloud-init|dracut[\w-]{0,32}|init|udevd|kmsg)\[\d{1,10}\]: ")
_OWN = re.compile(r"inference-watchdog(?:\[\d{1,10}\])?: ")
"""Our own log and alerts quote kernel lines; read back as such they would alert for ever (kernel-logs.md §4)."""
_DRIVERS = frozenset(
    (
        "nvme",
        "pci",
        "pcieport",
        "mlx5_core",
        "mlx4_core",
        "platform",
        "infiniband",
        "amdgpu",
        "nvidia",
        "igb",
        "xhci_hcd",
        "arm-smmu",
        "arm-smmu-v3",
        "thermal",
        "EDAC",
        "NMI",
        "Internal",
        "Memory",
        "Unhandled",
        "divide",
        "double",
        "invalid",
    )
)
"""First words of kernel messages that would pass for a host name where a log has times but no host."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


_CONTROL = re.compile(r"(?:#0[0-3][0-7])+")
"""How rsyslog writes a tab at the start of a message."""

MAX_PREFIXES = 8
_MARKS = frozenset(" \t\xa0\ufeff>|`*\"'•-&=")


def strip_prefix(text: str, year: int | None) -> tuple[str, float | None, float | None, bool | None]:
    """The message of a text line; its time in Unix seconds; the kernel's stamp in seconds; who wrote it.

    The last is True for the kernel, False for a program, None where the line does not say. Times without a zone are
    read as UTC; times without a year give none unless `year` is given.
    """
    prefix = _Prefix(text, year)
    for _ in range(MAX_PREFIXES):
        if not prefix.strip_one():
            break
    message = text[prefix.place :]
    if message.startswith("#0"):
        message = _CONTROL.sub("\t", message, count=1)
    if _OWN.match(message) or (prefix.kernel and _INIT.match(message)):
        prefix.kernel = False
    return message, prefix.at, prefix.monotonic_s, prefix.kernel


class _Prefix:
    """Strips one prefix after the other from a text line, remembering what each said."""

    def __init__(self, text: str, year: int | None) -> None:
        self.text = text
        self.year = year
        self.place = 0
        self.at: float | None = None
        self.monotonic_s: float | None = None
        self.kernel: bool | None = None
        self.timed = False
        self.calendar = False

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.place)
        if match is not None:
            self.place = match.end()
        return match

    def strip_one(self) -> bool:
        """Take one prefix away; False when none is left."""
        if self.kernel is False:
            return False
        char = self.text[self.place : self.place + 1]
        if self.place == 0 and char in _MARKS and (self.take(_SET_OFF) or self.take(_QUOTED)):
            return True
        if char == "[":
            return self.bracket()
        if (char == "<" or char.islower()) and self.facility():
            return True
        if char.isdigit() and self.numeric():
            return True
        return (char.isalpha() and not self.timed and (self.short() or self.iso() or self.local())) or self.writer()

    def facility(self) -> bool:
        if match := self.take(_PRIORITY):
            self.kernel = int(match[1]) >> 3 == 0
        elif match := self.take(_DECODED):
            self.kernel = match[1] == "kern"
        else:
            return False
        return True

    def bracket(self) -> bool:
        if match := self.take(_STAMP):
            self.monotonic_s = float(match[1])
        elif match := self.take(_OTHER_STAMP):
            self.at = _from_iso(match["iso"]) if match["iso"] else _ctime(match["date"]) if match["date"] else self.at
        else:
            return False
        self.timed = True
        self.kernel = True
        return True

    def numeric(self) -> bool:
        if self.iso():
            return True
        if match := self.take(_UNIX):
            self.at = float(match[1])
        elif not self.take(_CLOCK):
            return not self.timed and self.local()
        self.timed = True
        return True

    def iso(self) -> bool:
        match = self.take(_ISO)
        if match is None:
            return False
        self.at, self.timed = _from_iso(match[1]), True
        if _DMESG_ISO.search(match[1]):
            self.kernel = True
        return True

    def local(self) -> bool:
        if not self.take(_LOCAL):
            return False
        self.timed = self.calendar = True
        return True

    def short(self) -> bool:
        match = self.take(_SHORT)
        if match is None or match[1] not in _MONTHS:
            return False
        month, day, year_before, hour, minute, second, year_after = match.groups()
        year = int(year_before or year_after or self.year or 0)
        self.timed = self.calendar = True
        if year:
            numbers = (_MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
            self.at = _utc(year, *numbers)
        return True

    def writer(self) -> bool:
        """The host and who wrote the line, if they stand here."""
        if self.take(_KERNEL):
            self.kernel = self.timed = True
            return True
        if not self.timed:
            return self.take(_PREFIXED) is not None
        if self.calendar and not self.kernel and self.take(_PROGRAM_ALONE):
            self.kernel = False
            return False
        match = _PROGRAM.match(self.text, self.place)
        if match is None or match[1] in _DRIVERS or (self.kernel and not match[3]):
            return False
        self.place = match.end()
        self.kernel = match[2] == "systemd-journald" and self.text.startswith("Missed ", self.place)
        return self.kernel


def _from_iso(text: str) -> float | None:
    text = text.replace(",", ".").replace(" UTC", "Z").replace(" Z", "Z")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _ctime(text: str) -> float | None:
    _, month, day, clock, year = text.split()
    hour, minute, second = clock.replace(",", ".").split(":")
    if month not in _MONTHS:
        return None
    return _utc(int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(float(second)))


def _utc(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except ValueError:
        return None


class Origin(StrEnum):
    """Who wrote a line. Only `USERSPACE` lines are never classified: programs quote the kernel's words."""

    KERNEL = "kernel"
    USERSPACE = "userspace"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One kernel message without its prefix; several lines of one message are joined by `\\n`.

    `at` is Unix seconds, `monotonic_s` the kernel's own stamp, `boot` its boot id. `post_mortem`: read from a boot that
    has ended. `history`: written before this watchdog knew the host.
    """

    message: str
    at: float | None
    monotonic_s: float | None
    origin: Origin
    boot: str | None = None
    post_mortem: bool = False
    history: bool = False


MISSED_MESSAGE_ID = "e9bf28e6e834481bb6f48f548ad13606"
"""journald says that it lost kernel lines. Not written by the kernel, and used for nothing else."""

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[mK]")
_KMSG = re.compile(r"(\d{1,5}),(\d{1,20}),(\d{1,20}),[^;]{0,80};")
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_EXPORTED = re.compile(r"(?:    )?MESSAGE=")
_DMESG_JSON = re.compile(r'\s{0,40}"msg"\s?:\s?(".*")\s{0,4},?\s{0,4}$')


def parse_line(raw: bytes, *, year: int | None = None) -> KernelLine:
    """Take one line apart; never raises, whatever the bytes. Bytes that are not UTF-8 become U+FFFD.

    Times without a zone are read as UTC; times without a year give `at` only if `year` is given.
    """
    text = raw.decode("utf-8", "replace").rstrip("\r\n\0")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text.startswith(("{", "data: {", "\x1e{")) and (line := _json_line(text[text.index("{") :])):
        return line
    if text[:1].isdigit() and (match := _KMSG.match(text)):
        origin = Origin.KERNEL if int(match[1]) >> 3 == 0 else Origin.USERSPACE
        message = _ESCAPED.sub(_unescaped, text[match.end() :]) if "\\x" in text else text[match.end() :]
        return KernelLine(message, None, int(match[3]) / 1e6, origin)
    if '"msg"' in text and (match := _DMESG_JSON.match(text)):
        return _message_only(match[1])
    if match := _EXPORTED.match(text):
        return KernelLine(text[match.end() :], None, None, Origin.UNKNOWN)
    message, at, monotonic_s, kernel = strip_prefix(text, year)
    origin = Origin.UNKNOWN if kernel is None else Origin.KERNEL if kernel else Origin.USERSPACE
    return KernelLine(message, at, monotonic_s, origin)


def _unescaped(match: re.Match[str]) -> str:
    r"""Bytes that /dev/kmsg writes as `\x0a`: a line end inside a message, or a character that is not ASCII."""
    return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8", "replace")


def _message_only(quoted: str) -> KernelLine:
    """One `"msg": "…"` line of `dmesg -J`."""
    try:
        message = json.loads(quoted, strict=False)
    except ValueError:
        message = quoted[1:-1]
    return KernelLine(str(message), None, None, Origin.KERNEL)


def _json_line(text: str) -> KernelLine | None:
    """A journal entry as JSON, or None when `text` is no JSON object."""
    try:
        entry = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    if "MESSAGE" not in entry and "msg" in entry:
        return KernelLine(journal_message(entry["msg"]) or "", None, _seconds(entry.get("time"), 1.0), Origin.KERNEL)
    boot = entry.get("_BOOT_ID")
    return KernelLine(
        journal_message(entry.get("MESSAGE")) or "",
        _seconds(entry.get("__REALTIME_TIMESTAMP"), 1e6),
        _seconds(entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP"), 1e6),
        journal_origin(entry),
        boot=boot if isinstance(boot, str) else None,
    )


_DEEPEST_MESSAGE = 4
"""Lists within lists in a field; journalctl writes two at most."""


def journal_message(value: Any, errors: str = "replace", depth: int = _DEEPEST_MESSAGE) -> str | None:
    """The text of a journal field: a string, a list of byte values or a list of these; None for null and others.

    Bytes that are not UTF-8 are decoded as `errors` says. What is nested deeper than `depth` lists counts as null.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not depth:
        return None
    if all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= 255 for item in value):
        return bytes(value).decode("utf-8", errors)
    parts = [part for item in value if (part := journal_message(item, errors, depth - 1)) is not None]
    return "\n".join(parts) if parts else None


def journal_origin(entry: Mapping[str, Any]) -> Origin:
    """Who wrote a journal entry. `_TRANSPORT` is set by journald and cannot be forged; the identifier can.

    Lines that programs write to /dev/kmsg have the kernel's transport but another facility.
    """
    transport = entry.get("_TRANSPORT")
    if entry.get("MESSAGE_ID") == MISSED_MESSAGE_ID:
        return Origin.KERNEL if transport in (None, "driver") else Origin.USERSPACE
    if transport == "kernel":
        return Origin.KERNEL if entry.get("SYSLOG_FACILITY", "0") in ("0", 0) else Origin.USERSPACE
    if transport is not None:
        return Origin.USERSPACE
    identifier = entry.get("SYSLOG_IDENTIFIER")
    if identifier is None:
        return Origin.UNKNOWN
    return Origin.KERNEL if identifier == "kernel" else Origin.USERSPACE


def _seconds(value: Any, unit: float) -> float | None:
    try:
        seconds = float(value) / unit
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < 1e11 else None
