"""A journal as journalctl shows it, in memory: pages from an inclusive cursor, rotation, a ring imported twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice

from watchdog.journal.frame import Hello
from watchdog.journal.records import Record, RecordKind

RING_LINES = 1300
"""What a kernel ring buffer of 128 KiB holds."""
Identity = tuple[str, int, str]
"""Boot, the kernel's stamp in microseconds, text."""


@dataclass(slots=True)
class InMemoryJournal:
    """Boots of one machine, oldest first; the last one is running. `printed` is every line its kernel ever printed."""

    records: list[Record] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    printed: list[Identity] = field(default_factory=list)
    wall_us: int = 1_795_000_000_000_000
    stamp_us: int = 0
    number: int = 0
    source: int = 1

    def boot(self, *, clock_back_s: int = 0) -> None:
        """Start another boot; its wall clock may be behind the one before."""
        self.boots.append(f"{len(self.boots) + 1:08x}" + "0" * 24)
        self.wall_us += self.stamp_us + 60_000_000 - clock_back_s * 1_000_000
        self.stamp_us = 0
        self.print(1)
        self.stamp_us = 10_000_000

    def print(self, count: int) -> None:
        """Let the kernel print `count` lines."""
        for _ in range(count):
            self.print_line(f"line {len(self.printed)}")

    def print_line(self, message: str) -> None:
        """Let the kernel print this line."""
        self.stamp_us += 1000
        self.printed.append((self.boots[-1], self.stamp_us, message))
        self._add(RecordKind.KERNEL, message, self.stamp_us)

    def print_in_disorder(self, count: int) -> None:
        """Let processors print at the same time: `count` lines in the ring, every second one with an older stamp."""
        for number in range(count):
            self.stamp_us += 1000
            stamp_us = self.stamp_us - 5500 * (number % 2)
            message = f"line {len(self.printed)}"
            self.printed.append((self.boots[-1], stamp_us, message))
            self._add(RecordKind.KERNEL, message, stamp_us)

    def miss(self, lost: int) -> None:
        """Let journald say that it lost lines."""
        self.stamp_us += 1000
        self._add(RecordKind.MISSED, f"Missed {lost} kernel messages", None, lost)

    def mark(self, word: str) -> None:
        """Let the journal start or stop, or logind announce a shutdown."""
        self.stamp_us += 1000
        self._add(RecordKind.MARK, word, None)

    def import_again(self) -> None:
        """What journald does after it lost its place in the ring: every line of this boot anew, under new cursors."""
        for boot, stamp_us, message in self.printed[-RING_LINES:]:
            if boot == self.boots[-1]:
                self.stamp_us += 1
                self._add(RecordKind.KERNEL, message, stamp_us)

    def renumber(self) -> None:
        """What journald does when it moves its files from /run to /var: the same entries under another numbering."""
        self.source += 1
        self.records = [
            replace(record, cursor=f"s={self.source:032x};i={number:x};{record.cursor.split(';', 2)[2]}")
            for number, record in enumerate(self.records, start=1)
        ]
        self.number = len(self.records)

    def rotate(self, keep: int) -> None:
        """Forget all but the newest `keep` records."""
        self.records = self.records[-keep:]

    def _add(self, kind: RecordKind, message: str, source_us: int | None, lost: int = 0) -> None:
        self.number += 1
        boot, received = self.boots[-1], self.stamp_us
        place = f"b={boot};m={received:x};t={self.wall_us + received:x};x={hash((kind, message)) & 0xFFFF:x}"
        cursor = f"s={self.source:032x};i={self.number:x};{place}"
        self.records.append(Record(kind, cursor, boot, message, source_us, received, self.wall_us + received, lost))

    @property
    def hello(self) -> Hello:
        """What the reader would say now."""
        visible = [boot for boot in self.boots if any(record.boot == boot for record in self.records)]
        now = (self.wall_us + self.stamp_us) / 1e6
        return Hello(self.boots[-1], now, self.stamp_us / 1e6, 0, frozenset(), "systemd 252", tuple(visible))

    def page(self, boot: str, cursor: str, limit: int) -> list[Record]:
        """What `journalctl --cursor` shows: from that record on, or from the nearest later one if it is gone."""
        start = 0
        if cursor != "-" and self.records:
            wanted, first = _parts(cursor), _parts(self.records[0].cursor)
            if wanted["s"] == first["s"]:
                start = max(0, int(wanted["i"], 16) - int(first["i"], 16))
            else:
                start = self._by_time(boot, int(wanted["m"], 16))
        return list(islice((at for at in islice(self.records, start, None) if at.boot == boot), limit))

    def _by_time(self, boot: str, received_us: int) -> int:
        later = (n for n, at in enumerate(self.records) if at.boot == boot and at.received_us >= received_us)
        return next(later, len(self.records))


def _parts(cursor: str) -> dict[str, str]:
    return dict(part.split("=") for part in cursor.split(";"))
