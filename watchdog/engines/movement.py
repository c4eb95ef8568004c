"""Two scrapes of one engine: did it make tokens in between, and is anything there reason enough to ask at once?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchdog.engines.metrics import EngineSample
from watchdog.engines.table import BY_NAME


class Movement(StrEnum):
    """What the counters did between two scrapes while a request of ours was unanswered.

    `BUSY` tokens flow, or a prompt is being read; `FROZEN` requests, but not one token; `LOST` the engine counts no
    request although ours waits, whether it works for others or not; `RESET` it restarted; `PARTIAL` one replica stands
    still while another works; `UNKNOWN` nobody can tell.
    """

    BUSY = "busy"
    FROZEN = "frozen"
    LOST = "lost"
    RESET = "reset"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The movement, and the counter that shows it: name, value before and after. `stuck` names frozen replicas.

    Where only the latest step of the engine is known, `counter` is `STEPS`, and the values are 0 and, after another
    step, 1.

    `prefilling`: no token came, but a prompt is being read: KV use rises. `prefill_hidden`: this engine does not show
    that it reads a prompt, so what stands still may do that.
    """

    movement: Movement
    counter: str = ""
    before: float = 0.0
    after: float = 0.0
    stuck: tuple[str, ...] = ()
    prefilling: bool = False
    prefill_hidden: bool = False

    @property
    def moved(self) -> bool:
        """Whether the counter rose."""
        return self.after > self.before


_CANNOT_TELL = Change(movement=Movement.UNKNOWN)


def compare(before: EngineSample | None, after: EngineSample | None) -> Change:
    """What happened between two scrapes. Only live counters that stand still are evidence of a hang.

    A counter that fell, or a newer process start, is a restart and a new baseline, never a negative rate.
    """
    if before is None or after is None or before.engine != after.engine:
        return _CANNOT_TELL
    if _restarted(before, after):
        name = after.progress_from or ""
        return Change(movement=Movement.RESET, counter=name, before=before.progress or 0.0, after=after.progress or 0.0)
    if not before.shows_progress or not after.shows_progress:
        return _by_finished(before, after)
    moved = {replica for replica in after.live if _moved(before, after, replica)}
    moved |= {r for r, value in after.stepping.items() if before.stepping.get(r, value) != value}
    reading = {replica for replica in after.prefill if _reads_prompt(before, after, replica)}
    known = {*after.live, *after.stepping}
    still = [r for r in known if r not in moved | reading and _works(before, r) and _works(after, r)]
    stuck = tuple(sorted(still))
    name = _shown(before, after)
    values = _values(before, after, name)
    hidden = after.engine in BY_NAME and BY_NAME[after.engine].prefill_hidden
    if moved:
        movement = Movement.PARTIAL if stuck else Movement.BUSY
        if _counts_no_request(before) and _counts_no_request(after):
            movement = Movement.LOST  # it works for others; ours waits somewhere in front of it
        return Change(
            movement=movement,
            counter=name,
            before=values[0],
            after=values[1],
            stuck=stuck,
            prefill_hidden=hidden and bool(stuck),
        )
    if reading:
        return _prefilling(before, after, stuck)
    return Change(
        movement=_standing(before, after),
        counter=name,
        before=values[0],
        after=values[1],
        stuck=stuck,
        prefill_hidden=hidden,
    )


def _standing(before: EngineSample, after: EngineSample) -> Movement:
    if any(after.live[r].get(n, 0.0) < v for r, c in before.live.items() if r in after.live for n, v in c.items()):
        return Movement.UNKNOWN  # a gauge inside the sum fell: replies ended or were dropped, nothing is proven
    if (after.running or 0.0) + (after.waiting or 0.0) > 0:
        return Movement.FROZEN
    return Movement.LOST if after.running is not None else Movement.UNKNOWN


def _restarted(before: EngineSample, after: EngineSample) -> bool:
    if before.started_at is not None and after.started_at is not None and after.started_at > before.started_at + 1:
        return True
    return any(after.restart_proof.get(name, value) < value for name, value in before.restart_proof.items())


def _by_finished(before: EngineSample, after: EngineSample) -> Change:
    if any(_reads_prompt(before, after, replica) for replica in after.prefill):
        return _prefilling(before, after, ())
    for name, value in before.finished.items():
        if after.finished.get(name, value) > value:
            lost = _counts_no_request(before) and _counts_no_request(after)
            movement = Movement.LOST if lost else Movement.BUSY
            return Change(movement=movement, counter=name, before=value, after=after.finished[name])
    return _CANNOT_TELL


def _prefilling(before: EngineSample, after: EngineSample, stuck: tuple[str, ...]) -> Change:
    return Change(
        movement=Movement.PARTIAL if stuck else Movement.BUSY,
        counter="KV cache use",
        before=max(before.prefill.values()),
        after=max(after.prefill.values()),
        stuck=stuck,
        prefilling=True,
    )


def _reads_prompt(before: EngineSample, after: EngineSample, replica: str) -> bool:
    known = before.prefill.get(replica)
    return known is not None and after.prefill[replica] > known and _works(after, replica)


def _counts_no_request(sample: EngineSample) -> bool:
    return sample.running == 0 and sample.waiting == 0


def _moved(before: EngineSample, after: EngineSample, replica: str) -> bool:
    known = before.live.get(replica, {})
    return any(value > known.get(name, value) for name, value in after.live[replica].items())


def _works(sample: EngineSample, replica: str) -> bool:
    return _value(sample.running_by, replica) + _value(sample.waiting_by, replica) > 0


def _value(by_replica: Mapping[str, float], replica: str) -> float:
    return by_replica.get(replica, 0.0)


def _shown(before: EngineSample, after: EngineSample) -> str:
    names = [name for counters in after.live.values() for name in counters]
    changed = next((name for name in names if _total(after, name) != _total(before, name)), None)
    return changed or (STEPS if after.stepping else names[0])


STEPS = "the latest step"


def _values(before: EngineSample, after: EngineSample, name: str) -> tuple[float, float]:
    if name != STEPS:
        return _total(before, name), _total(after, name)
    return (0.0, 1.0) if before.stepping != after.stepping else (0.0, 0.0)


def _total(sample: EngineSample, name: str) -> float:
    return sum(counters.get(name, 0.0) for counters in sample.live.values())


class Suspicion(StrEnum):
    """Why a probe is sent before its time."""

    REFUSED = "refused"
    SILENT = "silent"
    FAILING = "failing"
    STANDS_STILL = "stands_still"


@dataclass(frozen=True, slots=True)
class Look:
    """One passive look: a sample of the engine, or how it failed. `is_open`: the port took the connection."""

    is_open: bool
    refused: bool = False
    status: int | None = None
    sample: EngineSample | None = None


_SILENT_LOOKS = 2


class Watch:
    """Joins looks at one server. After a suspicion it is quiet until a look is good again, or its process ends."""

    def __init__(self) -> None:
        self._before: EngineSample | None = None
        self._silent = 0
        self.suspected: Suspicion | None = None

    def look(self, seen: Look) -> Suspicion | None:
        """What `seen` makes us suspect for the first time; None for nothing new."""
        found = self._found(seen)
        self._before = seen.sample
        self._silent = 0 if seen.is_open or seen.refused else self._silent + 1
        if found is None:
            if seen.is_open and not self._silent:
                self.suspected = None
            return None
        ended = found is Suspicion.REFUSED and self.suspected is Suspicion.FAILING
        new, self.suspected = self.suspected is None or ended, found
        return found if new else None

    def _found(self, seen: Look) -> Suspicion | None:
        if seen.refused:
            return Suspicion.REFUSED
        if not seen.is_open:
            return Suspicion.SILENT if self._silent + 1 >= _SILENT_LOOKS else None
        if seen.status is not None and seen.status >= 500:
            return Suspicion.FAILING
        if seen.sample is not None and compare(self._before, seen.sample).movement in (
            Movement.FROZEN,
            Movement.PARTIAL,
        ):
            return Suspicion.STANDS_STILL
        return None
