"""Reading page after page until a host's kernel log is read to its end, for the scan and for the stream's start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from watchdog.checks import reader_client as requests
from watchdog.checks.host_log import HostLog
from watchdog.clock import Clock
from watchdog.journal.boot import Page
from watchdog.journal.frame import Hello
from watchdog.reasons import HostReason
from watchdog.ssh import HostError, Session


@dataclass(slots=True)
class Found:
    """What a whole reading came to. `visible` counts records shown of the running boot, known ones included;
    `last_us` is when journald took the last new line there, -1 without any. `skipped`: the open live stream had
    already gone past a line that was new to this reading. `stale`: the journal is not being written. `login_us`: when
    our login began, in microseconds since the host started; -1 if not known.
    """

    lines: int = 0
    visible: int = 0
    kernel_visible: bool = False
    last_us: int = -1
    skipped: bool = False
    how: str = "journal"
    trouble: HostError | None = None
    stale: HostError | None = None
    login_us: int = -1

    def add(self, page: Page, lines: int, *, current: bool) -> None:
        """Count one page in; a loss in it is a trouble of its own."""
        self.lines += lines
        if page.losses:
            self.note(HostError(HostReason.GAP, f"kernel lines are missing: {page.losses[0].text}"))
        if page.unreadable:
            self.note(requests.damage_error(page.unreadable))
        if current:
            self.visible += page.visible
            self.last_us = max(self.last_us, page.last_us)

    def note(self, trouble: HostError | None) -> None:
        """Keep the first trouble."""
        self.trouble = self.trouble or trouble


After = Callable[[], Awaitable[None]]


async def read_pages(
    session: Session,
    log: HostLog,
    hello: Hello,
    clock: Clock,
    found: Found,
    *,
    until: float,
    after_page: After | None = None,
) -> None:
    """Read every boot that is not read to its end, the ended ones first, and tell how those ended.

    `until` is when to stop, in monotonic seconds. `after_page` runs after each page is taken. Raises HostError; what
    had come by then is taken all the same.
    """
    boots = log.reading.begin(hello, clock.wall())
    if not boots:
        raise HostError(
            HostReason.RESTARTED, "the host restarted while it was read", "The next run continues.", ours=True
        )
    reader = _Pages(session, log, clock, found, until, after_page)
    if hello.journalctl:
        # Who may see nothing must not take an empty page for the end of a boot that is over.
        ended = boots[:-1] if hello.may_read_journal else ()
        for boot in (*ended, hello.boot):
            await reader.read(boot)
        found.kernel_visible = log.reading.boots[hello.boot].kernel_lines > 0
        for boot in boots[len(ended) : -1] if found.visible else ():
            await reader.read(boot)
    else:
        for boot in boots:
            log.reading.give_up(boot)
    if log.reading.boot_ends:
        crash: tuple[str, ...] = ()
        with suppress(HostError):  # a second witness; its absence hides no line
            crash = await requests.crash_records(session)
        log.take_endings(crash, clock.wall())
        if after_page is not None:
            await after_page()


@dataclass(slots=True)
class _Pages:
    """Reads the pages of one boot after another."""

    session: Session
    log: HostLog
    clock: Clock
    found: Found
    until: float
    after_page: After | None

    async def read(self, boot: str) -> None:
        more = True
        while more:
            asked = self.log.reading.cursor(boot)
            page = requests.RecordCollector()
            request = f"read1 journal {boot} {asked} {requests.PAGE_LINES}"
            try:
                answer = await requests.ask(self.session, request, page.take)
            except BaseException:
                if page.records:  # whole lines that did arrive may be the last words of a dying machine
                    self._take(boot, asked, page, more=True)
                raise
            more = page.lines >= requests.PAGE_LINES
            stale = self._take(boot, asked, page, more=more)
            more = more or stale  # the other reader was quicker: go on from where it is
            self.found.note(answer.trouble or requests.damage_error(page.bad))
            if self.after_page is not None:
                await self.after_page()
            if more:
                self._go_on()

    def _take(self, boot: str, asked: str, page: requests.RecordCollector, *, more: bool) -> bool:
        taken = self.log.reading.page(boot, asked, page.records, more=more)
        current, stream = boot == self.log.reading.current, self.log.stream
        if current and stream.open and 0 <= taken.first_us < stream.last_us:
            self.found.skipped = True
        self.found.add(taken, self.log.take(taken, self.clock.wall()), current=current)
        return taken.stale and current

    def _go_on(self) -> None:
        self.session.proceed()
        if self.clock.monotonic() > self.until:
            raise HostError(
                HostReason.BEHIND,
                f"{self.found.lines} lines read and more to come: the kernel logs faster than it can be read",
                "See what floods its log. The next run continues from here.",
            )


async def read_ring(session: Session, log: HostLog, hello: Hello, clock: Clock, found: Found) -> None:
    """Read the kernel's ring buffer where the journal shows nothing."""
    records, trouble = await requests.ring(session)
    taken = log.reading.ring(hello.boot, records)
    found.add(taken, log.take(taken, clock.wall()), current=False)
    found.note(trouble)
    found.how = "ring buffer /dev/kmsg, no journal"
    if not records:
        raise HostError(
            HostReason.EMPTY_BOOT, "neither the journal nor /dev/kmsg shows a kernel line", "See `dmesg` there."
        )
