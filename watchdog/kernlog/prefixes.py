"""What stands before the message in a text line of a kernel log: times, priority, caller, host, program."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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
            self.at = _moment(match["iso"]) if match["iso"] else _ctime(match["date"]) if match["date"] else self.at
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
        self.at, self.timed = _moment(match[1]), True
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


def _moment(text: str) -> float | None:
    text = text.replace(",", ".").replace(" UTC", "Z").replace(" Z", "Z")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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
