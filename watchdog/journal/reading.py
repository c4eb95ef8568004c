"""Reading a host's kernel log so that no line is missed, none is taken twice, and blindness never looks like silence.

A state machine without any IO. A reader asks `begin` what to read, feeds every page it gets to `page` (or `ring`),
every line of a live stream to `live`, and stores `to_json` together with what came of the lines. The rules, each learnt
from a way to look healthy while blind:

- every boot is read by its id, so a wall clock that went back hides nothing;
- a page starts at the saved cursor *inclusively* and must show it again, else lines are lost: a gap, never a skip;
- after a restart the ended boots are read to their end first: there stands what killed them;
- a line is known by its boot, the kernel's stamp and its text, not by its cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from watchdog.journal.boot import LIVE_LIMIT, BootEnd, BootReading, Loss, Order, Page
from watchdog.journal.frame import Hello
from watchdog.journal.records import (
    RESTART,
    SHUTDOWN,
    Record,
    RecordKind,
    RingRecord,
    lost_before,
    records_between,
    same_entry,
)
from watchdog.kernlog.lines import KernelLine, Origin
from watchdog.model import Json

HISTORY_AFTER_S = 3600.0
"""Lines older than this at first contact are history (design §5.2)."""
OUTLIVED_US = 600_000_000
"""A machine that is still up so long after it was told to end did not: it was called off, or only programs ended."""
BEGINNING_US = 5_000_000
"""Every kernel prints its first line at 0."""
NEIGHBOURS = 20
"""A cursor that journald found by its time may start a page at an entry of the same microsecond."""
KNOWN_BOOTS = 400
_ID_LENGTH = 12
_UNREAD_LIVE = frozenset({RecordKind.FOREIGN, RecordKind.LOGIN})


@dataclass(slots=True)
class HostReading:
    """Everything remembered of one host's kernel log. `current` is the boot the host runs now, None before contact."""

    current: str | None = None
    boots: dict[str, BootReading] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    contact: dict[str, Json] = field(default_factory=dict)
    _hello: Hello | None = field(default=None, repr=False)

    def begin(self, hello: Hello, now: float) -> tuple[str, ...]:
        """The boots to read, in order: the ended ones first. `now` is our wall clock when `hello` came.

        Empty when this greeting is from a boot we have already seen end: the host restarted under our feet.
        """
        if self.current is None:
            self.current = hello.boot
            self.boots[hello.boot] = BootReading()
            self.contact = {"boot": hello.boot, "wall": hello.now, "uptime": hello.uptime_s}
            self.known = [boot[:_ID_LENGTH] for boot in (*hello.boots, hello.boot)][-KNOWN_BOOTS:]
        elif hello.boot != self.current:
            if hello.boot[:_ID_LENGTH] in self.known:
                return ()
            self._note_restart(hello)
        self._hello = hello
        order = self.boots[self.current].order
        if order and hello.uptime_s * 1e6 - order[0] > OUTLIVED_US:
            self.boots[self.current].order, self.boots[self.current].ended = [], ""
        self.boots[self.current].skew_s = now - hello.now
        self.boots[self.current].began_at = now - hello.uptime_s
        return (*(boot for boot in self.ended if not self.boots[boot].finished), self.current)

    def _note_restart(self, hello: Hello) -> None:
        """Another boot runs now: the one we knew has ended, and so has every boot listed that we never saw."""
        assert self.current is not None  # noqa: S101 - only called after first contact
        unseen = [boot for boot in hello.boots if boot != hello.boot and boot[:_ID_LENGTH] not in self.known]
        for boot in [self.current, *unseen]:
            if boot not in self.ended:
                self.ended.append(boot)
                self.boots.setdefault(boot, BootReading())
        shown = [boot[:_ID_LENGTH] for boot in hello.boots]
        self.known = list(dict.fromkeys([*self.known, *shown, hello.boot[:_ID_LENGTH]]))[-KNOWN_BOOTS:]
        self.current = hello.boot
        self.boots.setdefault(hello.boot, BootReading())

    def cursor(self, boot: str) -> str:
        """Where the next page of `boot` starts, `-` for its beginning."""
        return self.boots[boot].cursor or "-"

    def page(self, boot: str, asked: str, records: Sequence[Record], *, more: bool) -> Page:
        """Take a page of `boot` that was asked for from cursor `asked`; `more` if the journal may hold more of it."""
        at = self.boots.get(boot)
        if at is None or (at.cursor or "-") != asked or at.finished:
            return Page(stale=True)
        losses = [loss] if (loss := self._discontinuity(boot, at, asked, records)) else []
        before_order = self.order
        lines: list[KernelLine] = []
        received: list[int] = []
        for record in records:
            if record.boot == boot and record.kind not in {RecordKind.FOREIGN, RecordKind.LOGIN}:
                before = len(lines)
                self._prove(at, asked, record, lines, losses)
                received += [record.received_us] * (len(lines) - before)
        if records:
            at.cursor = records[-1].cursor
        if not more:
            at.settle_live()
            at.finished = boot != self.current
        unreadable = sum(record.message is None for record in records)
        first, last = (received[0], received[-1]) if received else (-1, -1)
        order = self.order if self.order != before_order else None
        return Page(tuple(lines), tuple(losses), len(records), unreadable, order, first, last)

    def _discontinuity(self, boot: str, at: BootReading, asked: str, records: Sequence[Record]) -> Loss | None:
        """What is missing between the place read up to and the first record of this page; None if nothing is."""
        if any(same_entry(record.cursor, asked) for record in records[:NEIGHBOURS]):
            return None
        if not records:
            # Nothing at all of the running boot is blindness, which the caller sees in `visible`, and no loss yet.
            unread = asked != "-" or self._came_later(boot, at)
            gone = unread and boot != self.current
            return Loss(boot, None, "the end of this boot is not in the journal any more") if gone else None
        at.note_break()
        if asked != "-":
            return self._rotation_loss(boot, at, asked, records[0])
        if self._came_later(boot, at) and records[0].stamp_us > BEGINNING_US:
            return Loss(boot, None, "the journal no longer holds the beginning of this boot")
        return None

    def _came_later(self, boot: str, at: BootReading) -> bool:
        """Whether nothing is read yet of a boot that began after first contact, so that all of it is owed."""
        return boot != self.contact.get("boot") and at.high_us < 0

    def _rotation_loss(self, boot: str, at: BootReading, asked: str, first: Record) -> Loss:
        at.note_gap(first.stamp_us - 1)
        between = records_between(asked, first.cursor)
        bound = "" if between is None else f", at most {between} records"
        return Loss(boot, None, f"the journal was rotated past the place read up to: a stretch is missing{bound}")

    def _prove(self, at: BootReading, asked: str, record: Record, lines: list[KernelLine], losses: list[Loss]) -> None:
        boot = record.boot
        if record.kind is RecordKind.MARK:
            at.ended = "" if record.message == "started" else (record.message or "")
            self._note_order(at, record, self._printed_at(at, record))
            return
        if same_entry(record.cursor, asked):
            return
        new = at.take_record(record, live=False)
        if record.kind is RecordKind.MISSED:
            if new:
                losses.append(Loss(boot, record.lost or None, record.message or ""))
            return
        at.kernel_lines += record.kind is RecordKind.KERNEL
        if new:
            lines.append(self._line(boot, at, record, self._printed_at(at, record)))

    @property
    def order(self) -> Order | None:
        """That the running boot was told to end, as far as it has not outlived that."""
        order = self.boots[self.current].order if self.current is not None else []
        return Order(float(order[1]), order[2] == RESTART) if order else None

    def _note_order(self, at: BootReading, record: Record, now: float) -> Order | None:
        """Remember logind's announcement in `record`, come at `now`; None if it is none, or known, or outlived."""
        new = record.message in {SHUTDOWN, RESTART} and record.stamp_us > (at.order[0] if at.order else -1)
        uptime_s = self._hello.uptime_s if self._hello is not None else 0.0
        if not new or record.boot != self.current or uptime_s * 1e6 - record.stamp_us > OUTLIVED_US:
            return None
        at.order = [record.stamp_us, now, record.message]
        return self.order

    def live(self, record: Record, now: float) -> Page:
        """Take one record of the live stream of the current boot, which came at `now` by our clock."""
        boot = record.boot
        at = self.boots.get(boot)
        if at is not None and boot == self.current and record.kind is RecordKind.MARK:
            order = self._note_order(at, record, now)
            if order is not None:
                at.ended = record.message or ""
            return Page(order=order, stale=order is None)
        if at is None or boot != self.current or record.kind in _UNREAD_LIVE:
            return Page(stale=True)
        if record.cursor == at.cursor or not at.take_record(record, live=True):
            return Page(visible=1)
        if record.kind is RecordKind.MISSED:
            return Page(losses=(Loss(boot, record.lost or None, record.message or ""),), visible=1)
        unreadable = int(record.message is None)
        return Page((self._line(boot, at, record, now),), visible=1, unreadable=unreadable)

    @property
    def live_is_full(self) -> bool:
        """Whether the live stream must let a scan pass before it takes more lines."""
        return self.current is not None and len(self.boots[self.current].live) >= LIVE_LIMIT

    def ring(self, boot: str, records: Sequence[RingRecord]) -> Page:
        """Take the kernel's whole ring buffer, where there is no journal. Sequence numbers give the exact loss."""
        at = self.boots.get(boot)
        if at is None or boot != self.current:
            return Page(stale=True)
        losses: list[Loss] = []
        if records and at.sequence is not None and (lost := lost_before(records[0].sequence, at.sequence)):
            losses.append(Loss(boot, lost, "the kernel's ring buffer was overwritten before it was read"))
            at.note_gap(records[0].stamp_us - 1)
        lines: list[KernelLine] = []
        for entry in records:
            if at.sequence is not None and entry.sequence <= at.sequence:
                continue
            at.sequence = entry.sequence
            if at.take(entry.stamp_us, entry.message, live=False):
                at.kernel_lines += 1
                kind = RecordKind.KERNEL if entry.from_kernel else RecordKind.USERSPACE
                record = Record(kind, "", boot, entry.message, entry.stamp_us, entry.stamp_us, 0)
                lines.append(self._line(boot, at, record, self._printed_at(at, record)))
        return Page(tuple(lines), tuple(losses), visible=len(records))

    def give_up(self, boot: str) -> None:
        """An ended boot cannot be read any more (no journal is kept): do not wait for it."""
        if boot in self.ended:
            self.boots[boot].finished = True

    @property
    def boot_ends(self) -> tuple[BootEnd, ...]:
        """How each ended boot ended, once all of them are read; they stay until `forget_ended`."""
        if self.current is None or not self.ended or not all(self.boots[boot].finished for boot in self.ended):
            return ()
        following = [*self.ended[1:], self.current]
        return tuple(self._boot_end(boot, after) for boot, after in zip(self.ended, following, strict=True))

    def _boot_end(self, boot: str, after: str) -> BootEnd:
        at, then = self.boots[boot], self.boots[after]
        return BootEnd(
            boot=boot,
            next_boot=after,
            clean=at.ended in {SHUTDOWN, RESTART, "stopped"},
            gone=self._hello is not None and boot not in self._hello.boots,
            tail=tuple((float(when), str(text)) for when, text in at.tail),
            firmware=tuple(then.firmware),
            restarted_at=then.began_at,
        )

    def forget_ended(self) -> None:
        """The ends were reported: drop what is remembered of those boots."""
        for boot in self.ended:
            self.boots.pop(boot, None)
        self.ended = []

    def _printed_at(self, at: BootReading, record: Record) -> float:
        """When the line was printed, by our clock in Unix seconds: by the kernel's own stamp, whose boot we have met.

        The host's wall clock may be wrong or set at any time. It places only boots that came and went unmet.
        """
        if at.began_at is not None:
            return at.began_at + record.stamp_us / 1e6
        now = self.boots[self.current or ""]
        wall_at = record.wall_at + now.skew_s
        return wall_at if now.began_at is None else min(wall_at, now.began_at)

    def _is_history(self, boot: str, record: Record) -> bool:
        """Whether the line was old already when we first met this host. The younger of two ages counts."""
        if boot != self.contact.get("boot"):
            return False
        by_wall = float(self.contact["wall"]) - record.wall_at
        by_stamp = float(self.contact["uptime"]) - record.stamp_us / 1e6
        return min(by_wall, by_stamp) > HISTORY_AFTER_S

    def _line(self, boot: str, at: BootReading, record: Record, printed_at: float) -> KernelLine:
        from_kernel = record.kind is RecordKind.KERNEL
        if from_kernel:
            at.note_tail(printed_at, record.message or "")
        return KernelLine(
            message=record.message or "",
            at=printed_at,
            monotonic_s=record.stamp_us / 1e6,
            origin=Origin.KERNEL if from_kernel else Origin.USERSPACE,
            boot=boot,
            post_mortem=boot != self.current,
            history=self._is_history(boot, record),
        )

    def to_json(self) -> Json:
        """What to store, in the same transaction as the alerts that came of the lines."""
        return {
            "version": 1,
            "current": self.current,
            "boots": {boot: at.to_json() for boot, at in self.boots.items()},
            "ended": list(self.ended),
            "known": list(self.known),
            "contact": dict(self.contact),
        }

    @classmethod
    def from_json(cls, stored: Json) -> HostReading:
        """The reading that `to_json` wrote; a fresh one for None or for another version's memory."""
        if not isinstance(stored, dict) or stored.get("version") != 1 or stored.get("current") is None:
            return cls()
        return cls(
            current=stored["current"],
            boots={boot: BootReading.from_json(at) for boot, at in stored["boots"].items()},
            ended=list(stored["ended"]),
            known=list(stored["known"]),
            contact=dict(stored["contact"]),
        )
