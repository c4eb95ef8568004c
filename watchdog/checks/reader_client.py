"""Asking the reader on a host: one function per request, each with a full answer or a named trouble, never silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from watchdog.clock import Clock
from watchdog.engines.ranks import Answer as RankAnswer
from watchdog.engines.ranks import RankRecord, read_ranks
from watchdog.journal import frame as frames
from watchdog.journal import records as journal_records
from watchdog.journal.frame import Hello, Transcript
from watchdog.journal.records import Record, RingRecord
from watchdog.reasons import HostReason
from watchdog.ssh import ANSWER_LIMIT_BYTES, Answer, HostError, ReaderError, Session
from watchdog.vitals import Vitals, read_vitals

PAGE_LINES = 4000
"""RecordCollector a page: small enough to hold, large enough that a page costs little more than its lines."""
SHORT_ANSWER_BYTES = 1 << 20
"""Answers other than a log are short: 400 boots or 400 lines of a crash at most."""

_CORRUPT = ("truncated", "corrupt", "unsupported", "bad message", "ignoring file", "failed to open")
_PERMISSION = ("insufficient permissions", "permission denied", "not permitted")


@dataclass(frozen=True, slots=True)
class Asked:
    """A complete answer: its transcript, and what was wrong with it all the same (None: nothing)."""

    transcript: Transcript
    trouble: HostError | None


async def ask(
    session: Session,
    request: str,
    take: Callable[[bytes], None],
    *,
    limit_bytes: int = ANSWER_LIMIT_BYTES,
    live: bool = False,
) -> Asked:
    """Ask `request`; every data line goes to `take`. Raises HostError when the answer is not complete.

    That is also when more than `limit_bytes` come, unless it is `live` and never ends.
    """
    frame = Transcript()

    def feed(chunk: bytes) -> None:
        for line in frame.feed(chunk):
            take(line)

    answer = await session.ask(request, feed, live=live, limit_bytes=1 << 62 if live else limit_bytes)
    answer = replace(answer, stderr=_after_login(answer.stderr))
    _require_frame(frame, answer, session.user)
    return Asked(frame, _doubt(frame, answer, session.user))


def _after_login(stderr: str) -> str:
    """What was complained of after the reader began; all of it where the reader did not say when that was."""
    before, mark, after = stderr.partition(frames.TAG.decode())
    return (after if mark else before).strip()


def _require_frame(frame: Transcript, answer: Answer, user: str) -> None:
    """Raise unless the header, a good trailer and a good exit status were all seen."""
    said = f": {answer.stderr.splitlines()[0][:200]}" if answer.stderr else ""
    if frame.trailer is not None and frame.trailer.rc != 0:
        raise _reader_error(frame.trailer.rc, frame.trailer.why, said, user)
    if answer.exit_status is None:
        raise ReaderError(HostReason.TRUNCATED, f"the connection broke in the middle of an answer{said}")
    if frame.header is None:
        printed = frame.noise.decode("utf-8", "replace").strip()[:200]
        heard = f'; the login printed "{printed}"' if printed else said
        raise ReaderError(
            HostReason.COMMAND_FAILED,
            f"the reader did not run (exit status {answer.exit_status}){heard}",
            "The account needs a real shell with `sh`, and start-up files that neither exit nor read input. With "
            "`forced_command: true` the reader must be installed for this key.",
        )
    if frame.trailer is None or answer.exit_status != 0:
        raise ReaderError(
            HostReason.TRUNCATED,
            f"the reader's answer is cut short (exit status {answer.exit_status}){said}",
            "It was killed, or disk or memory is full there. The next run continues from there.",
        )


_REFUSED = 64
_REFUSALS = {
    _REFUSED: (
        HostReason.CONFIG,
        "the reader on the host refused our request",
        (
            "This key is restricted to the installed reader: set `forced_command: true`. "
            "If it is set, install the reader of this version again."
        ),
    ),
    69: (HostReason.NO_JOURNAL, "the host has no journalctl", "Its kernel ring buffer is read instead."),
    75: (HostReason.GAP, "the kernel overwrote its ring buffer while it was read", "See `dmesg` there."),
    77: (
        HostReason.NO_PERMISSION,
        "this user may not read /dev/kmsg",
        "Where there is no journal: `sudo sysctl kernel.dmesg_restrict=0`, or log in as a user that may.",
    ),
}
"""Exit statuses of the reader (`die` in reader.sh; sysexits.h) and what they mean."""


def _reader_error(rc: int, why: str, said: str, user: str) -> HostError:
    """The reader's own word for what stopped it."""
    if rc in _REFUSALS:
        reason, summary, advice = _REFUSALS[rc]
        return ReaderError(reason, f"{summary} ({why})", advice, refused=rc == _REFUSED)
    if why == "journalctl-stuck":
        return ReaderError(
            HostReason.TIMEOUT,
            "an earlier journalctl on the host hangs in the kernel and cannot be ended; no second one is started",
            "Is its disk hanging? Look for processes in state D there.",
        )
    if why.endswith(("-124", "-137")):
        return ReaderError(HostReason.TIMEOUT, "journalctl on the host did not finish in time", "Is its disk hanging?")
    if any(word in said.lower() for word in _PERMISSION):
        return no_permission_error(user)
    return ReaderError(
        HostReason.COMMAND_FAILED, f"the reader failed on the host ({why}){said}", "Run journalctl there by hand."
    )


def no_permission_error(user: str) -> HostError:
    """The user may not read the system journal; journalctl itself says nothing about it and exits with 0."""
    return ReaderError(
        HostReason.NO_PERMISSION,
        f"user {user} may not read the kernel's lines in the journal",
        f"Run there: `sudo usermod -aG systemd-journal {user}`; it takes effect at the next login.",
    )


def _doubt(frame: Transcript, answer: Answer, user: str) -> HostError | None:
    """What makes a complete answer doubtful: anything on stderr, or a line that is too long to be a record."""
    text = answer.stderr.lower()
    if any(word in text for word in _PERMISSION):
        return no_permission_error(user)
    if any(word in text for word in _CORRUPT):
        return ReaderError(
            HostReason.CORRUPT,
            f"the journal is damaged: {answer.stderr.splitlines()[0][:200]}",
            "Run `sudo journalctl --verify` there and move the damaged file out of the way.",
        )
    if text:
        return ReaderError(
            HostReason.STDERR,
            f'the host complained: "{answer.stderr.splitlines()[0][:200]}"',
            "Something may be missing from what was read. Log in by hand and remove its cause.",
        )
    return damage_error(frame.overlong)


def damage_error(count: int) -> HostError | None:
    """Lines of an answer that are no records, if there are any."""
    if count == 0:
        return None
    return ReaderError(
        HostReason.CORRUPT,
        f"{count} lines of the answer could not be parsed",
        "Run `sudo journalctl --verify` there.",
    )


async def ask_hello(session: Session) -> Hello:
    """Who we are on the host and which boots it shows; its clock and its uptime as they are at the end of the answer.

    The host tells them first and may take long over the rest, which must not count as a clock that goes wrong.
    """
    lines: list[bytes] = []
    loop, heard = asyncio.get_running_loop(), list[float]()

    def take(line: bytes) -> None:
        if not heard:
            heard.append(loop.time())
        lines.append(line)

    asked = await ask(session, "read1 hello", take, limit_bytes=SHORT_ANSWER_BYTES)
    rest_s = loop.time() - heard[0] if heard else 0.0
    greeting = frames.parse_hello(asked.transcript.header or {}, lines)
    if greeting is None or len(greeting.boot) != 32:
        raise ReaderError(
            HostReason.CORRUPT, "the reader's greeting could not be parsed", "Install this version's reader."
        )
    if not greeting.listed:
        raise ReaderError(
            HostReason.TIMEOUT, "journalctl on the host could not list the boots within 30 s", "Is its disk hanging?"
        )
    if rest_s < 0.5:  # the host tells whole seconds
        return greeting
    return replace(greeting, now=greeting.now + rest_s, uptime_s=greeting.uptime_s + rest_s)


class RecordCollector:
    """Collects the records of one page as its lines come in; `most` is how many lines were asked for."""

    def __init__(self, most: int = PAGE_LINES) -> None:
        self._most = most
        self.records: list[Record] = []
        self.lines = 0
        self.bad = 0

    def take(self, line: bytes) -> None:
        """Take one data line; raises HostError when more come than were asked for: they would have to be held."""
        self.lines += 1
        if self.lines > self._most:
            raise ReaderError(
                HostReason.CORRUPT,
                f"the host sent more than the {self._most} lines that were asked for",
                "This does not come from the reader. Log in by hand and see what the login prints.",
            )
        record = journal_records.parse_journal(line)
        if record is None:
            self.bad += 1
        else:
            self.records.append(record)


async def ring(session: Session) -> tuple[list[RingRecord], HostError | None]:
    """The kernel's ring buffer. An overrun while reading is read again; what was lost shows in the numbers."""
    for _ in range(3):
        records: list[RingRecord] = []
        bad = 0

        def take(line: bytes, records: list[RingRecord] = records) -> None:
            nonlocal bad
            record = journal_records.parse_kmsg(line)
            if record is not None:
                records.append(record)
            elif not journal_records.is_continuation(line):
                bad += 1

        try:
            asked = await ask(session, "read1 kmsg", take)
        except HostError as error:
            if error.reason is not HostReason.GAP:
                raise
        else:
            return records, asked.trouble or damage_error(bad)
    raise ReaderError(
        HostReason.GAP, "the kernel overwrites its ring buffer faster than it can be read", "See `dmesg` there."
    )


async def crash_records(session: Session) -> tuple[str, ...]:
    """What the firmware kept of a crash, as text lines; empty if it kept nothing or we may not look."""
    lines: list[bytes] = []
    await ask(session, "read1 pstore", lines.append, limit_bytes=SHORT_ANSWER_BYTES)
    return tuple(line.decode("ascii", "replace") for line in lines)


async def ask_ranks(session: Session) -> RankRecord:
    """What NCCL's own service on the host says of the ranks there. A reader of before that request is no error."""
    lines: list[bytes] = []
    try:
        await ask(session, "read1 nccl", lines.append, limit_bytes=SHORT_ANSWER_BYTES)
    except ReaderError as error:
        if not error.refused:
            raise
        return RankRecord(answer=RankAnswer.OLDER)
    return read_ranks(lines)


# Asking a host for its vitals: the answer is over with its trailer, whatever hangs on behind it.

_GRACE_S = 0.2
"""After the trailer the connection may say so much longer that all is over; then it is left alone."""


@dataclass(frozen=True, slots=True)
class VitalsAnswer:
    """One answer, and how far the host's clock is ahead of ours in seconds (None: it does not tell the time)."""

    vitals: Vitals
    clock_offset_s: float | None


async def ask_vitals(session: Session, clock: Clock) -> VitalsAnswer:
    """Ask once; raises HostError when no complete answer comes.

    A hanging `nvidia-smi` keeps the far end of the channel open for ever, so its end is not waited for.
    """
    frame, lines, over = Transcript(), list[bytes](), asyncio.Event()
    heard: list[float] = []

    def feed(chunk: bytes) -> None:
        lines.extend(frame.feed(chunk))
        if frame.header is not None and not heard:
            heard.append(clock.wall())
        if frame.trailer is not None:
            over.set()

    asking = asyncio.create_task(session.ask("read1 vitals", feed, limit_bytes=SHORT_ANSWER_BYTES))
    waiting = asyncio.create_task(over.wait())
    try:
        await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            await asyncio.wait({asking}, timeout=_GRACE_S)
        if asking.done():
            asking.result()
    finally:
        waiting.cancel()
        asking.cancel()
        await asyncio.gather(waiting, asking, return_exceptions=True)
    vitals = read_vitals(frame.header or {}, lines) if frame.complete else None
    if vitals is None:
        why = frame.trailer.why if frame.trailer is not None else "no proper end"
        raise ReaderError(
            HostReason.COMMAND_FAILED, f"the reader gave no vitals ({why})", "Install this version's reader."
        )
    return VitalsAnswer(vitals, _offset(vitals.host_now, heard[0]))


def _offset(host_now: float | None, heard_at: float) -> float | None:
    """The host tells whole seconds, cut off: half a second is added, and less than a second is nothing."""
    if host_now is None:
        return None
    offset = host_now + 0.5 - heard_at
    return 0.0 if abs(offset) < 1.5 else round(offset, 1)
