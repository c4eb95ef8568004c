"""One host's kernel log in this process: what is remembered of it, shared by the scan and the live stream.

Everything between "have lines" and "have a result" happens without an `await`, so neither reader can take a line the
other has taken. Observations wait in `_pending` until a result carries them; memory that covers a line never leaves
before or without the observations made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from watchdog.checks.kernel_words import folded, incomplete, rebooted
from watchdog.config import HostSettings
from watchdog.kernlog import grouping
from watchdog.kernlog.lines import KernelLine
from watchdog.kernlog.matcher import Matcher
from watchdog.kernlog.page import Page
from watchdog.kernlog.reading import Reading
from watchdog.model import CheckResult, Json, Observation
from watchdog.ssh import HostError

WAITING_LIMIT = 5000
"""Lines held at most before they are classified: a scan of one page is folded in one piece."""


@dataclass(slots=True)
class Stream:
    """The live stream as the scan sees it. `last_us`: when journald received the newest record it brought.

    `restart` asks it to catch up by pages and begin anew.
    """

    wanted: bool = False
    open: bool = False
    last_us: int = -1
    trouble: HostError | None = None
    restart: asyncio.Event = field(default_factory=asyncio.Event)


class HostLog:
    """Memory and pending observations of one host."""

    def __init__(self, host: HostSettings, matcher: Matcher) -> None:
        """Nothing is remembered until `recall`."""
        self.host = host
        self.stream = Stream()
        self._matcher = matcher
        self._reading: Reading | None = None
        self._grouping: Json | None = None
        self._waiting: list[KernelLine] = []
        self._pending: tuple[Observation, ...] = ()

    @property
    def reading(self) -> Reading:
        """The state of the reading; `recall` must have been called."""
        assert self._reading is not None  # noqa: S101 - both readers recall first
        return self._reading

    def recall(self, memory: Json | None) -> None:
        """Start from the stored `memory`, unless this process remembers more already."""
        if self._reading is not None:
            return
        stored = memory if isinstance(memory, dict) else {}
        self._reading = Reading.from_json(stored.get("reading"))
        self._grouping = stored.get("grouping")

    def take_back(self, result: CheckResult) -> None:
        """A result could not be committed: its observations wait again, so nothing is lost while this process lives."""
        self._pending = folded((*result.observations, *self._pending))

    def take(self, page: Page, now: float) -> int:
        """Take a page's lines; returns how many there were. They are classified together, in `settle`."""
        self._waiting += page.lines
        lost = tuple(incomplete(self.host, loss, now) for loss in page.losses)
        if lost:
            self._pending = folded((*self._pending, *lost))
        if len(self._waiting) >= WAITING_LIMIT:
            self.settle(now)
        return len(page.lines)

    def settle(self, now: float) -> None:
        """Classify the lines that wait. Lines of one record belong in one call: a CmpltTO alone names no device."""
        if self._waiting:
            lines, self._waiting = self._waiting, []
            found, self._grouping = grouping.observations(self.host.name, lines, self._matcher, now, self._grouping)
            self._pending = folded((*self._pending, *found))

    def take_endings(self, crash: Iterable[str], now: float) -> None:
        """Tell, once, how the boots that have ended did so."""
        told = tuple(rebooted(self.host, ending, tuple(crash), now) for ending in self.reading.endings)
        self._pending = folded((*self._pending, *told))
        self.reading.forget_ended()

    def has_news(self, now: float) -> bool:
        """Whether observations wait to be committed."""
        self.settle(now)
        return bool(self._pending)

    def result(self, now: float, *conditions: Observation) -> CheckResult:
        """A result with the given conditions first, then all that waits, and the memory that belongs to it."""
        self.settle(now)
        occurrences, self._pending = self._pending, ()
        if self._reading is None or self._reading.current is None:
            return CheckResult((*conditions, *occurrences))
        memory = {"reading": self._reading.to_json(), "grouping": self._grouping}
        return CheckResult((*conditions, *occurrences), memory)
