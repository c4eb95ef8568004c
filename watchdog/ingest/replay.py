"""Past observations through the real incidents: the same tracker, policy and message, no store and no clock."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, TypeVar

from watchdog.config import ProbeSettings, ReceiverSettings, Secret
from watchdog.errors import WatchdogError
from watchdog.ingest.incidents import Incidents
from watchdog.ingest.unit_of_work import UnitOfWork
from watchdog.kinds import GENERATION, KERNEL_LOG, kind_of, row_of
from watchdog.message.redaction import Redactor
from watchdog.model import (
    Evidence,
    Incident,
    Nature,
    NotificationKind,
    Observation,
    Phase,
    Severity,
    Thresholds,
    Verdict,
    split_statement,
)
from watchdog.policy import AlertPlan, NextProbe, Target

# A recording: observations as JSON lines, read for `replay`.

DAY_S = 86400.0
SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)
"""The day of times that have none."""
W = TypeVar("W", bound=StrEnum)


class RecordingError(WatchdogError):
    """A line that cannot be played; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Observations in time order; `has_dates` is False if the file has only times of day, then on some day in UTC."""

    observations: tuple[Observation, ...]
    has_dates: bool


def read_recording(lines: Iterable[str]) -> Recording:
    """One observation from each line that is not empty or a comment; raises RecordingError."""
    found: list[Observation] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found.append(_observation(json.loads(line), found[-1].at if found else SOME_DAY.timestamp()))
        except (ValueError, TypeError, RecursionError, OverflowError) as fault:
            raise RecordingError(f"line {number}: {_problem(fault)}") from None
    if not found:
        raise RecordingError(
            "this file has no observation; each is a line like "
            '{"at": "03:02:00", "check": "generation/deepseek", "verdict": "fail"}'
        )
    has_dates = [one.at >= SOME_DAY.timestamp() + 3650 * DAY_S for one in found]
    if any(has_dates) != all(has_dates):
        raise RecordingError("some lines have a date, others only a time of day; give all of them a date")
    return Recording(tuple(sorted(found, key=lambda seen: seen.at)), has_dates[0])


def _problem(fault: Exception) -> str:
    if isinstance(fault, json.JSONDecodeError):
        return f"invalid JSON: {fault.msg} at column {fault.colno}"
    return str(fault)


def _observation(raw: Any, before: float) -> Observation:
    if not isinstance(raw, dict):
        raise TypeError("expected one JSON object a line, like {…}")
    for name in ("at", "check", "verdict"):
        if name not in raw:
            raise ValueError(f"`{name}` is missing")
    key, verdict = _text(raw, "check"), _word(raw, "verdict", Verdict)
    passed = verdict is Verdict.PASS
    usual = "ok" if passed else "failed" if verdict is Verdict.FAIL else "unknown"
    reason = _text(raw, "reason", labels_of(key).get("kind", usual))
    nature = _word(raw, "nature", Nature) if "nature" in raw else _nature_of(key)
    at = _timestamp(raw["at"], before)
    labels = {str(name): str(value) for name, value in (raw.get("labels") or labels_of(key)).items()}
    subject, summary = split_statement(_text(raw, "summary", reason), labels.get("server") or labels.get("host") or "")
    return Observation(
        key=key,
        verdict=verdict,
        reason=reason,
        severity=_word(raw, "severity", Severity) if "severity" in raw else _severity_of(key, reason),
        summary=summary,
        at=at,
        duration_s=_number(raw, "duration_s", 0.0),
        nature=nature,
        evidence=tuple(_evidence(one) for one in raw.get("evidence") or ()),
        labels=labels,
        measurements=_measurements(raw.get("measurements") or {}),
        count=max(1, round(_number(raw, "count", 1.0))),
        advice=_text(raw, "advice", ""),
        subject=subject,
    )


def _text(raw: dict[str, Any], name: str, default: str | None = None) -> str:
    value = raw.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise TypeError(f"`{name}` must be text")
    return value


def _number(raw: dict[str, Any], name: str, default: float) -> float:
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"`{name}` must be a number")
    return float(value)


def _measurements(raw: Any) -> dict[str, float]:
    if not isinstance(raw, dict):
        raise TypeError("`measurements` must be an object of numbers")
    return {str(name): _number(raw, name, 0.0) for name in raw}


def _word(raw: dict[str, Any], name: str, kind: type[W]) -> W:
    try:
        return kind(raw[name])
    except ValueError:
        raise ValueError(f"`{name}` must be one of {', '.join(one.value for one in kind)}") from None


def _timestamp(value: Any, before: float) -> float:
    """Unix seconds of a written time. A time of day is on the day of the line before it, or on the next if earlier."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if not isinstance(value, str):
        raise TypeError("`at` must be a time")
    try:
        if "-" not in value.lstrip("-"):
            of_day = datetime.strptime(value, "%H:%M:%S" if value.count(":") == 2 else "%H:%M").replace(tzinfo=UTC)
            at = before - before % DAY_S + of_day.hour * 3600 + of_day.minute * 60 + of_day.second
            return at if at >= before else at + DAY_S
        return datetime.fromisoformat(value).astimezone().timestamp()
    except ValueError:
        raise ValueError("`at` must look like 1795000000, 2026-11-29T03:14:08+01:00 or 03:14:08") from None


def _severity_of(key: str, reason: str) -> Severity:
    """What a check would say of `reason`; what nobody knows pages."""
    row = row_of(key, reason) if GENERATION.has(key) else None
    return Severity.PAGE if row is None else row.severity


def _nature_of(key: str) -> Nature:
    """A key below a host's kernel log is something that happened there."""
    return Nature.OCCURRENCE if KERNEL_LOG.has(key) and key.count("/") >= 2 else Nature.CONDITION


def labels_of(key: str) -> dict[str, str]:
    """The labels that a check would give, as far as its key says them."""
    kind, (_, *rest) = kind_of(key), key.split("/", 3)
    labels: dict[str, str] = {kind.label: rest[0]} if kind is not None and rest else {}
    if kind is not None and kind.has_occurrences:
        labels |= dict(zip(("kind", "device"), rest[1:], strict=False))
    return labels


def _evidence(raw: Any) -> Evidence:
    if not isinstance(raw, dict):
        raise TypeError("`evidence` must be a list of objects with `at`, `source` and `text`")
    at = raw.get("at")
    return Evidence(None if at is None else _number(raw, "at", 0.0), _text(raw, "source", "?"), _text(raw, "text", ""))


TICK_S = 60.0
"""How closely time is followed while something is open: reminders and quiet occurrences come to the minute."""
MOST_TICKS = 60 * 24 * 400


@dataclass(frozen=True, slots=True)
class Played:
    """One message that would have been sent. `when` is its time as a person reads it."""

    at: float
    when: str
    receiver: str
    kind: NotificationKind
    severity: Severity
    incident_id: str
    key: str
    title: str
    body: str


def default_plan(recording: Recording) -> AlertPlan:
    """Default thresholds for everything in `recording`, and one receiver that is notified from `warn` up."""
    prefixes = dict.fromkeys("/".join(seen.key.split("/")[:2]) for seen in recording.observations)
    return AlertPlan(
        targets=tuple(Target(prefix, Thresholds(), ("you",)) for prefix in prefixes),
        receivers=(ReceiverSettings(name="you", url=Secret("")),),
        probes={GENERATION.target_of(prefix): ProbeSettings() for prefix in prefixes if GENERATION.has(prefix)},
    )


def with_thresholds(plan: AlertPlan, failures: int | None, successes: int | None) -> AlertPlan:
    """`plan` with other thresholds for every target, where given."""

    def changed(old: Thresholds) -> Thresholds:
        return replace(old, failures=failures or old.failures, successes=successes or old.successes)

    return replace(plan, targets=tuple(replace(one, thresholds=changed(one.thresholds)) for one in plan.targets))


class Replay:
    """Play observations in time order; each call returns what would have been sent until then."""

    def __init__(self, plan: AlertPlan, *, has_dates: bool = True, zone: tzinfo | None = None) -> None:
        """By `plan`; times are shown in `zone` (None: the machine's), without their date if the recording has none."""
        self._plan = plan
        self._has_dates = has_dates
        self._zone = zone if has_dates else UTC
        self._incidents = Incidents(plan, redactor=Redactor(()), zone=self._zone, depth=lambda _receiver: 0)
        self._now: float | None = None
        self._keys: dict[str, str] = {}
        self.message_count = 0
        """How many messages there were so far."""

    def play(self, seen: Observation) -> tuple[Played, ...]:
        """Let time pass to `seen`, then take it in."""
        began = self._now if self._now is not None else seen.at
        passed = self._pass(began, seen.at)
        self._now = max(seen.at, began)
        work = UnitOfWork()
        self._incidents.observe((seen,), self._now, work)
        for _, error in work.untaken:
            raise error
        return (*passed, *self._played(work, self._now))

    def next_probe(self, seen: Observation) -> NextProbe | None:
        """When the server of the failure `seen` would be probed again, and why; None for what is no such failure."""
        server = GENERATION.target_of(seen.key)
        if not server or self._now is None:
            return None
        settings = self._plan.probes.get(server, ProbeSettings())
        return self._incidents.next_probe(server, settings, self._now + seen.duration_s)

    def pass_time(self, seconds: float) -> tuple[Played, ...]:
        if self._now is None or seconds <= 0:
            return ()
        until = self._now + seconds
        passed = self._pass(self._now, until)
        self._now = until
        return passed

    def _pass(self, since: float, until: float) -> tuple[Played, ...]:
        sent: list[Played] = []
        at = since
        for _ in range(MOST_TICKS):
            at = min(at + TICK_S, until)
            if at >= until or not self._incidents.open:
                break
            work = UnitOfWork()
            self._incidents.age(at, work)
            sent += self._played(work, at)
        return tuple(sent)

    def _played(self, work: UnitOfWork, at: float) -> tuple[Played, ...]:
        self._keys |= {incident.id: incident.key for incident in work.incidents.values()}
        played = tuple(
            Played(
                at,
                self.when(at),
                message.notification.receiver,
                message.notification.kind,
                message.notification.severity,
                message.notification.incident_id,
                self._keys.get(message.notification.incident_id, ""),
                message.text.title,
                message.text.body,
            )
            for message in work.messages
        )
        self.message_count += len(played)
        return played

    @property
    def still_open(self) -> tuple[Incident, ...]:
        """Incidents that are open at the end, oldest first."""
        return tuple(sorted(self._incidents.open.values(), key=lambda one: one.since))

    @property
    def pending(self) -> tuple[tuple[str, int, int], ...]:
        """Keys with strikes that have not alerted: key, failures in a row, failures needed."""
        return tuple(
            (key, state.fails, self._plan.thresholds_for(key).failures)
            for key, state in self._incidents.tracks.items()
            if state.phase is Phase.PENDING
        )

    def when(self, at: float) -> str:
        """`03:14:08`, with the date in front where the file had dates."""
        local = datetime.fromtimestamp(at, UTC).astimezone(self._zone)
        return f"{local:%Y-%m-%d %H:%M:%S}" if self._has_dates else f"{local:%H:%M:%S}"
