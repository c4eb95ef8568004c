"""Records of the kernel's own ring buffer, `/dev/kmsg`: `priority,sequence,microseconds,flags;text`, then ` KEY=value`.

Source: Documentation/ABI/testing/dev-kmsg in the kernel tree. Sequence numbers are contiguous within a boot, so the
number of lines that were overwritten before anyone read them is known exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RECORD = re.compile(rb"(\d{1,9}),(\d{1,19}),(\d{1,19}),([^;]*);(.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class RingRecord:
    """One record: its sequence number, the kernel's stamp in microseconds, and whether the kernel wrote it."""

    sequence: int
    stamp_us: int
    from_kernel: bool
    message: str


def parse(line: bytes) -> RingRecord | None:
    """The record in one line; None for a ` KEY=value` line, an empty line, or anything else. Total on any bytes."""
    if line.startswith(b" "):
        return None
    found = _RECORD.fullmatch(line)
    if found is None:
        return None
    priority, sequence, stamp, _, raw = found.groups()
    text = _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), raw)
    return RingRecord(int(sequence), int(stamp), int(priority) >> 3 == 0, text.decode("utf-8", "backslashreplace"))


def is_continuation(line: bytes) -> bool:
    """Whether a line belongs to the record before it, or is empty: neither a record nor damage."""
    return not line or line.startswith(b" ")


def lost_before(first: int, last_read: int) -> int:
    """How many records were overwritten unread between the last one read and the first one there now."""
    return max(0, first - last_read - 1)
