"""Whatever the host does and whenever we are killed: every kernel line is taken exactly once, or reported lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.in_memory_journal import Identity, InMemoryJournal
from watchdog.journal.boot import Loss, Page
from watchdog.journal.reading import HostReading
from watchdog.model import Json


@dataclass(slots=True)
class Watchdog:
    """A process around a `HostReading`: what it took waits, and is stored together with the memory, or lost with it."""

    journal: InMemoryJournal
    stored: Json = None
    taken: list[Identity] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    reading: HostReading = field(default_factory=HostReading)
    _waiting: list[Identity] = field(default_factory=list)
    _waiting_losses: list[Loss] = field(default_factory=list)

    def take(self, page: Page) -> None:
        for line in page.lines:
            assert line.boot is not None
            assert line.monotonic_s is not None
            self._waiting.append((line.boot, round(line.monotonic_s * 1e6), line.message))
        self._waiting_losses += page.losses

    def commit(self) -> None:
        """One transaction: memory, and everything that came of the lines."""
        self.stored = json.loads(json.dumps(self.reading.to_json()))
        self.taken += self._waiting
        self.losses += self._waiting_losses
        self._waiting, self._waiting_losses = [], []

    def crash(self) -> None:
        """kill -9 and start again."""
        self.reading = HostReading.from_json(self.stored)
        self._waiting, self._waiting_losses = [], []

    def scan(self, page_size: int, killed_after: int | None, commit_pages: bool) -> None:
        """Read to the end; `killed_after` so many pages the process dies."""
        pages = 0
        for boot in self.reading.begin(self.journal.hello, self.journal.hello.now):
            more = True
            while more:
                asked = self.reading.cursor(boot)
                records = self.journal.page(boot, asked, page_size)
                if pages == killed_after:
                    if pages % 2:  # died after the page was taken, before it was stored
                        self.take(self.reading.page(boot, asked, records, more=True))
                    self.crash()
                    return
                more = len(records) >= page_size
                self.take(self.reading.page(boot, asked, records, more=more))
                pages += 1
                if commit_pages:
                    self.commit()
        if self.reading.boot_ends:
            self.reading.forget_ended()
        self.commit()

    def race(self) -> None:
        """The stream's own catching up asked for the same page as a scan, and comes to it later."""
        boot = self.reading.current
        if boot is not None and boot == self.journal.boots[-1]:
            asked = self.reading.cursor(boot)
            records = self.journal.page(boot, asked, 50)
            self.scan(50, None, False)
            late = self.reading.page(boot, asked, records, more=True)
            assert not late.lines
            self.take(late)

    def follow(self, lines: int, killed: bool) -> None:
        """A live stream brings the next `lines` records, then ends."""
        boot = self.reading.current
        if boot is None or boot != self.journal.boots[-1]:
            return
        for record in self.journal.page(boot, self.reading.cursor(boot), lines):
            self.take(self.reading.live(record, 0.0))
        if killed:
            self.crash()
        else:
            self.commit()


PRINT = st.tuples(st.just("print"), st.sampled_from([1, 2, 5, 40, 700]))
DISORDER = st.tuples(st.just("disorder"), st.sampled_from([2, 11, 600]))
SCAN = st.tuples(st.just("scan"), st.sampled_from([2, 3, 50, 1000]), st.none() | st.integers(0, 6), st.booleans())
FOLLOW = st.tuples(st.just("follow"), st.sampled_from([1, 3, 60, 900]), st.booleans())
BOOT = st.tuples(st.just("boot"), st.sampled_from([0, 7200]))
RACE = st.tuples(st.just("race"))
RENUMBER = st.tuples(st.just("renumber"))
AGAIN = st.tuples(st.just("again"))
ROTATE = st.tuples(st.just("rotate"), st.integers(1, 60))


def play(steps: list[tuple[object, ...]]) -> Watchdog:
    """Let host and watchdog do `steps`, then two undisturbed scans."""
    journal = InMemoryJournal()
    journal.boot()
    watchdog = Watchdog(journal)
    for step in steps:
        match step:
            case ("print", int(count)):
                journal.print(count)
            case ("disorder", int(count)):
                journal.print_in_disorder(count)
            case ("boot", int(back)):
                journal.boot(clock_back_s=back)
            case ("again",):
                journal.import_again()
            case ("rotate", int(keep)):
                journal.rotate(keep)
            case ("renumber",):
                journal.renumber()
            case ("race",):
                watchdog.race()
            case ("scan", int(size), killed, bool(each)):
                assert killed is None or isinstance(killed, int)
                watchdog.scan(size, killed, each)
            case ("follow", int(lines), bool(killed)):
                watchdog.follow(lines, killed)
    watchdog.scan(1000, None, False)
    watchdog.scan(1000, None, False)
    return watchdog


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(PRINT, PRINT, SCAN, SCAN, FOLLOW, FOLLOW, RACE, RENUMBER, BOOT, AGAIN), max_size=14))
def test_every_line_is_taken_exactly_once_whenever_the_process_dies(steps: list[tuple[object, ...]]) -> None:
    watchdog = play(steps)
    known_from = watchdog.reading.contact["boot"]
    expected = [line for line in watchdog.journal.printed if line[0] >= known_from]
    assert Counter(watchdog.taken) == Counter(expected)
    assert watchdog.losses == []


def rotated_twice(first: int, second: int) -> list[tuple[object, ...]]:
    """The journal rotates into a gap, and then into the import of the ring that fills it."""
    return [("print", 700), ("rotate", first), ("race",), ("again",), ("rotate", second), ("again",)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(PRINT, DISORDER, SCAN, FOLLOW, RACE, RENUMBER, BOOT, AGAIN, ROTATE), max_size=14))
@example(rotated_twice(1, 12))
@example(rotated_twice(1, 2))
@example(rotated_twice(3, 5))
@example([("print", 700), ("rotate", 14), ("again",), ("disorder", 2)])
@example([("disorder", 600), ("rotate", 9), ("again",), ("disorder", 2)])
def test_after_a_rotation_nothing_is_taken_twice_and_what_is_missing_is_reported(
    steps: list[tuple[object, ...]],
) -> None:
    watchdog = play([("scan", 1000, None, False), *steps])
    taken = Counter(watchdog.taken)
    assert all(count == 1 for count in taken.values())
    known_from = watchdog.reading.contact["boot"]
    there = [(at.boot, at.stamp_us, at.message) for at in watchdog.journal.records if at.boot >= known_from]
    assert not [line for line in there if line not in taken], "lines that are there to read were not taken"
    missing = [line for line in watchdog.journal.printed if line not in taken]
    assert not missing or watchdog.losses, f"{len(missing)} lines went missing without a word"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(PRINT, SCAN, FOLLOW, BOOT, AGAIN), max_size=10))
def test_the_memory_stays_small(steps: list[tuple[object, ...]]) -> None:
    watchdog = play(steps)
    assert len(json.dumps(watchdog.stored)) < 120_000
    assert len(watchdog.reading.boots) == 1
