"""What a probe of one server means for its seat: who holds it, whether a failure counts, what is a line of history."""

from __future__ import annotations

from dataclasses import replace

from watchdog.checks.generation_report import ProbeOutcome, labels_of
from watchdog.config import ServerSettings
from watchdog.kinds import GENERATION, SEAT
from watchdog.model import CheckResult, Evidence, Json, Nature, Observation, Verdict
from watchdog.policy.seats import Seat, Seen, Standing
from watchdog.reasons import SeatReason, ServerReason
from watchdog.text import duration

_DOES_NOT_COUNT = {
    Standing.AWAY: ServerReason.AWAY,
    Standing.GIVES_WAY: ServerReason.AWAY,
    Standing.SWAPPING: ServerReason.SWAPPING,
    Standing.UNDECIDED: ServerReason.SWAPPING,
}


def place(seat: Seat, server: ServerSettings, outcome: ProbeOutcome, result: CheckResult) -> CheckResult:
    """`result` of a probe of `server` as its seat has it.

    What fails while another server holds the seat, or while a swap is under way, does not count; the others are looked
    at at once where that decides something.
    """
    probed, *others = result.observations
    if outcome.verdict is Verdict.UNKNOWN:
        return result  # our own trouble: nothing was seen of the server
    before = seat.seen.get(server.name)
    seen = Seen(outcome.at, outcome.verdict, outcome.reason)
    standing = seat.look(server.name, seen)
    probed = replace(probed, labels={**probed.labels, "seat": seat.name})
    memory = result.memory
    if standing in _DOES_NOT_COUNT:
        probed = _not_counted(seat, server, probed, standing)
        memory = _without_down_since(outcome.memory)
    elif standing is Standing.EMPTY:
        probed = replace(probed, evidence=(*probed.evidence, *_last_of(seat, server)))
    happened = _happened(seat, server, standing, outcome.at)
    return replace(
        result,
        observations=(probed, *others, *happened),
        memory=memory,
        run_now=(*result.run_now, *_look_at(seat, server, before, seen, standing)),
    )


def _not_counted(seat: Seat, server: ServerSettings, probed: Observation, standing: Standing) -> Observation:
    if standing is Standing.UNDECIDED:
        who = f"who holds seat {seat.name} is not known yet"
    elif standing is Standing.SWAPPING:
        coming = ", ".join(name for name, one in seat.others(server.name).items() if one.starts)
        who = f"{coming} is taking seat {seat.name}"
    else:
        who = f"{seat.holder} holds seat {seat.name}"
    reason = _DOES_NOT_COUNT[standing]
    return replace(
        probed,
        verdict=reason.row.verdict,
        reason=reason.value,
        severity=reason.row.severity,
        summary=f"{who}; here: {probed.summary}",
        evidence=(),
        measurements={},
        advice="",
        look_only=False,
    )


def _without_down_since(memory: Json) -> Json:
    """A server that was away has not been failing: its failures begin when they count."""
    return {**memory, "down_since": None} if isinstance(memory, dict) else memory


def _last_of(seat: Seat, server: ServerSettings) -> tuple[Evidence, ...]:
    """What was seen last of the servers that could hold the seat instead."""
    return tuple(
        Evidence(
            seen.at, f"seat {seat.name}", f"{name} does not hold it either: {seen.reason.row.words or seen.reason}"
        )
        for name, seen in seat.others(server.name).items()
    )


def _happened(seat: Seat, server: ServerSettings, standing: Standing, at: float) -> tuple[Observation, ...]:
    if standing is Standing.SECOND:
        reason, holder = SeatReason.SECOND, server.name
        summary = f"{server.name} answers while {seat.holder} holds seat {seat.name}"
    elif standing in (Standing.TAKES_OVER, Standing.GIVES_WAY):
        reason, holder = SeatReason.SWAPPED, seat.holder
        gone_s = max(0.0, seat.text_at[seat.holder] - seat.text_at.get(seat.taken_from, at))
        summary = f"{seat.holder} took seat {seat.name} from {seat.taken_from}, {duration(gone_s)} after its last text"
    else:
        return ()
    return (
        Observation(
            key=SEAT.key(holder, reason.value),
            verdict=Verdict.FAIL,
            reason=reason.value,
            severity=reason.row.severity,
            summary=summary,
            at=at,
            nature=Nature.OCCURRENCE,
            evidence=(Evidence(at, f"seat {seat.name}", summary),),
            labels={**labels_of(server), "server": holder, "seat": seat.name},
        ),
    )


def _look_at(
    seat: Seat, server: ServerSettings, before: Seen | None, seen: Seen, standing: Standing
) -> tuple[str, ...]:
    """Who is to be probed at once: the others by the failing holder; the holder, once, by one that stops starting."""
    if standing is Standing.NEXT:
        return (GENERATION.key(seat.holder),)
    if standing is Standing.EMPTY:
        return tuple(GENERATION.key(name) for name in seat.settings.servers if name != server.name)
    stopped_starting = before is not None and before.starts and not seen.starts
    if standing is Standing.AWAY and stopped_starting and not seat.is_held:
        return (GENERATION.key(seat.holder),)
    return ()
