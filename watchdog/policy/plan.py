"""The alert plan: which key has which thresholds, who is notified, and when a failing server is asked again.

How many failures open an incident never changes. What a failure proves decides how soon the next one is asked for: the
server's own words and a dead port are confirmed at once, a proven death with little patience; counters that stand
still, a queue, a long prompt and a model that loads keep the whole interval and the whole deadline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from watchdog.config import (
    AlertingSettings,
    Config,
    EscalateSettings,
    KernelLogSettings,
    ProbeSettings,
    ReceiverSettings,
    VitalsSettings,
)
from watchdog.kinds import BLIND, BUILT, DELIVERY, KINDS, is_own, row_of
from watchdog.model import Maintenance, Observation, Phase, Severity, Thresholds, TrackState, Verdict
from watchdog.policy.silences import maintenance_of
from watchdog.reasons import ServerReason

PROVEN_TIMEOUT_S = 15.0
"""A probe of what is proven dead waits no longer."""
FIRST_TIMEOUT_S = 20.0
"""Nor does the first one, where the proof was there before it."""
OWN_WORDS_CONFIRM_S = 10.0
"""Where the server itself says that its engine is dead, it is asked again after no longer than this."""
DOWN_S = "down_s"
"""The measurement of a failed probe that says for how long now a restart could explain what probes see."""


class PatienceReason(StrEnum):
    """Why the next probe comes when it comes."""

    OWN_WORDS = "own_words"
    PROVEN_DEAD = "proven_dead"
    CONFIRMING = "confirming"
    MUST_LAST = "must_last"
    LOADING = "loading"
    UNPROVEN = "unproven"
    REGULAR = "regular"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """One row of the table: how soon a failing server is probed again, and how long that probe may take.

    `words` say why. `soon`: after `confirm`, or `wait_s` if that is less; else at its regular time. `lasting`: not
    before `down_for` is over. `timeout_s` is the most that the next probe waits.
    """

    words: str
    soon: bool = False
    wait_s: float = math.inf
    lasting: bool = False
    timeout_s: float | None = None


PATIENCE: Mapping[PatienceReason, Patience] = {
    PatienceReason.OWN_WORDS: Patience(
        words="confirming the server's own words", soon=True, wait_s=OWN_WORDS_CONFIRM_S, timeout_s=PROVEN_TIMEOUT_S
    ),
    PatienceReason.PROVEN_DEAD: Patience(words="its death is proven", soon=True, timeout_s=PROVEN_TIMEOUT_S),
    PatienceReason.CONFIRMING: Patience(words="confirming", soon=True),
    PatienceReason.MUST_LAST: Patience(words="a restart would be over by then", soon=True, lasting=True),
    PatienceReason.LOADING: Patience(words="a model that loads has time"),
    PatienceReason.UNPROVEN: Patience(words="nothing proves that it is dead"),
    PatienceReason.REGULAR: Patience(words="at its regular time"),
}
"""What a failure proves, and the patience that it gets (docs/decisions, 10)."""


@dataclass(frozen=True, slots=True)
class NextProbe:
    """The next probe comes `wait_s` from now and ends after `timeout_s` at the latest.

    None: at its regular time; the usual deadline.
    """

    wait_s: float | None
    timeout_s: float | None
    why: PatienceReason


def strikes_by_evidence(
    limits: Thresholds, state: TrackState, seen: Observation, settings: ProbeSettings, *, proven: bool
) -> Thresholds:
    """`limits` for the failure `seen`: what may be confirmed soon counts soon, what a restart explains must last.

    So the daemon's own restarts make no outage of one either: each of them probes at once.
    """
    row = row_of(seen.key, seen.reason)
    confirms = row is not None and row.confirm
    if not settings.is_sooner or seen.verdict is not Verdict.FAIL or not (proven or confirms):
        return limits
    must_last = row is not None and row.must_last and not proven
    if must_last and state.fails + 1 >= limits.failures and _down_s(seen) < STRIKE_GAP * settings.down_for_s:
        return replace(limits, strike_gap_s=math.inf)
    return replace(limits, strike_gap_s=STRIKE_GAP * min(settings.confirm_s, OWN_WORDS_CONFIRM_S))


def _down_s(seen: Observation) -> float:
    """For how long the server has been failing in a way that a restart explains; unsaid, it holds nothing back."""
    return seen.measurements.get(DOWN_S, math.inf)


def next_probe(
    state: TrackState, seen: Observation, settings: ProbeSettings, *, proven: bool, now: float
) -> NextProbe | None:
    """When to probe again after the failure `seen`, which led to `state`; None where no failure waits for another.

    `proven`: its death is proven by more than one sign. `now` is when the failed probe ended, in Unix seconds. The
    probe that would open the incident waits until a crash has lasted for `down_for`: a restart is shorter.
    """
    if seen.verdict is not Verdict.FAIL or state.phase is not Phase.PENDING:
        return None
    left_s = seen.at - _down_s(seen) + settings.down_for_s - now
    why = _patience_of(state, seen, settings, proven=proven, left_s=left_s)
    patience = PATIENCE[why]
    wait_s = min(settings.confirm_s, patience.wait_s) if patience.soon else None
    if patience.lasting:
        wait_s = min(left_s, settings.interval_s)
    timeout_s = None if patience.timeout_s is None else min(patience.timeout_s, settings.timeout_s)
    return NextProbe(wait_s, timeout_s, why)


def _patience_of(
    state: TrackState, seen: Observation, settings: ProbeSettings, *, proven: bool, left_s: float
) -> PatienceReason:
    """The row of `PATIENCE` for the failure `seen`; `left_s` is what is left of `down_for`."""
    row = row_of(seen.key, seen.reason)
    if not settings.is_sooner or row is None:
        return PatienceReason.REGULAR
    if proven:
        own_words = row.confirm and not row.must_last
        return PatienceReason.OWN_WORDS if own_words else PatienceReason.PROVEN_DEAD
    if row.confirm:
        opens = state.fails + 1 >= settings.failures
        lasting = opens and row.must_last and left_s > settings.confirm_s
        return PatienceReason.MUST_LAST if lasting else PatienceReason.CONFIRMING
    if seen.reason == ServerReason.LOADING:
        return PatienceReason.LOADING
    unproven = row.unanswered or seen.reason in (ServerReason.BUSY, ServerReason.SLOW)
    return PatienceReason.UNPROVEN if unproven else PatienceReason.REGULAR


def page_within_s(settings: ProbeSettings) -> dict[str, float]:
    """How long after a fault its page comes at the latest, in seconds, by what is wrong with the server.

    `hang_proven`: requests run and one more sign says so; `hang`: nothing but counters does, or there are none.
    `loading` counts from when the server says first that it loads.
    """
    more = settings.failures - 1
    regular_s = settings.interval_s * settings.failures
    slow_s = regular_s + settings.timeout_s
    if not settings.is_sooner:
        return {"engine_error": regular_s, "crash": regular_s, "hang_proven": slow_s, "hang": slow_s}
    seen_s = min(settings.interval_s, settings.watch_s) if settings.is_watched else settings.interval_s
    proven_s = min(PROVEN_TIMEOUT_S, settings.timeout_s)
    # Counters stand still from one look to the next; without looks the first probe takes its whole time.
    first_s = seen_s + min(FIRST_TIMEOUT_S, settings.timeout_s) if settings.is_watched else settings.timeout_s
    return {
        "engine_error": min(seen_s + more * min(settings.confirm_s, OWN_WORDS_CONFIRM_S), regular_s),
        "crash": min(seen_s + max(more * settings.confirm_s, settings.down_for_s if more else 0.0), regular_s),
        "hang_proven": min(seen_s + first_s + more * (settings.confirm_s + proven_s), slow_s),
        "hang": slow_s,
        "loading": settings.loading_for_s + settings.interval_s,
    }


@dataclass(frozen=True, slots=True)
class Target:
    """One row of the plan: keys that are `prefix` or start with `prefix/` have these thresholds and receivers."""

    prefix: str
    thresholds: Thresholds
    receivers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPlan:
    """Who is notified of which key, and after how many failures. Built once per configuration.

    `runs_on` maps a server to its hosts. `maintenance` are the planned quiet windows.
    """

    targets: tuple[Target, ...] = ()
    receivers: tuple[ReceiverSettings, ...] = ()
    alerting: AlertingSettings = field(default_factory=AlertingSettings)
    runs_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    maintenance: tuple[Maintenance, ...] = ()
    probes: Mapping[str, ProbeSettings] = field(default_factory=dict)
    _by_prefix: Mapping[str, Target] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Index the targets: a thousand servers look themselves up at every probe."""
        object.__setattr__(self, "_by_prefix", {target.prefix: target for target in self.targets})

    @classmethod
    def from_config(cls, config: Config) -> AlertPlan:
        """The plan of `config`: one target per check that it asks for."""
        every = tuple(receiver.name for receiver in config.receivers)
        targets = []
        for kind in KINDS:
            for one in kind.targets(config):
                counts = kind.settings_of(one)
                limits = _thresholds(counts.failures, counts.successes, config.alerting, counts.interval_s)
                targets.append(Target(kind.key(one.name), limits, one.receivers or every))
        return cls(
            targets=tuple(targets),
            receivers=config.receivers,
            alerting=config.alerting,
            runs_on={server.name: server.hosts for server in config.servers},
            maintenance=tuple(maintenance_of(window) for window in config.maintenance),
            probes={server.name: server.probe for server in config.servers},
        )

    def target_of(self, key: str) -> Target | None:
        """The most specific target that covers `key`, or None. Blindness to a key goes to the receivers of that key."""
        key = BLIND.subject_of(key)
        prefix = key
        while prefix:
            target = self._by_prefix.get(prefix)
            if target is not None:
                return target
            prefix = prefix.rpartition("/")[0]
        return None

    def covers(self, key: str) -> bool:
        """Whether `key` is still watched: a target of the plan, or the watchdog itself."""
        key = BLIND.subject_of(key)
        if DELIVERY.has(key):
            name = DELIVERY.subject_of(key).partition("/")[0]
            return any(receiver.name == name for receiver in self.receivers)
        return is_own(key) or self.target_of(key) is not None

    def thresholds_for(self, key: str) -> Thresholds:
        """How `key` is tracked. Troubles of the watchdog itself count at once; blindness needs three in a row."""
        if BLIND.has(key):
            target = self.target_of(key)
            gap_s = target.thresholds.strike_gap_s if target else 0.0
            return Thresholds(failures=3, successes=1, flap_failures=0, strike_gap_s=gap_s)
        if is_own(key):
            quiet_s = self.alerting.occurrence_quiet_s
            return Thresholds(failures=1, successes=1, flap_failures=0, occurrence_quiet_s=quiet_s)
        target = self.target_of(key)
        return target.thresholds if target else _thresholds(3, 2, self.alerting)

    def receivers_for(self, check_key: str, labels: Mapping[str, str], severity: Severity) -> tuple[str, ...]:
        """The receivers that hear of `check_key` at `severity`. Every receiver, if no target says otherwise.

        Trouble with delivering to one receiver goes to the others.
        """
        target = self.target_of(check_key)
        named = target.receivers if target else tuple(receiver.name for receiver in self.receivers)
        deaf = labels.get("receiver") if DELIVERY.has(check_key) else None
        return tuple(
            receiver.name
            for receiver in self.receivers
            if receiver.name in named and receiver.name != deaf and receiver.min_severity.rank <= severity.rank
        )

    def escalation(self, receiver: str, severity: Severity) -> EscalateSettings | None:
        """How an unanswered incident of this severity is repeated to `receiver`; None: by ordinary reminders."""
        if severity is not Severity.PAGE:
            return None
        return next((one.escalate for one in self.receivers if one.name == receiver), None)


STRIKE_GAP = 0.75
"""Of the interval must lie between two strikes: the start of a run may be late, and then the next one comes closer."""


def _thresholds(failures: int, successes: int, alerting: AlertingSettings, interval_s: float = 0.0) -> Thresholds:
    return Thresholds(
        strike_gap_s=STRIKE_GAP * interval_s,
        failures=failures,
        successes=successes,
        flap_window=alerting.flap_window,
        flap_failures=alerting.flap_failures,
        occurrence_quiet_s=alerting.occurrence_quiet_s,
    )


# The effective plan: which checks run, how often, and who is notified from which severity. Pure.


@dataclass(frozen=True, slots=True)
class Listener:
    """One receiver of a check's incidents: it hears those of `min_severity` and above."""

    receiver: str
    min_severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCheck:
    """One check as it will run: its key, its times in seconds, its thresholds, and who listens."""

    key: str
    interval_s: float
    timeout_s: float
    failures: int
    successes: int
    listeners: tuple[Listener, ...]

    def hear(self, severity: Severity) -> tuple[str, ...]:
        """The receivers that hear an incident of this severity."""
        return tuple(one.receiver for one in self.listeners if severity.rank >= one.min_severity.rank)


def listeners(names: Iterable[str], receivers: Iterable[Listener]) -> tuple[Listener, ...]:
    """Who listens when a target names these receivers; no names mean every receiver."""
    wanted = set(names)
    return tuple(one for one in receivers if not wanted or one.receiver in wanted)


def plan(config: Config) -> tuple[PlannedCheck, ...]:
    """Every check of `config`: `generation/<server>`, then `kernel_log/<host>` and `vitals/<host>`, in file order."""
    everyone = tuple(_listener(receiver) for receiver in config.receivers)
    return tuple(
        _planned(kind.key(one.name), kind.settings_of(one), listeners(one.receivers, everyone))
        for kind in BUILT
        for one in kind.targets(config)
    )


def _listener(receiver: ReceiverSettings) -> Listener:
    return Listener(receiver.name, receiver.min_severity)


def _planned(
    key: str, settings: ProbeSettings | KernelLogSettings | VitalsSettings, heard_by: tuple[Listener, ...]
) -> PlannedCheck:
    return PlannedCheck(
        key=key,
        interval_s=settings.interval_s,
        timeout_s=settings.timeout_s,
        failures=settings.failures,
        successes=settings.successes,
        listeners=heard_by,
    )
