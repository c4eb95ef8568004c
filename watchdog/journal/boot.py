"""What is remembered of one boot's kernel log: how far it is proven read, and which lines were already taken.

Two readers share it. The scan proves: its pages start at the saved cursor and must show it again. The live stream is
quicker but proves nothing, so its lines wait in `live` until a scan has passed over them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdog.journal.records import Record, RecordKind
from watchdog.kernlog.lines import KernelLine
from watchdog.model import Json

SEEN_LIMIT = 512
"""Identities kept exactly. Kernel lines reach the journal in order up to a few lines, so older ones need no list."""
LIVE_LIMIT = 4096
"""Unproven lines of the live stream before it must stop and let a scan pass over them."""
GAPS_LIMIT = 16
DISORDER_US = 10_000
"""Processors that print at the same time may come in the wrong order by less than this."""
UNTOUCHED, FILLING = 0, 1
TAIL_LINES = 5
TAIL_CHARACTERS = 400


def identity(stamp_us: int, message: str) -> str:
    """The identity of a line within one boot of one host: the kernel's own stamp and the text.

    A cursor is none: after journald lost its place it imports the whole ring again under new cursors (measured).
    """
    text = message.encode("utf-8", "surrogatepass")
    return hashlib.sha256(b"%d\0%s" % (stamp_us, hashlib.sha256(text).digest())).hexdigest()[:12]


@dataclass(slots=True)
class BootReading:
    """How far one boot is read. `high_us` and `floor_us` are kernel stamps in microseconds, -1 for none yet.

    `seen` maps the newest proven identities to their stamps; everything proven up to `floor_us` has left that list.
    `gaps` are stretches of stamps nobody has read: first, last, and whether a second import of the ring is filling it.
    `ended` is the last word on the boot's end: "", "shutdown" or "stopped".
    """

    cursor: str | None = None
    sequence: int | None = None
    high_us: int = -1
    floor_us: int = -1
    kernel_lines: int = 0
    ended: str = ""
    finished: bool = False
    skew_s: float = 0.0
    seen: dict[str, int] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    gaps: list[list[int]] = field(default_factory=list)
    tail: list[list[Json]] = field(default_factory=list)
    firmware: list[str] = field(default_factory=list)

    def take(self, stamp_us: int, message: str, *, live: bool, stamped: bool = True) -> bool:
        """Whether this line is new, and remember it. `stamped`: `stamp_us` is the kernel's own."""
        new = self._take(identity(stamp_us, message), stamp_us, live=live, stamped=stamped)
        if self.gaps and stamped and not live:
            self._fill_gaps(stamp_us)
        return new

    def _take(self, mark: str, stamp_us: int, *, live: bool, stamped: bool) -> bool:
        if mark in self.seen:
            return False
        if mark in self.live:
            if not live:
                self._prove(mark, self.live.pop(mark), stamped=stamped)
            return False
        if stamped and self._covers(stamp_us):
            return False
        if live:
            self.live[mark] = stamp_us
        else:
            self._prove(mark, stamp_us, stamped=stamped)
        return True

    def take_record(self, record: Record, *, live: bool) -> bool:
        """`take` for a journal record."""
        text = record.message or ""
        if record.kind is RecordKind.MISSED:
            return self.take(record.received_us, f"missed {text}", live=live, stamped=False)
        return self.take(record.stamp_us, text, live=live, stamped=record.source_us is not None)

    def _prove(self, mark: str, stamp_us: int, *, stamped: bool) -> None:
        self.seen[mark] = stamp_us if stamped else -1
        if stamped:
            if self.high_us < 0 < stamp_us:
                self.gaps.append([0, stamp_us - 1, UNTOUCHED])  # who knows what stood before
            self.high_us = max(self.high_us, stamp_us)
        while len(self.seen) > SEEN_LIMIT:
            oldest = next(iter(self.seen))
            self.floor_us = max(self.floor_us, self.seen.pop(oldest))

    def _covers(self, stamp_us: int) -> bool:
        """Whether a line with this stamp must have been read, though its identity is no longer listed."""
        return stamp_us <= self.floor_us and not any(start <= stamp_us <= end for start, end, _ in self.gaps)

    def note_gap(self, until_us: int) -> None:
        """Remember that nobody read what lies between the last proven line and `until_us`."""
        if self.high_us >= 0 and until_us > self.high_us:
            self.gaps.append([self.high_us + 1, until_us, UNTOUCHED])
        if len(self.gaps) > GAPS_LIMIT:
            (start, *_), (_, *rest) = self.gaps[:2]
            self.gaps[:2] = [[start, *rest]]

    def _fill_gaps(self, stamp_us: int) -> None:
        """A second import of the ring, which is in order, reaches `stamp_us`: up to there the gap is read now."""
        for gap in self.gaps:
            if gap[0] <= stamp_us <= gap[1]:
                gap[0], gap[2] = max(gap[0], stamp_us - DISORDER_US), FILLING
        self.gaps = [gap for gap in self.gaps if gap[2] == UNTOUCHED or stamp_us <= gap[1] + DISORDER_US]

    def note_tail(self, at: float, message: str) -> None:
        """Keep the last kernel lines, for the day this boot turns out to have ended badly."""
        self.tail = [*self.tail[1 - TAIL_LINES :], [at, message[:TAIL_CHARACTERS]]]
        if message.startswith("BERT:") and len(self.firmware) < TAIL_LINES:
            self.firmware.append(message[:TAIL_CHARACTERS])

    def settle_live(self) -> None:
        """A scan has passed over everything: live lines up to there are proven, or the journal has lost them."""
        for mark, stamp_us in list(self.live.items()):
            if stamp_us <= self.high_us:
                del self.live[mark]
                self.seen[mark] = -1

    def to_json(self) -> Json:
        """This reading as JSON; fields at their defaults are left out."""
        blank = BootReading()
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: _copied(value) for name, value in fields.items() if value != getattr(blank, name)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Json]) -> BootReading:
        """The reading that `to_json` wrote. Raises TypeError on fields it does not know."""
        return cls(**{name: _copied(value) for name, value in stored.items()})


def _copied(value: Json) -> Json:
    """A copy that shares nothing with the stored memory, which must stay what was committed."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return [list(item) if isinstance(item, list) else item for item in value]
    return value


# What a reading of a host's kernel log gives: lines, losses, and how boots ended.


@dataclass(frozen=True, slots=True)
class Loss:
    """Lines that nobody will ever read: how many (None: unknown), after which stamp, and how we know."""

    boot: str
    count: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """What one page gave. `visible` counts every record shown, known or not; `stale` means another reader was quicker
    and nothing was taken; `unreadable` counts records without a text. `first_us` and `last_us`: when journald took the
    first and the last new line, in microseconds since boot; -1 without any.
    """

    lines: tuple[KernelLine, ...] = ()
    losses: tuple[Loss, ...] = ()
    visible: int = 0
    unreadable: int = 0
    first_us: int = -1
    last_us: int = -1
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How a boot ended. `clean`: it announced its shutdown. `gone`: its end cannot be read any more."""

    boot: str
    next_boot: str
    clean: bool
    gone: bool
    tail: tuple[tuple[float, str], ...]
    firmware: tuple[str, ...]
