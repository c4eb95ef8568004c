"""The live stream beside the scan: the last seconds before a hard lock never reach the disk, only a listener.

Measured (design §5.2): a machine that locks up loses the last 10 to 30 s of its journal, the very lines that say why.
The stream starts where everything before is proven read, brings lines as journald takes them, and never counts as
proof: the next scan passes over the same stretch.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from watchdog.checks import reader_client as requests
from watchdog.checks.host_log import HostLog
from watchdog.checks.kernel_pages import Found, read_pages
from watchdog.clock import Clock
from watchdog.config import HostSettings
from watchdog.journal import records as journal_records
from watchdog.journal.frame import Hello
from watchdog.model import CheckResult
from watchdog.reasons import HostReason
from watchdog.ssh import HostError, Session, reading
from watchdog.vitals.black_box import MARK

Commit = Callable[[CheckResult], Awaitable[object]]
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
GOOD_AFTER_S = 30.0
"""A stream that lived this long was good: the next attempt starts with the shortest wait again."""
CATCH_UP_S = 600.0
BATCH_S = 0.05
"""Lines of one record come within this time and are classified together."""
FLOOD_REST_S = 60.0
LONGEST_CUT = 1 << 20
"""No kernel line is longer; what is kept of one that vitals cut in two."""

logger = structlog.get_logger("follow")


async def follow(
    host: HostSettings,
    jump: HostSettings | None,
    log: HostLog,
    clock: Clock,
    commit: Commit,
    wakes: tuple[str, ...] = (),
) -> None:
    """Stream for ever, reconnecting with growing waits. Ends by cancellation or by an exception of `commit`.

    When a stream that was good ends, `wakes` run at once: a machine may have locked up, and its last lines wait for a
    second sign.
    """
    wait_s = FIRST_WAIT_S
    while True:
        started = clock.monotonic()
        try:
            async with reading(host, host.kernel_log.timeout_s, jump=jump) as session:
                await _stream(session, log, clock, commit)
            trouble = HostError(HostReason.RESET, "the stream ended")
        except HostError as error:
            trouble = error
        log.stream.open = False
        log.stream.trouble = trouble
        await _commit_news(log, clock, commit)
        if trouble.reason is HostReason.FLOOD:
            log.stream.flood, wait_s = trouble, FLOOD_REST_S
        elif clock.monotonic() - started >= GOOD_AFTER_S:
            wait_s = FIRST_WAIT_S
            if wakes:
                await commit(CheckResult((), run_now=wakes))
        logger.info("stream_ended", host=host.name, reason=trouble.reason.value, again_in_s=round(wait_s, 1))
        await clock.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads reconnects, protects nothing
        wait_s = min(LONGEST_WAIT_S, 2 * wait_s)


async def _commit_news(log: HostLog, clock: Clock, commit: Commit) -> None:
    """Hand over what waits, if anything does. Lines that mean nothing travel with the next result."""
    if not log.has_news(clock.wall()):
        return
    result = log.result(clock.wall())
    try:
        await commit(result)
    except BaseException:
        log.take_back(result)
        raise


async def _stream(session: Session, log: HostLog, clock: Clock, commit: Commit) -> None:
    """Catch up by pages and take live lines, again and again on one connection, until the stream ends."""

    allowance = Allowance(clock.monotonic)
    session.count(allowance.spend)

    async def commit_page() -> None:
        await _commit_news(log, clock, commit)
        await clock.sleep(min(allowance.rest_s, log.host.kernel_log.timeout_s / 2))

    again = True
    while again:
        session.proceed()
        hello = await requests.ask_hello(session)
        found = Found()
        until = clock.monotonic() + CATCH_UP_S
        await read_pages(session, log, hello, clock, found, until=until, after_page=commit_page)
        if not found.visible:
            raise _nothing_to_follow_error(log.host, hello)
        session.without_deadline()
        again = await _live(session, log, hello, clock, commit, allowance)


def _nothing_to_follow_error(host: HostSettings, hello: Hello) -> HostError:
    if hello.journalctl and not hello.may_read_journal:
        return requests.no_permission_error(host.user)
    return HostError(HostReason.NO_JOURNAL, "the journal shows nothing of the running boot that could be followed")


async def _live(
    session: Session, log: HostLog, hello: Hello, clock: Clock, commit: Commit, allowance: Allowance
) -> bool:
    """Take live lines until the stream ends (False), or until it has to catch up by pages (True).

    Raises HostError when it costs more than `allowance`.
    """
    news, stream = asyncio.Event(), log.stream
    lines = _Lines(log, clock, news)
    stream.restart.clear()
    stream.last_us = stream.login_us = -1
    stream.brings_logins = False
    request = f"read1 follow {hello.boot} {log.reading.cursor(hello.boot)}{' beat' if hello.takes_beats else ''}"
    if hello.takes_beats and hello.takes_pulse and log.host.vitals.stream:
        request += " vitals"
    asking = asyncio.create_task(requests.ask(session, request, lines.take, live=True))
    tasks = [
        asking,
        asyncio.create_task(_commit_as_they_come(log, clock, news, commit)),
        asyncio.create_task(stream.restart.wait()),
        asyncio.create_task(allowance.used_up.wait()),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if allowance.used_up.is_set():
            raise _flood_error()
        return asking not in done
    finally:
        stream.open = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _flood_error() -> HostError:
    return HostError(
        HostReason.FLOOD,
        f"it brought more than it may cost here, and rests for {FLOOD_REST_S:.0f} s",
        "The scans read on. See what floods its log: `journalctl -k -f` there.",
    )


class Allowance:
    """What one live stream may cost: so much at once, and given back at so much a second.

    10,000 kernel lines are 5 MB and took half a second where this was measured; a machine in trouble prints some
    hundred a second.
    """

    BYTES, BYTES_A_S = 64 << 20, 512 << 10
    CPU_S, CPU_SHARE = 6.0, 0.15

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """`monotonic` gives the seconds that give back what was used."""
        self._monotonic = monotonic
        self._since = monotonic()
        self._bytes = self._cpu_s = 0.0
        self.used_up = asyncio.Event()

    def spend(self, count: int, cpu_s: float) -> None:
        """Note that `count` bytes came, and took `cpu_s` seconds of this thread."""
        self._give_back()
        self._bytes += count
        self._cpu_s += cpu_s
        if self._bytes > self.BYTES or self._cpu_s > self.CPU_S:
            self.used_up.set()

    def _give_back(self) -> None:
        now = self._monotonic()
        past_s, self._since = now - self._since, now
        self._bytes = max(0.0, self._bytes - past_s * self.BYTES_A_S)
        self._cpu_s = max(0.0, self._cpu_s - past_s * self.CPU_SHARE)
        if self._bytes <= self.BYTES / 2 and self._cpu_s <= self.CPU_S / 2:
            self.used_up.clear()

    @property
    def rest_s(self) -> float:
        """After so many seconds half of it is free again: what reading old pages waits for, so as to be no flood."""
        self._give_back()
        over_bytes, over_cpu_s = self._bytes - self.BYTES / 2, self._cpu_s - self.CPU_S / 2
        return max(0.0, over_bytes / self.BYTES_A_S, over_cpu_s / self.CPU_SHARE)


async def _commit_as_they_come(log: HostLog, clock: Clock, news: asyncio.Event, commit: Commit) -> None:
    while True:
        await news.wait()
        await asyncio.sleep(BATCH_S)
        news.clear()
        await _commit_news(log, clock, commit)


class _Lines:
    """Takes the data lines of the live stream."""

    def __init__(self, log: HostLog, clock: Clock, news: asyncio.Event) -> None:
        self._log = log
        self._clock = clock
        self._news = news
        self._begun = self._cut = b""

    def take(self, line: bytes) -> None:
        """Take one line at once; it is classified and committed a moment later, with the lines of its record.

        A line of vitals may come in the middle of another one: it stands on a line of its own, and the rest of the
        other follows.
        """
        if line.startswith(MARK):
            self._log.box.take(line, self._clock.wall())
            self._cut, self._begun = self._begun, b""
            return
        record = journal_records.parse_journal(line)
        if record is None and self._cut:
            record, self._cut = journal_records.parse_journal(self._cut + line), b""
        self._begun = line[:LONGEST_CUT] if record is None and line.startswith(b"{") else b""
        stream = self._log.stream
        if record is None or stream.restart.is_set():
            return
        if record.kind is journal_records.RecordKind.LOGIN:
            stream.login_us = max(stream.login_us, record.received_us)
            return
        if not stream.open:
            stream.open, stream.trouble = True, None
        stream.last_us = max(stream.last_us, record.received_us)
        page = self._log.reading.live(record, self._clock.wall())
        if page.lines or page.losses or page.order:
            self._log.take(page, self._clock.wall())
            self._news.set()
        if self._log.reading.live_is_full:
            stream.restart.set()
