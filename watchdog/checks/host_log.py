"""One host's kernel log in this process: what is remembered of it, shared by the scan and the live stream.

Everything between "have lines" and "have a result" happens without an `await`, so neither reader can take a line the
other has taken. Observations wait in `_pending` until a result carries them; memory that covers a line never leaves
before or without the observations made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from watchdog.checks.journal_proof import JournalProof
from watchdog.config import HostSettings
from watchdog.journal.boot import BootEnd, Loss, Order, Page
from watchdog.journal.reading import HostReading
from watchdog.kernlog import grouping
from watchdog.kernlog.lines import KernelLine
from watchdog.kernlog.matcher import Matcher
from watchdog.kinds import FOLLOW, KERNEL_LOG, LOG_INCOMPLETE, ORDERED, REBOOTED, row_of
from watchdog.model import CheckResult, Evidence, Json, Nature, Observation, Severity, Verdict
from watchdog.reasons import HostReason
from watchdog.ssh import HostError
from watchdog.text import bounded_repr
from watchdog.vitals.black_box import BlackBox, last_seen_words, thinned

_log = structlog.get_logger(__name__)
_GONE = ("host_silent", "host_gone")
"""What the reasons of a host stand for that can no longer be asked anything."""

# What a reading becomes for a person: the condition "could I read it all", and the occurrences beside its lines.

EVIDENCE_LIMIT = 10


def reading_condition(
    host: HostSettings, trouble: HostError | None, now: float, duration_s: float, lines: int, how: str
) -> Observation:
    """The condition `kernel_log/<host>`: pass only if everything was read. `how` names the source that was read."""
    key, labels = KERNEL_LOG.key(host.name), {"host": host.name}
    if trouble is not None and trouble.jump:
        labels["jump"] = trouble.jump
    numbers = {"lines": float(lines), "duration_s": duration_s}
    if trouble is None:
        return Observation(
            key=key,
            verdict=Verdict.PASS,
            reason=HostReason.OK.value,
            severity=Severity.WARN,
            summary=f"kernel log read to its end, {lines} new line{'' if lines == 1 else 's'} ({how})",
            subject=host.name,
            at=now,
            duration_s=duration_s,
            labels=labels,
            measurements=numbers,
        )
    return Observation(
        key=key,
        verdict=Verdict.UNKNOWN if trouble.ours else Verdict.FAIL,
        reason=trouble.reason.value,
        severity=trouble.reason.row.severity,
        summary=trouble.summary,
        subject=host.name,
        at=now,
        duration_s=duration_s,
        evidence=(Evidence(now, host.name, trouble.summary),),
        labels=labels,
        measurements=numbers,
        advice=trouble.advice,
        look_only=trouble.look_only,
        answered=trouble.logged_in,
    )


def stream_condition(host: HostSettings, trouble: HostError | None, now: float) -> Observation:
    """The condition `follow/<host>`: does the live stream bring what the scan finds?"""
    key, labels = FOLLOW.key(host.name), {"host": host.name}
    if trouble is None:
        return Observation(
            key=key,
            verdict=Verdict.PASS,
            reason=HostReason.OK.value,
            severity=Severity.WARN,
            summary="the live kernel log keeps up with the scan",
            subject=host.name,
            at=now,
            labels=labels,
        )
    return Observation(
        key=key,
        verdict=Verdict.UNKNOWN if trouble.ours else Verdict.FAIL,
        reason=trouble.reason.value,
        severity=Severity.INFO if trouble.reason is HostReason.NO_JOURNAL else Severity.WARN,
        summary=f"no live kernel log: {trouble.summary}",
        subject=host.name,
        at=now,
        labels=labels,
        advice=trouble.advice
        or "The scan still reads every line, but the last seconds before a hard lock reach only a live stream.",
    )


def lost_lines(host: HostSettings, loss: Loss, now: float) -> Observation:
    """The occurrence `log.incomplete`: lines that nobody will ever read."""
    return Observation(
        key=KERNEL_LOG.key(host.name, LOG_INCOMPLETE.name, "-"),
        verdict=Verdict.FAIL,
        reason=LOG_INCOMPLETE.name,
        severity=Severity.WARN,
        summary="kernel log incomplete",
        subject=host.name,
        at=now,
        nature=Nature.OCCURRENCE,
        evidence=(Evidence(now, host.name, loss.text),),
        labels={"host": host.name, "kind": LOG_INCOMPLETE.name, "device": "-"},
        count=loss.count or 1,
        unit="lost line",
        at_least=loss.count is None,
        advice="What was lost may have held an error. Look at the machine's own `dmesg`, and at what floods its log.",
    )


def reboot(host: HostSettings, ending: BootEnd, crash: Sequence[str], now: float) -> Observation:
    """The occurrence `host.rebooted`, dated by the begin of the new boot: that it restarted, how the old one ended."""
    kept = any(line.startswith("file=") for line in crash)
    if ending.clean:
        how = ", after a clean shutdown"
    elif ending.firmware:
        how = ", and its firmware reports errors from the previous boot (BERT)"
    elif kept:
        how = ", without a shutdown; crash records were kept (pstore)"
    elif ending.gone:
        how = ", and how the previous boot ended is unknown (no journal of it is kept)"
    else:
        how = ", without a shutdown: its log stops mid-line, as after a hard lockup, a panic or a power cut"
    source = f"{host.name} kernel"  # shown as they are: two of them may differ in a device's address alone
    evidence = [Evidence(at, source, f"last lines: {text}") for at, text in ending.tail]
    evidence += [Evidence(None, host.name, text) for text in ending.firmware]
    if kept and not ending.clean:
        evidence += [Evidence(None, f"{host.name} pstore", line) for line in crash[-EVIDENCE_LIMIT:]]
    return Observation(
        key=KERNEL_LOG.key(host.name, REBOOTED.name, ending.next_boot),
        verdict=Verdict.FAIL,
        reason=REBOOTED.name,
        severity=Severity.INFO if ending.clean else Severity.WARN,
        summary="restarted",
        subject=host.name,
        detail=how,
        at=now if ending.restarted_at is None else min(now, ending.restarted_at),
        nature=Nature.OCCURRENCE,
        evidence=tuple(evidence),
        labels={"host": host.name, "kind": REBOOTED.name, "device": "-"},
        advice=""
        if ending.clean
        else "Read the last kernel lines: a PCIe, GPU or network error just before the end is the likely cause.",
    )


def ordered_end(host: HostSettings, order: Order, now: float) -> Observation:
    """The occurrence `host.shutdown`, dated by when it was announced."""
    summary = "was told to restart" if order.comes_back else "was told to shut down"
    return Observation(
        key=KERNEL_LOG.key(host.name, ORDERED.name, "-"),
        verdict=Verdict.FAIL,
        reason=ORDERED.name,
        severity=Severity.INFO,
        summary=summary,
        subject=host.name,
        at=min(now, order.at),
        nature=Nature.OCCURRENCE,
        evidence=(Evidence(min(now, order.at), f"{host.name} logind", summary),),
        labels={"host": host.name, "kind": ORDERED.name, "device": "-", "order": "".join(order_numbers(order))},
        measurements=order_numbers(order),
    )


def order_numbers(order: Order) -> dict[str, float]:
    """When the host was told to end, and whether to come back: `shutdown_at` or `restart_at`, Unix seconds."""
    return {"restart_at" if order.comes_back else "shutdown_at": order.at}


def merge_occurrences(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Occurrences of the same key as one: counts added, the graver words kept, evidence in order up to a limit."""
    by_key: dict[str, Observation] = {}
    for new in observations:
        old = by_key.get(new.key)
        if old is None:
            by_key[new.key] = new
            continue
        by_key[new.key] = _joined(old, new)
    return tuple(by_key.values())


def _joined(old: Observation, new: Observation) -> Observation:
    lead = new if new.severity.rank >= old.severity.rank else old
    count = old.count + new.count
    seen = {**new.measurements, **old.measurements}
    if "last_at" in new.measurements:
        seen["last_at"] = new.measurements["last_at"]
    return replace(
        lead,
        at=max(old.at, new.at),
        count=count,
        at_least=old.at_least or new.at_least,
        evidence=(old.evidence + new.evidence)[:EVIDENCE_LIMIT],
        measurements=seen,
    )


FAILURES_BEFORE_SKIP = 3
WAITING_LIMIT = 5000
"""Lines held at most before they are classified: a scan of one page is folded in one piece."""


def _not_classified(error: Exception) -> HostError:
    return HostError(
        HostReason.CONFIG,
        f"its kernel lines could not be classified ({type(error).__name__})",
        "The log has the traceback; `inference-watchdog doctor` says whether the rules can be loaded. Nothing is "
        "skipped: the same lines are read again.",
    )


@dataclass(slots=True)
class Stream:
    """The live stream as the scan sees it. `last_us`: when journald received the newest record it brought.

    `login_us`: when it received the newest of our logins that the stream brought. `brings_logins`: a scan's own login
    was seen to come over it, so one that does not come is a fault. `flood`: it cost too much since the last scan.
    `restart` asks it to catch up by pages and start over.
    """

    wanted: bool = False
    open: bool = False
    last_us: int = -1
    login_us: int = -1
    brings_logins: bool = False
    trouble: HostError | None = None
    flood: HostError | None = None
    restart: asyncio.Event = field(default_factory=asyncio.Event)


class HostLog:
    """Memory and pending observations of one host."""

    def __init__(self, host: HostSettings, matcher: Matcher) -> None:
        self.host = host
        self.stream = Stream()
        self.proof = JournalProof()
        self.box = BlackBox()
        self._matcher = matcher
        self._reading: HostReading | None = None
        self._grouping: Json | None = None
        self._waiting: list[KernelLine] = []
        self._pending: tuple[Observation, ...] = ()
        self._handed: Json | None = None
        self._owed: tuple[Observation, ...] = ()
        self._failures = 0

    @property
    def reading(self) -> HostReading:
        """The state of the reading; `recall` must have been called."""
        assert self._reading is not None  # noqa: S101 - both readers recall first
        return self._reading

    def recall(self, memory: Json | None) -> None:
        """Start from the stored `memory`, unless this process remembers more already."""
        if self._reading is not None:
            return
        self._handed = memory
        self._restore()

    def _restore(self) -> None:
        """Be where the newest result left off."""
        stored = self._handed if isinstance(self._handed, dict) else {}
        self._reading = HostReading.from_json(stored.get("reading"))
        self._grouping = stored.get("grouping")
        self.proof = JournalProof.from_json(stored.get("proof"))

    def take_back(self, result: CheckResult) -> None:
        """A result could not be committed: its observations wait again, so nothing is lost while this process lives."""
        self._pending = merge_occurrences((*result.observations, *self._pending))
        self._owed = merge_occurrences((*result.observations, *self._owed))

    def take(self, page: Page, now: float) -> int:
        """Take a page's lines; returns how many there were. They are classified together, in `settle`."""
        # A host may lie about its uptime: no line is from the future.
        self._waiting += [line if line.at is None or line.at <= now else replace(line, at=now) for line in page.lines]
        lost = tuple(lost_lines(self.host, loss, now) for loss in page.losses)
        if lost:
            self._pending = merge_occurrences((*self._pending, *lost))
        if page.order is not None:
            self._pending = merge_occurrences((*self._pending, ordered_end(self.host, page.order, now)))
        if len(self._waiting) >= WAITING_LIMIT:
            self.settle(now)
        return len(page.lines)

    def settle(self, now: float) -> None:
        """Classify the lines that wait. Lines of one record belong in one call: a CmpltTO alone names no device.

        Raises HostError when that fails. What is not classified is not read: the reading is then where the newest
        result left off, and the next one reads the same lines again. Lines that fail by themselves time after time
        are told as lost, or they would hide all that comes behind them.
        """
        if not self._waiting:
            return
        lines, self._waiting = self._waiting, []
        try:
            if self._failures >= FAILURES_BEFORE_SKIP:
                lines = self._without_unclassifiable(lines, now)
            found, self._grouping = grouping.observations(self.host.name, lines, self._matcher, now, self._grouping)
        except Exception as error:
            _log.exception("lines_not_classified", host=self.host.name, lines=len(lines))
            self._failures += 1
            self._restore()
            self._pending = self._owed
            self.stream.restart.set()
            raise _not_classified(error) from error
        self._failures = 0
        self._pending = merge_occurrences((*self._pending, *found))

    def _without_unclassifiable(self, lines: Sequence[KernelLine], now: float) -> list[KernelLine]:
        """`lines` without those that cannot be classified, which become an occurrence; raises when no line can be."""
        self._matcher.classify("")
        kept: list[KernelLine] = []
        for line in lines:
            try:
                self._matcher.classify(line.message)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is about this line
                words = f"a kernel line could not be classified ({type(error).__name__}): {bounded_repr(line.message)}"
                lost = lost_lines(self.host, Loss(line.boot or "", 1, words[:400]), now)
                self._pending = merge_occurrences((*self._pending, lost))
            else:
                kept.append(line)
        return kept

    def with_order(self, condition: Observation) -> Observation:
        """`condition`, saying where that is so that the host was told to end: its absence is no fault then."""
        order = self._reading.order if self._reading is not None else None
        if order is None:
            return condition
        return replace(condition, measurements={**condition.measurements, **order_numbers(order)})

    def with_last_seen(self, condition: Observation) -> Observation:
        """`condition`, with what was last seen of a host that is gone."""
        row = row_of(condition.key, condition.reason)
        is_gone = condition.verdict is Verdict.FAIL and row is not None and row.fact in _GONE
        return self._with_points(condition, condition.at) if is_gone else condition

    def _with_points(self, seen: Observation, until: float) -> Observation:
        points = self.box.points(until)
        if not points:
            return seen
        line = Evidence(points[-1].at, f"{self.host.name} vitals", f"last seen: {last_seen_words(points[-1])}")
        return replace(seen, evidence=(*seen.evidence, line), last_seen=thinned(points))

    def take_endings(self, crash: Iterable[str], now: float) -> None:
        """Tell, once, how the boots that have ended did so: after their last lines, which may be why."""
        self.settle(now)
        told = tuple(
            self._with_points(reboot(self.host, ending, tuple(crash), now), ending.restarted_at or now)
            for ending in self.reading.boot_ends
        )
        self._pending = merge_occurrences((*self._pending, *told))
        self.reading.forget_ended()

    def has_news(self, now: float) -> bool:
        """Whether there are observations that are not committed yet."""
        self.settle(now)
        return bool(self._pending)

    def result(self, now: float, *conditions: Observation) -> CheckResult:
        """A result with the given conditions first, then all that waits, and the memory that belongs to it."""
        self.settle(now)
        occurrences, self._pending, self._owed = self._pending, (), ()
        if self._reading is None or self._reading.current is None:
            return CheckResult((*conditions, *occurrences))
        memory = {"reading": self._reading.to_json(), "grouping": self._grouping, "proof": self.proof.to_json()}
        self._handed = memory
        return CheckResult((*conditions, *occurrences), memory)
