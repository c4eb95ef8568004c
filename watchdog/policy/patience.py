"""When the next probe of a failing server is sent, and how long it may take: three failures in a row, on evidence.

How many failures open an incident never changes. What a failure proves decides how soon the next one is asked for: the
server's own words and a dead port are confirmed at once, a proven death with little patience; counters that stand
still, a queue, a long prompt and a model that loads keep the whole interval and the whole deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.config import ProbeSettings
from watchdog.kinds import row_of
from watchdog.model import Observation, Phase, TrackState, Verdict

PROVEN_TIMEOUT_S = 15.0
"""A probe of what is proven dead waits no longer."""
OWN_WORDS_CONFIRM_S = 10.0
"""Where the server itself says that its engine is dead, it is asked again after no longer than this."""
FIRST_TIMEOUT_S = 20.0
"""Nor does the first one, where the proof was there before it."""


class PatienceReason(StrEnum):
    """Why the next probe comes when it comes."""

    CONFIRMING = "confirming"
    PROVEN_DEAD = "proven_dead"
    MUST_LAST = "must_last"


@dataclass(frozen=True, slots=True)
class NextProbe:
    """The next probe comes `wait_s` from now and ends after `timeout_s` at the latest; None: the usual deadline."""

    wait_s: float
    timeout_s: float | None
    why: PatienceReason


def next_probe(
    state: TrackState, seen: Observation, settings: ProbeSettings, *, proven: bool, now: float
) -> NextProbe | None:
    """When to probe again after the failure `seen`, which led to `state`; None: at the regular time.

    `proven`: its death is proven by more than one sign. `now` is when the failed probe ended, in Unix seconds. The
    probe that would open the incident waits until a crash has lasted for `down_for`: a restart is shorter.
    """
    if not settings.is_sooner or seen.verdict is not Verdict.FAIL or state.phase is not Phase.PENDING:
        return None
    row = row_of(seen.key, seen.reason)
    if proven:
        own_words = row is not None and row.confirm
        wait_s = min(settings.confirm_s, OWN_WORDS_CONFIRM_S) if own_words else settings.confirm_s
        return NextProbe(wait_s, min(PROVEN_TIMEOUT_S, settings.timeout_s), PatienceReason.PROVEN_DEAD)
    if row is None or not row.confirm:
        return None
    opens = state.fails + 1 >= settings.failures
    lasts_at = now if state.since is None else state.since + settings.down_for_s
    if opens and row.must_last and lasts_at - now > settings.confirm_s:
        return NextProbe(min(lasts_at - now, settings.interval_s), None, PatienceReason.MUST_LAST)
    return NextProbe(settings.confirm_s, None, PatienceReason.CONFIRMING)
