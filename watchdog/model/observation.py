"""What checks see: verdicts, evidence, observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

Json = Any
"""A JSON value: what survives `json.loads(json.dumps(value))` unchanged."""


class Verdict(StrEnum):
    """What one run of a check means. `UNKNOWN` (we could not tell) never moves a target's counters."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    INFO = "info"
    WARN = "warn"
    PAGE = "page"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warn, 2 for page: compare severities by this, never by their text."""
        return ("info", "warn", "page").index(self.value)


class Nature(StrEnum):
    """`CONDITION` has an opposite and resolves; `OCCURRENCE` happened, folds repeats, and goes quiet."""

    CONDITION = "condition"
    OCCURRENCE = "occurrence"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact behind a verdict: when (None = over the whole run), who said it, and what."""

    at: float | None
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class LastSeen:
    """A host at one moment, as its live stream told (Unix seconds, our clock); of its GPUs the hottest. None = unknown.

    `pressure` and `gpu_util` in percent.
    """

    at: float
    available_bytes: float | None = None
    pressure: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    clock_mhz: float | None = None
    gpu_util: float | None = None
    gpu_hangs: bool = False


def phrase_of(summary: str, count: int, unit: str, detail: str, *, at_least: bool) -> str:
    """`summary`, how many `unit` were counted where that says something, then `detail`."""
    if not unit or (count == 1 and not at_least):
        return summary + detail
    return f"{summary}, {'at least ' if at_least else ''}{count} {unit}{'' if count == 1 else 's'}{detail}"


def statement_of(subject: str, phrase: str) -> str:
    """`phrase` with its subject in front, if it has one: `worker: kernel log read to its end`."""
    return f"{subject}: {phrase}" if subject else phrase


def split_statement(text: str, subject: str) -> tuple[str, str]:
    """Subject and phrase of a recorded `text` that may begin with `subject`; the subject is "" if it does not."""
    start = f"{subject}: "
    return (subject, text[len(start) :]) if subject and text.startswith(start) else ("", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One dated fact from one run of a check.

    `key` is the stable identity of what is observed, `kind/target[/subject…]`, for example `generation/deepseek`
    or `kernel_log/worker/pcie.aer.fatal/0000:01:00.0`. `severity` is what an incident opened by it would have.
    `labels` names what it concerns (`server`, `host`, `kind`, `device`), for routing and silences.
    `count` is how many occurrences it folds; 1 for a condition.

    `summary` says what was seen without naming whom it is about: that is `subject`, where a person needs it said.
    `unit` is what `count` counts, in the singular ("line"), "" where the count says nothing; with `at_least` it is a
    lower bound. `detail` goes on after summary and count and begins with its own punctuation. `look_only`: the advice
    says no more than where to look. `answered`: what is observed did answer before the check failed, so it is up.
    `last_seen` are the last ten minutes of a host that is gone, oldest first.
    """

    key: str
    verdict: Verdict
    reason: str
    severity: Severity
    summary: str
    at: float
    duration_s: float = 0.0
    nature: Nature = Nature.CONDITION
    evidence: tuple[Evidence, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    measurements: Mapping[str, float] = field(default_factory=dict)
    count: int = 1
    advice: str = ""
    subject: str = ""
    unit: str = ""
    at_least: bool = False
    detail: str = ""
    look_only: bool = False
    answered: bool = False
    last_seen: tuple[LastSeen, ...] = ()

    @property
    def phrase(self) -> str:
        """All that it says, without its subject."""
        return phrase_of(self.summary, self.count, self.unit, self.detail, at_least=self.at_least)

    @property
    def statement(self) -> str:
        """All that it says, as a person reads it on its own."""
        return statement_of(self.subject, self.phrase)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one run of a check gives: observations, and what the check wants to remember.

    `memory` replaces the check's stored memory in the same transaction as the observations' consequences, so a
    cursor never moves past a line whose alert was not queued (design §2, invariants 3 and 4). None keeps the old.
    With `forgettable` it only holds what can be found out again, so that nothing needs to wait until it is written.
    `run_now` names checks that should run before their time; `again_in_s` is when this one wants to run again, if that
    is before its time.
    """

    observations: tuple[Observation, ...]
    memory: Json | None = None
    forgettable: bool = False
    run_now: tuple[str, ...] = ()
    again_in_s: float | None = None


class Check(Protocol):
    """Something that looks at a target. It never alerts; it only observes."""

    @property
    def key(self) -> str:
        """The key of its main observation."""
        ...

    @property
    def interval_s(self) -> float:
        """Seconds from one start to the next."""
        ...

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        """Look once. `memory` is what the last committed run remembered, `now` the wall time in Unix seconds."""
        ...


class CheckProgress(Protocol):
    """How far the running checks have come. Monotonic seconds, by check key."""

    @property
    def last_completed_at(self) -> Mapping[str, float]:
        """When each check last completed a run; a check without one is missing."""
        ...

    def unfinished(self) -> tuple[str, ...]:
        """Keys of the checks that have not completed a run yet."""
        ...

    def overdue(self, now: float) -> tuple[str, ...]:
        """Keys of the checks whose run should have ended long ago."""
        ...
