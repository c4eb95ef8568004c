"""A month of history in a state directory, written through the real store: for pages, reports and their timing."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from watchdog.checks.generation_report import ProbeOutcome, slow_observation
from watchdog.completion.verdict import Judgement
from watchdog.config import ServerSettings
from watchdog.engines.movement import Change, Movement
from watchdog.engines.slowness import Slowness
from watchdog.model import (
    Cause,
    Evidence,
    Incident,
    IncidentStatus,
    Nature,
    Notification,
    NotificationKind,
    Observation,
    Outcome,
    OutcomeReason,
    Severity,
    Silence,
    StepReason,
    Text,
    Thresholds,
    TrackState,
    Verdict,
)
from watchdog.reasons import ServerReason
from watchdog.store import PLAN, Commit, Queued, Requests, Store
from watchdog.tracker import step

DAY_S = 86400.0
PROBE_S, SCAN_S = 120.0, 600.0
SERVER, HOSTS = "deepseek", ("head", "worker")
AER = (
    "pcieport 0000:00:03.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
    "mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)",
    "mlx5_core 0000:01:00.0:    [14] CmpltTO                (First)",
)


def probe_at(at: float, chance: random.Random, *, failed: bool, slow: float = 1.0) -> Observation:
    """One generation probe; speeds follow the time of day a little."""
    labels = {"server": SERVER}
    if failed:
        summary = "no token within 60 s; hung: 1 running, 0 waiting, generation_tokens_total stood still"
        return Observation(
            key=f"generation/{SERVER}", verdict=Verdict.FAIL, reason="no_token", severity=Severity.PAGE,
            summary=summary, at=at, duration_s=60.0, labels=labels, measurements={"duration_s": 60.0, "resent": 0.0},
        )  # fmt: skip
    busy = 1.0 + 0.6 * (8 < (at / 3600) % 24 < 19)
    ttft = slow * busy * 0.31 * chance.lognormvariate(0, 0.25) * (4 if chance.random() < 0.01 else 1)
    speed = 38 / busy / slow * chance.lognormvariate(0, 0.06)
    numbers = {"ttft_s": ttft, "duration_s": ttft + 4 / speed, "tokens_per_s": speed, "resent": 0.0}
    numbers["completion_tokens"] = 5.0
    return Observation(
        key=f"generation/{SERVER}", verdict=Verdict.PASS, reason="ok", severity=Severity.PAGE,
        summary=f"text after {ttft:.2f} s", at=at, duration_s=ttft + 4 / speed, labels=labels, measurements=numbers,
    )  # fmt: skip


def slowness_at(at: float, factor: float) -> Observation:
    """What `slow/deepseek` says of a server of unknown queue that takes `factor` times as long as usual."""
    found = Slowness(measure="ttft_s", factor=factor, now_value=0.4 * factor, usual_value=0.4)
    passed = Judgement(reason=ServerReason.OK, alive=True)
    outcome = ProbeOutcome(
        judgement=passed, attempts=(passed,), resent=0, model="m", change=Change(movement=Movement.UNKNOWN),
        before=None, after=None, trouble="", window_s=0.0, timeout_s=60.0, duration_s=0.5, at=at, slowness=found,
    )  # fmt: skip
    seen = slow_observation(ServerSettings(name=SERVER, base_url="http://192.0.2.10:8000/v1"), outcome)
    assert seen is not None
    return seen


def scan_at(host: str, at: float, lines: int) -> Observation:
    """One complete reading of a host's kernel log."""
    return Observation(
        key=f"kernel_log/{host}", verdict=Verdict.PASS, reason="ok", severity=Severity.WARN,
        subject=host, summary=f"kernel log read to its end, {lines} new lines (journal)", at=at, duration_s=0.4,
        labels={"host": host}, measurements={"lines": float(lines), "duration_s": 0.4},
    )  # fmt: skip


def finding(number: int, host: str, at: float, *, fatal: bool, ended_at: float | None) -> Incident:
    """A kernel finding as an incident."""
    kind, severity = ("pcie.aer.fatal", Severity.PAGE) if fatal else ("pcie.aer.corrected", Severity.WARN)
    lines = AER if fatal else ("pcieport 0000:00:03.0: AER: Correctable error message received from 0000:01:00.0",)
    return Incident(
        id=f"{number:08x}", key=f"kernel_log/{host}/{kind}/0000:01:00.0", nature=Nature.OCCURRENCE,
        cause=Cause.OCCURRENCE, severity=severity, opened_severity=severity, reason=kind,
        subject=host, unit="line", summary=f"{'Fatal' if fatal else 'Corrected'} PCIe error (0000:01:00.0)",
        since=at, opened_at=at, last_at=at, closed_at=ended_at, count=len(lines),
        status=IncidentStatus.FIRING if ended_at is None else IncidentStatus.EXPIRED,
        end_reason=None if ended_at is None else StepReason.WENT_QUIET,
        evidence=tuple(Evidence(at + 0.01 * place, f"{host} kernel", line) for place, line in enumerate(lines)),
        advice="On real machines this came minutes before a hard lock. Check the riser, the cable and the firmware."
        if fatal else "", labels={"host": host, "kind": kind, "device": "0000:01:00.0"},
    )  # fmt: skip


def outage(number: int, began_at: float, ended_at: float | None) -> Incident:
    """An outage of the server as an incident."""
    strikes = tuple(
        Evidence(began_at + place * PROBE_S, "no_token", f"{SERVER}: no token within 60 s") for place in range(3)
    )
    return Incident(
        id=f"{number:08x}", key=f"generation/{SERVER}", nature=Nature.CONDITION, cause=Cause.STRIKES,
        severity=Severity.PAGE, opened_severity=Severity.PAGE, reason="no_token",
        subject=SERVER, summary="no token within 60 s; hung: 1 running, 0 waiting, generation_tokens_total stood still",
        since=began_at, opened_at=began_at + 2 * PROBE_S, last_at=ended_at or began_at + 2 * PROBE_S,
        closed_at=ended_at, last_good_at=began_at - PROBE_S, count=3,
        status=IncidentStatus.FIRING if ended_at is None else IncidentStatus.RESOLVED,
        end_reason=None if ended_at is None else StepReason.RECOVERED, evidence=strikes,
        advice="The engine accepts requests and generates nothing. Look at the GPU: full load at idle power is a hang.",
        labels={"server": SERVER},
    )  # fmt: skip


def outages(days: int, now: float, chance: random.Random) -> list[tuple[float, float]]:
    """Begin and end of some outages, well apart, none near the end."""
    begins = [now - (day + chance.uniform(0.2, 0.8)) * DAY_S for day in range(2, days, 6)]
    return sorted((begin, begin + chance.uniform(480, 5400)) for begin in begins)


async def write_month(
    state_dir: Path, now: float, *, days: int = 30, firing: bool = False, slow_now: float = 1.0, extra: int = 0
) -> None:
    """`days` of one server and two hosts up to `now`; `firing`: an outage and a fatal finding are open.

    `slow_now` multiplies the times of the last hour; `extra` adds so many corrected findings over the time.
    """
    chance = random.Random(7)
    store = Store.open(state_dir, now, linger_s=0.0)
    broken = outages(days, now, chance)
    if firing:
        broken.append((now - 11 * 60, now + 1))
    seen = list(_seen(now, days, broken, slow_now, chance))
    for start in range(0, len(seen), 2000):
        await store.commit(Commit(observations=tuple(seen[start : start + 2000])))
    found = [outage(number, begin, None if end > now else end) for number, (begin, end) in enumerate(broken, 1)]
    for number in range(extra):
        at = now - chance.random() * days * DAY_S * 0.97
        found.append(finding(1000 + number, chance.choice(HOSTS), at, fatal=False, ended_at=at + 3600))
    if firing:
        found.append(finding(900, "worker", now - 11 * 60 - 40, fatal=True, ended_at=None))
    plan = {key: {"interval_s": SCAN_S, "failures": 3} for key in (f"kernel_log/{host}" for host in HOSTS)}
    plan[f"generation/{SERVER}"] = {"interval_s": PROBE_S, "failures": 3}
    await store.commit(Commit(tracks=_tracks(seen, now), incidents=tuple(found), memory=(PLAN, plan)))
    await _deliver(store, found, now)
    await store.record_blind(now - 4.2 * DAY_S, now - 4.1 * DAY_S, "the machine was asleep")
    await store.request(lambda ask: _quiet(ask, now))
    await store.close()


async def _deliver(store: Store, found: list[Incident], now: float) -> None:
    """Messages about the pages of `found`: the first needs two attempts, the others one."""
    for number, one in enumerate([one for one in found if one.severity is Severity.PAGE]):
        note = Notification(one.id, "phone", NotificationKind.FIRING, one.severity)
        text = Text(f"FIRING {one.statement}"[:80], one.statement)
        await store.commit(Commit(messages=(Queued(note, text, one.opened_at),)))
        delivery = (await store.lease("phone", one.opened_at + 1, 1e9)).delivery
        assert delivery is not None
        if number == 0:
            late = Outcome(OutcomeReason.TIMEOUT, "no answer")
            await store.postpone(delivery, late, one.opened_at + 9, one.opened_at)
            delivery = (await store.lease("phone", one.opened_at + 10, 1e9)).delivery
            assert delivery is not None
        await store.acknowledge(
            delivery, Outcome(OutcomeReason.DELIVERED), min(one.opened_at + 12, now), retry_now=False
        )


def _quiet(ask: Requests, now: float) -> None:
    ask.add_silence(
        Silence(
            id="s1",
            matcher={"host": "worker"},
            starts_at=now - 2 * DAY_S,
            ends_at=now + 3600,
            reason="new riser is being tried",
            author="ada",
        )
    )


def _seen(
    now: float, days: int, broken: list[tuple[float, float]], slow_now: float, chance: random.Random
) -> Iterable[Observation]:
    for number in range(round(days * DAY_S / PROBE_S)):
        at = now - days * DAY_S + (number + 1) * PROBE_S - 35.0
        failed = any(begin <= at < end for begin, end in broken) or chance.random() < 0.0008
        slow = slow_now if at > now - 3600 else 1.0
        yield probe_at(at, chance, failed=failed, slow=slow)
        if slow > 1 and not failed:
            yield slowness_at(at, slow)
        if number % round(SCAN_S / PROBE_S) == 0:
            for host in HOSTS:
                yield scan_at(host, at, chance.randrange(0, 40))


def _tracks(seen: list[Observation], now: float) -> dict[str, TrackState]:
    """The tracking states after the last of `seen`, by the real tracker."""
    states: dict[str, TrackState] = {}

    for one in seen:
        states[one.key] = step(states.get(one.key, TrackState()), one, Thresholds(), one.at).state
    return states
