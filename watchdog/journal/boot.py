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
HELD_LIMIT = 2048
"""What a ring buffer of 256 KiB holds: older lines cannot come again."""
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
    `gaps` are stretches of stamps nobody has read: first, last, and whether the lines now read come in order from
    before its first stamp and so fill it. `held` are identities that left `seen` while lines around them may come yet.
    `last_us` is the stamp of the last proven line, -1 where the line read next does not follow on it.
    `ended` is the last word on the boot's end: "", "shutdown", "restart" or "stopped". `order` is what logind announced
    last: the stamp, when it was by our clock, and which of the two; empty without. `began_at` is when the boot
    began, by our clock in Unix seconds, as its last greeting had it; None without a greeting.
    """

    cursor: str | None = None
    sequence: int | None = None
    high_us: int = -1
    floor_us: int = -1
    last_us: int = -1
    kernel_lines: int = 0
    ended: str = ""
    finished: bool = False
    skew_s: float = 0.0
    began_at: float | None = None
    seen: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    gaps: list[list[int]] = field(default_factory=list)
    tail: list[list[Json]] = field(default_factory=list)
    firmware: list[str] = field(default_factory=list)
    order: list[Json] = field(default_factory=list)

    def take(self, stamp_us: int, message: str, *, live: bool, stamped: bool = True) -> bool:
        """Whether this line is new, and remember it. `stamped`: `stamp_us` is the kernel's own."""
        new = self._take(identity(stamp_us, message), stamp_us, live=live, stamped=stamped)
        if stamped and not live:
            self._fill_gaps(stamp_us)
        return new

    def _take(self, mark: str, stamp_us: int, *, live: bool, stamped: bool) -> bool:
        if mark in self.seen or mark in self.held:
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
                self._add_gap(0, stamp_us - 1 + DISORDER_US)  # who knows what stood before
            self.high_us = max(self.high_us, stamp_us)
        while len(self.seen) > SEEN_LIMIT:
            self._forget(next(iter(self.seen)))

    def _forget(self, mark: str) -> None:
        stamp_us = self.seen.pop(mark)
        if self._is_open(stamp_us):
            self.held[mark] = stamp_us
            if len(self.held) <= HELD_LIMIT:
                return
            stamp_us = self.held.pop(next(iter(self.held)))
        self.floor_us = max(self.floor_us, stamp_us)

    def _release(self) -> None:
        """Forget the held lines around which nothing new can come any more."""
        held, self.held = self.held, {}
        for mark, stamp_us in held.items():
            if self._is_open(stamp_us):
                self.held[mark] = stamp_us
            else:
                self.floor_us = max(self.floor_us, stamp_us)

    def _covers(self, stamp_us: int) -> bool:
        """Whether a line with this stamp must have been read, though its identity is no longer listed."""
        return stamp_us <= self.floor_us and not self._in_gap(stamp_us)

    def _is_open(self, stamp_us: int) -> bool:
        """Whether lines with stamps around this one may come yet, so that only identities tell which were taken."""
        return stamp_us > self.high_us - DISORDER_US or self._in_gap(stamp_us)

    def _in_gap(self, stamp_us: int) -> bool:
        return any(start <= stamp_us <= end for start, end, _ in self.gaps)

    def note_break(self) -> None:
        """Remember that the line read next need not follow on the last one."""
        self.last_us = -1

    def note_gap(self, until_us: int) -> None:
        """Remember that nobody read what lies between the last proven line and `until_us`."""
        self.note_break()
        if 0 <= self.high_us < until_us:
            self._add_gap(max(self.high_us - DISORDER_US, self.floor_us) + 1, until_us + DISORDER_US)

    def _add_gap(self, start_us: int, end_us: int) -> None:
        self.gaps.append([start_us, end_us, UNTOUCHED])
        self._merge_gaps()

    def _merge_gaps(self) -> None:
        while len(self.gaps) > GAPS_LIMIT:
            one, other = self.gaps[:2]
            self.gaps[:2] = [[min(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2])]]

    def _fill_gaps(self, stamp_us: int) -> None:
        """Close what the line with `stamp_us` proves read: an import of the ring is in order, but the journal may have
        rotated its beginning away, so it proves nothing about stamps before the first line of it that was read.
        """
        if self.last_us < 0:
            self.gaps = [part for gap in self.gaps for part in _split(gap, stamp_us)]
            self._merge_gaps()
        elif stamp_us < self.last_us - DISORDER_US:
            # Going back means that an import begins here: whatever it does not hold, no later one can hold.
            self.gaps = [[start, end, FILLING] for start, end, _ in self.gaps]
        self.last_us = stamp_us
        if not self.gaps:
            return
        for gap in self.gaps:
            if gap[2] == FILLING and gap[0] <= stamp_us:
                gap[0] = max(gap[0], stamp_us - DISORDER_US)
        still = [gap for gap in self.gaps if gap[2] == UNTOUCHED or stamp_us <= gap[1] + DISORDER_US]
        if len(still) < len(self.gaps):
            self.gaps = still
            self._release()

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
                self.seen[mark] = stamp_us
        self._release()

    def to_json(self) -> Json:
        """This reading as JSON; fields at their defaults are left out."""
        blank = BootReading()
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: _copy(value) for name, value in fields.items() if value != getattr(blank, name)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Json]) -> BootReading:
        """The reading that `to_json` wrote. Raises TypeError on fields it does not know."""
        return cls(**{name: _copy(value) for name, value in stored.items()})


def _split(gap: list[int], stamp_us: int) -> list[list[int]]:
    """The parts of a gap before and after the first line read since a break. Only the latter is filled from here on."""
    start, end, _ = gap
    if stamp_us <= start:
        return [[start, end, FILLING]]
    if stamp_us + DISORDER_US >= end:
        return [[start, end, UNTOUCHED]]
    return [[start, stamp_us + DISORDER_US, UNTOUCHED], [stamp_us, end, FILLING]]


def _copy(value: Json) -> Json:
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
class Order:
    """That a machine was told to end, when (Unix seconds, our clock), and whether to come back."""

    at: float
    comes_back: bool


@dataclass(frozen=True, slots=True)
class Page:
    """What one page gave. `visible` counts every record shown, known or not; `stale` means another reader was quicker
    and nothing was taken; `unreadable` counts records without a text. `order`: the running boot was told to end.
    `first_us` and `last_us`: when journald took the
    first and the last new line, in microseconds since boot; -1 without any.
    """

    lines: tuple[KernelLine, ...] = ()
    losses: tuple[Loss, ...] = ()
    visible: int = 0
    unreadable: int = 0
    order: Order | None = None
    first_us: int = -1
    last_us: int = -1
    stale: bool = False


@dataclass(frozen=True, slots=True)
class BootEnd:
    """How a boot ended. `clean`: it announced its shutdown. `gone`: its end cannot be read any more.
    `restarted_at`: when the next one began, by our clock in Unix seconds; None if we never met that one.
    """

    boot: str
    next_boot: str
    clean: bool
    gone: bool
    tail: tuple[tuple[float, str], ...]
    firmware: tuple[str, ...]
    restarted_at: float | None = None
