"""One journal record as the reader prints it: `journalctl -o json --all`, one object a line.

Every value is text. MESSAGE may also be a list of numbers (bytes that are not plain UTF-8), null (too long without
`--all`) or a list (the field repeats); measured on systemd 252 and 257. Fields: systemd.journal-fields(7).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from watchdog.kernlog.lines import MISSED_MESSAGE_ID, Origin, journal_message, journal_origin
from watchdog.model import Json
from watchdog.text import without_surrogates

_MARKS = {
    "d93fb3c9c24d451a97cea615ce59c00b": "stopped",
    "f77379a8490b408bbe5f6940505a777b": "started",
    "98268866d1d54a499c4e98921d93bc40": "shutdown",
}
SHUTDOWN, RESTART = "shutdown", "restart"
"""What logind announced: that the machine goes down, or that it does and comes back."""
_LOST = re.compile(r"Missed (\d{1,18}) kernel messages")
_SESSION_STARTED = "8d45620c1a4348dbb17410da57c60c66"
LATEST_US = 4_102_444_800_000_000
"""The year 2100, and more than any machine runs: a later time is a lie, and arithmetic must not meet it."""


class RecordKind(StrEnum):
    """What a record is to us.

    `USERSPACE`: written to /dev/kmsg by root, not by the kernel. `MISSED`: journald says it lost kernel lines.
    `MARK`: the journal started or stopped, or logind announced a shutdown. `LOGIN`: logind noted one of our logins.
    `FOREIGN`: not ours, whatever it calls itself: anyone may log under the name "kernel".
    """

    KERNEL = "kernel"
    USERSPACE = "userspace"
    MISSED = "missed"
    MARK = "mark"
    LOGIN = "login"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Record:
    """One journal record. Times are microseconds: `source_us` the kernel's own stamp, `received_us` and `wall_us` when
    journald took it. `lost` counts the lines a MISSED record stands for. `message` is None when it cannot be read.
    """

    kind: RecordKind
    cursor: str
    boot: str
    message: str | None
    source_us: int | None
    received_us: int
    wall_us: int
    lost: int = 0

    @property
    def stamp_us(self) -> int:
        """The kernel's own stamp where there is one, else journald's: microseconds since boot."""
        return self.received_us if self.source_us is None else self.source_us

    @property
    def wall_at(self) -> float:
        """When the line was printed, Unix seconds by the host's clock.

        Journald's wall time is when it *received* the line, late by as long as journald was away (70 s seen around a
        soft lockup), so it only serves to place the boot in time.
        """
        return (self.wall_us - self.received_us + self.stamp_us) / 1e6


def parse_journal(line: bytes) -> Record | None:
    """The record in one line of the reader's answer; None when it is not a journal record. Total on arbitrary bytes."""
    try:
        fields = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    cursor, boot = fields.get("__CURSOR"), fields.get("_BOOT_ID")
    wall, received = _number(fields.get("__REALTIME_TIMESTAMP")), _number(fields.get("__MONOTONIC_TIMESTAMP"))
    if not isinstance(cursor, str) or not isinstance(boot, str) or wall is None or received is None:
        return None
    message = journal_message(fields.get("MESSAGE", ""), "backslashreplace")
    message = None if message is None else without_surrogates(message)
    kind = _kind(fields)
    if kind is RecordKind.MARK:
        comes_back = "reboot" in (message or "").lower()
        message = _MARKS[fields["MESSAGE_ID"]]
        message = RESTART if message == SHUTDOWN and comes_back else message
    found = _LOST.search(message or "") if kind is RecordKind.MISSED else None
    return Record(
        kind=kind,
        cursor=without_surrogates(cursor),
        boot=without_surrogates(boot),
        message=message,
        source_us=_number(fields.get("_SOURCE_MONOTONIC_TIMESTAMP")),
        received_us=received,
        wall_us=wall,
        lost=int(found.group(1)) if found else 0,
    )


def _kind(fields: dict[str, Json]) -> RecordKind:
    transport, message_id = fields.get("_TRANSPORT"), fields.get("MESSAGE_ID")
    if transport == "kernel":
        genuine = journal_origin(fields) is Origin.KERNEL and fields.get("SYSLOG_IDENTIFIER") == "kernel"
        return RecordKind.KERNEL if genuine else RecordKind.USERSPACE
    if transport == "driver" and message_id == MISSED_MESSAGE_ID:
        return RecordKind.MISSED
    # logind's announcement has the transport "journal"; that it comes from root is part of the reader's request.
    if isinstance(message_id, str) and message_id in _MARKS and transport in {"driver", "journal"}:
        return RecordKind.MARK
    if message_id == _SESSION_STARTED and transport == "journal":
        return RecordKind.LOGIN
    return RecordKind.FOREIGN


def _number(value: Json) -> int | None:
    """Microseconds, at most `LATEST_US`: the line of a record with an absurd time is read all the same."""
    known = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return min(int(value), LATEST_US) if known else None


def records_between(earlier: str, later: str) -> int | None:
    """How many records of any kind lie between two cursors; None when their numbering is not the same (`s=`)."""
    first, second = _parts(earlier), _parts(later)
    try:
        behind = int(second["i"], 16) - int(first["i"], 16) - 1
    except (KeyError, ValueError):
        return None
    return behind if first.get("s") == second.get("s") and behind >= 0 else None


def same_entry(one: str, other: str) -> bool:
    """Whether two cursors stand for the same entry.

    Boot, both times and the content's hash must agree (`b m t x`). The numbering (`s i`) may differ: it changes when
    journald moves its files from /run to /var after boot.
    """
    first, second = _parts(one), _parts(other)
    return one == other or all(first.get(name, "") == second.get(name) for name in "bmtx")


def _parts(cursor: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in cursor.split(";") if "=" in part)


# Records of the kernel's own ring buffer, `/dev/kmsg`: `priority,sequence,microseconds,flags;text`, then ` KEY=value`.

_RECORD = re.compile(rb"(\d{1,9}),(\d{1,19}),(\d{1,19}),([^;]*);(.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class RingRecord:
    """One record: its sequence number, the kernel's stamp in microseconds, and whether the kernel wrote it."""

    sequence: int
    stamp_us: int
    from_kernel: bool
    message: str


def parse_kmsg(line: bytes) -> RingRecord | None:
    """The record in one line; None for a ` KEY=value` line, an empty line, or anything else. Total on any bytes."""
    if line.startswith(b" "):
        return None
    found = _RECORD.fullmatch(line)
    if found is None:
        return None
    priority, sequence, stamp, _, raw = found.groups()
    text = _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), raw)
    return RingRecord(
        int(sequence), min(int(stamp), LATEST_US), int(priority) >> 3 == 0, text.decode("utf-8", "backslashreplace")
    )


def is_continuation(line: bytes) -> bool:
    """Whether a line belongs to the record before it, or is empty: neither a record nor damage."""
    return not line or line.startswith(b" ")


def lost_before(first: int, last_read: int) -> int:
    """How many records were overwritten unread between the last one read and the first one there now."""
    return max(0, first - last_read - 1)
