"""From what one probe saw to observations: verdict, severity, words and evidence."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.completion.verdict import Judgement
from watchdog.config import ServerSettings
from watchdog.engines.metrics import EngineSample, from_json
from watchdog.engines.movement import STEPS, Change, Movement, compare
from watchdog.engines.slowness import FACTOR, Slowness
from watchdog.kinds import GENERATION, PROGRESS, QUALITY, SLOW
from watchdog.model import Evidence, Json, Observation, Severity, Verdict
from watchdog.policy import DOWN_S
from watchdog.reasons import PASSING, UNANSWERED, ProgressReason, QualityReason, ServerReason, SlowReason
from watchdog.text import duration, one_line

# What a generation verdict says to a person: what happened, and what to look at next.


def outcome_words(judgement: Judgement, timeout_s: float) -> str:
    """One sentence for what one exchange came to."""
    if judgement.reason is ServerReason.OK:
        first = "" if judgement.ttft_s is None else f", the first after {judgement.ttft_s:.2f} s"
        return f"text in {judgement.duration_s:.2f} s{first}"
    if judgement.reason is ServerReason.GARBAGE:
        return f"{ServerReason.GARBAGE.row.words}: {one_line(judgement.text or judgement.reasoning, 40)}"
    if judgement.reason is ServerReason.NO_REPLY:
        return f"no reply within {timeout_s:g} s"
    said = f"; it said: {judgement.said}" if judgement.said else ""
    if judgement.reason is ServerReason.NO_TOKEN:
        ended = f"within {timeout_s:g} s" if judgement.alive is None else "before it was closed"
        return f"the reply started, but no token came {ended}{said}"
    return (_finer_words(judgement) or judgement.reason.row.words) + said


def _finer_words(judgement: Judgement) -> str:
    if judgement.blocked:
        return "configuration: an allow-list or a proxy refuses this machine"
    if judgement.took_before:
        return "the server calls a request bad that it took before"
    return "configuration: base_url has the wrong scheme" if judgement.wrong_scheme else ""


def movement_words(change: Change, after: EngineSample | None, window_s: float) -> str:
    """What the engine's counters say about an unanswered probe; "" if nothing was seen of the engine."""
    queue = _queue(after)
    match change.movement:
        case Movement.BUSY:
            words = f"busy, alive: {_rise(change)} in {window_s:.0f} s; {queue}"
        case Movement.FROZEN:
            hung = (
                "hung, or it reads a long prompt, which this engine does not show" if change.prefill_hidden else "hung"
            )
            words = f"{hung}: {queue}, and {_stand(change)} for {window_s:.0f} s"
        case Movement.LOST if change.moved:
            words = f"our request did not reach the engine, which works for others: {_FRONT_END}"
        case Movement.LOST:
            words = f"our request is waiting, but the engine reports none: it hangs, or {_FRONT_END}"
        case Movement.RESET:
            words = f"the engine restarted during the probe; {queue}"
        case Movement.PARTIAL:
            names = ", ".join(one_line(name, 30) for name in change.stuck)
            hung = "partly hung, or one reads a long prompt" if change.prefill_hidden else "partly hung"
            words = f"{hung}: replica {names} stands still while others work; {queue}"
        case Movement.UNKNOWN:
            words = ""
    return words


def _rise(change: Change) -> str:
    if change.prefilling:
        return f"it reads a long prompt, {change.counter} rose from {change.before:.3g} to {change.after:.3g}"
    if change.counter == STEPS:
        return "it made steps"
    return f"{change.counter} rose by {change.after - change.before:g}"


def _stand(change: Change) -> str:
    return "it made no step" if change.counter == STEPS else f"{change.counter} stood still at {change.after:g}"


_FRONT_END = "what stands in front of it holds or has lost it"


def _queue(sample: EngineSample | None) -> str:
    if sample is None or (sample.running is None and sample.waiting is None):
        return "queue length unknown"
    running = "?" if sample.running is None else f"{sample.running:g}"
    waiting = "?" if sample.waiting is None else f"{sample.waiting:g}"
    return f"{running} running, {waiting} waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """Everything one probe saw. `before` and `after` are the engine's metrics around it, `change` their comparison.

    `at` is its start in Unix seconds; `earlier` and `stuck_rounds` come from the memory of the last run.
    `still_windows` counts the windows of this run of failures in which the counters stood still, this one included.
    `lowered`: earlier probes of it proved life, and too few since then prove the opposite. `loads_too_long_s`: for how
    long the model has been loading, once that is longer than anybody expects.
    """

    judgement: Judgement
    attempts: tuple[Judgement, ...]
    resent: int
    model: str | None
    change: Change
    before: EngineSample | None
    after: EngineSample | None
    trouble: str
    window_s: float
    timeout_s: float
    duration_s: float
    at: float
    earlier: Json = None
    stuck_rounds: int = 0
    still_windows: int = 0
    lowered: bool = False
    loads_too_long_s: float | None = None
    down_s: float | None = None
    slowness: Slowness | None = None
    memory: Json = None

    @property
    def reason(self) -> ServerReason:
        """The judgement's reason; `busy` where the probe was unanswered and the engine's live counter advanced."""
        reason = self.judgement.reason
        return (
            ServerReason.BUSY if self.change.movement is Movement.BUSY and reason.row.busy_if_engine_moves else reason
        )

    @property
    def verdict(self) -> Verdict:
        return self.reason.row.verdict

    @property
    def severity(self) -> Severity:
        """Page; warn where the server is proven alive and busy, says that it loads, or answers nonsense."""
        if self.loads_too_long_s is not None:
            return Severity.PAGE
        return Severity.WARN if self.lowered else self.own_severity

    @property
    def own_severity(self) -> Severity:
        """The severity by what this probe alone saw."""
        if self.change.movement is Movement.BUSY and self.reason in UNANSWERED:
            return Severity.WARN
        return self.reason.row.severity

    @property
    def alive(self) -> bool | None:
        """True = at least one token is proven, by text or by a live counter; False = proven none; None = undecided."""
        if self._contradicted:
            return True
        if self.judgement.alive is None and self.judgement.reason in UNANSWERED:
            if self.change.movement in (Movement.BUSY, Movement.PARTIAL):
                return True
            if self.change.movement is Movement.RESET and self.change.after > 0:
                return True
        return self.judgement.alive

    @property
    def shown_duration_s(self) -> float:
        """How long a reply took; without one, how long we tried, with all that went before the request."""
        return self.judgement.duration_s if self.verdict is Verdict.PASS else self.duration_s

    @property
    def sample(self) -> EngineSample | None:
        """The newest sample of the engine; None when its metrics could not be read."""
        return self.after or self.before

    @property
    def between(self) -> Change:
        """What the live counters did since the last passing probe: none of our own requests ran then."""
        return compare(from_json(self.earlier), self.before)

    @property
    def stuck_rounds_now(self) -> int:
        """Rounds in a row, up to this one, in which running requests made no progress between our probes."""
        if self.before is None or self.between.movement not in (Movement.FROZEN, Movement.PARTIAL):
            return 0
        return self.stuck_rounds + 1 if (self.before.running or 0) > 0 else 0

    @property
    def _contradicted(self) -> bool:
        """Whether the server calls its engine dead while the engine generates."""
        return self.reason is ServerReason.BUSY and self.judgement.reason is ServerReason.ENGINE_DEAD

    def summary(self) -> str:
        """What came of the probe, in one line; where no text came, with what the engine's counters say."""
        saying = outcome_words(self.judgement, self.timeout_s)
        if self.loads_too_long_s is not None:
            saying = f"the server has been loading its model for {duration(self.loads_too_long_s)}"
        if self._contradicted:
            words = movement_words(self.change, self.after, self.window_s)
            return f"the server refuses ({self.judgement.detail}), but its engine is {words}"
        if self.judgement.reason in UNANSWERED:
            words = movement_words(self.change, self.after, self.window_s)
            if not words and self.judgement.closed:
                return saying
            return f"{saying}; {words or self._cannot_tell()}"
        if self.judgement.reason in PASSING or not self.judgement.detail:
            return saying + (", after one resend" if self.resent and self.judgement.reason in PASSING else "")
        return f"{saying}: {self.judgement.detail}"

    def _cannot_tell(self) -> str:
        return "cannot tell busy from hung" + (f": {self.trouble}" if self.trouble else "")


def labels_of(server: ServerSettings) -> dict[str, str]:
    """`server`, and `host` where there is exactly one."""
    labels = {"server": server.name}
    if len(server.hosts) == 1:
        labels["host"] = server.hosts[0]
    return labels


def generation_observation(server: ServerSettings, outcome: ProbeOutcome) -> Observation:
    """The observation `generation/<server>`."""
    measurements = {"duration_s": outcome.shown_duration_s, "resent": float(outcome.resent)}
    if outcome.verdict is Verdict.PASS:
        speeds = {"ttft_s": outcome.judgement.ttft_s, "tokens_per_s": outcome.judgement.tokens_per_s}
        counted = outcome.judgement.completion_tokens
        speeds["completion_tokens"] = None if counted is None else float(counted)
        measurements |= {name: value for name, value in speeds.items() if value is not None}
    measurements |= _seen_of_engine(outcome)
    if outcome.down_s is not None:
        measurements[DOWN_S] = outcome.down_s
    return Observation(
        key=GENERATION.key(server.name),
        verdict=outcome.verdict,
        reason=outcome.reason.value,
        severity=outcome.severity,
        summary=outcome.summary(),
        at=outcome.at,
        duration_s=outcome.duration_s,
        evidence=evidence_of(server, outcome),
        labels=labels_of(server),
        measurements=measurements,
        advice=_advice(outcome),
        look_only=outcome.reason.row.look_only,
    )


def _advice(outcome: ProbeOutcome) -> str:
    if outcome.judgement.blocked:
        return "Let this machine's address through at the proxy or firewall before the server."
    if outcome.judgement.wrong_scheme:
        return "Correct base_url of this server."
    return outcome.reason.row.advice


def _seen_of_engine(outcome: ProbeOutcome) -> dict[str, float]:
    """What the engine's metrics and the last HTTP status say, as numbers for a diagnosis; nothing for a good reply."""
    if outcome.verdict is Verdict.PASS:
        return {}
    sample, status = outcome.after, outcome.judgement.http_status
    lost_and_flowing = outcome.change.movement is Movement.LOST and outcome.change.moved
    known = {
        "http_status": None if status is None else float(status),
        "engine_answered": None if sample is None else 1.0,
        "engine_running": None if sample is None else sample.running,
        "engine_waiting": None if sample is None else sample.waiting,
        "engine_still_windows": float(outcome.still_windows) if outcome.still_windows else None,
        "engine_works_for_others": 1.0 if lost_and_flowing else None,
        "engine_prefilling": 1.0 if outcome.change.prefilling else None,
        "engine_prefill_hidden": 1.0 if outcome.change.prefill_hidden else None,
        "stream_closed": 1.0 if outcome.judgement.closed else None,
        "stream_said": 1.0 if outcome.judgement.said else None,
        "wrong_scheme": 1.0 if outcome.judgement.wrong_scheme else None,
    }
    if outcome.change.movement is not Movement.UNKNOWN:
        known[f"engine_{outcome.change.movement.value}"] = 1.0
    return {name: value for name, value in known.items() if value is not None}


def evidence_of(server: ServerSettings, outcome: ProbeOutcome) -> tuple[Evidence, ...]:
    """Each attempt in one line, the last with what the engine's counters did; and whether another model answered."""
    found: list[Evidence] = []
    several = len(outcome.attempts) > 1
    ended_at = outcome.at + outcome.duration_s
    for number, attempt in enumerate(outcome.attempts, 1):
        if attempt.reason is ServerReason.OK and not several:
            continue
        status = "" if attempt.http_status is None else f" (HTTP {attempt.http_status})"
        detail = f": {attempt.detail}" if attempt.detail else ""
        detail += f"; it said: {attempt.said}" if attempt.said else ""
        text = f"{attempt.reason.value}{status} after {attempt.duration_s:.2f} s{detail}"
        if number == len(outcome.attempts):
            text += _counters(outcome)
        found.append(Evidence(ended_at, "probe", f"attempt {number}: {text}" if several else text))
    answered = outcome.judgement.model
    if server.model and answered and outcome.verdict is Verdict.PASS and answered != server.model:
        found.append(Evidence(None, "probe", f"another model answers: {one_line(answered, 80)}"))
    return tuple(found)


def _counters(outcome: ProbeOutcome) -> str:
    """What the engine's counters say about an unanswered probe, to be put behind it."""
    if outcome.judgement.reason not in UNANSWERED:
        return ""
    words = movement_words(outcome.change, outcome.after, outcome.window_s)
    if outcome.judgement.closed and not words:
        return ""
    engine = outcome.sample.engine if outcome.sample is not None else "metrics"
    return f"; {engine}: {words or outcome.trouble or 'the counters show nothing'}"


def progress_observation(server: ServerSettings, outcome: ProbeOutcome) -> Observation | None:
    """The observation `progress/<server>`: short requests pass while long ones stand still.

    None unless the probe passed and a live counter can be read. Fails in every round in which requests ran both behind
    the last probe and before this one, and no live counter moved in between; three such rounds are the usual alert: a
    page, or a warning where the engine does not show that it reads a long prompt.
    """
    if outcome.verdict is not Verdict.PASS or outcome.before is None or not outcome.before.shows_progress:
        return None
    rounds = outcome.stuck_rounds_now
    change = outcome.between
    if rounds:
        where = f"replica {', '.join(change.stuck)}" if change.movement is Movement.PARTIAL else change.counter
        summary = (
            f"short requests pass, but {outcome.before.running:g} running ones stand still: "
            f"{one_line(where, 80)} has not moved between {rounds} probe{'s' if rounds > 1 else ''}"
        )
    else:
        summary = "running requests make progress" if outcome.before.running else "no request was running"
    return Observation(
        key=PROGRESS.key(server.name),
        verdict=Verdict.FAIL if rounds else Verdict.PASS,
        reason=ProgressReason.FROZEN if rounds else ProgressReason.OK,
        severity=_progress_severity(rounds, change),
        summary=summary,
        at=outcome.at,
        evidence=(Evidence(None, outcome.before.engine, summary),) if rounds else (),
        labels=labels_of(server),
        advice="Look at the long requests: a prefill of very long prompts can look the same." if rounds else "",
        look_only=bool(rounds),
    )


def _progress_severity(rounds: int, change: Change) -> Severity:
    if not rounds:
        return Severity.INFO
    return Severity.WARN if change.prefill_hidden else Severity.PAGE


def quality_observation(server: ServerSettings, outcome: ProbeOutcome) -> Observation | None:
    """The observation `quality/<server>`: whether the text is more than nonsense. None unless the probe passed."""
    if outcome.verdict is not Verdict.PASS:
        return None
    reason = QualityReason.GARBAGE if outcome.reason is ServerReason.GARBAGE else QualityReason.OK
    failed = reason is QualityReason.GARBAGE
    summary = outcome_words(outcome.judgement, server.probe.timeout_s) if failed else "the text is no nonsense"
    return Observation(
        key=QUALITY.key(server.name),
        verdict=reason.row.verdict,
        reason=reason.value,
        severity=reason.row.severity,
        summary=summary,
        at=outcome.at,
        evidence=(Evidence(None, "probe", summary),) if failed else (),
        labels=labels_of(server),
        advice=reason.row.advice,
        look_only=reason.row.look_only,
    )


def slow_observation(server: ServerSettings, outcome: ProbeOutcome) -> Observation | None:
    """The observation `slow/<server>`: whether it takes what it took all week.

    None unless the probe passed. None also where a slow reply proves nothing, because others keep the server busy.
    """
    found = outcome.slowness
    if found is None or (found.is_quiet is False and found.factor >= FACTOR):
        return None
    reason = SlowReason.OK
    if found.is_slow:
        reason = SlowReason.SLOW
    elif found.accepts_fewer:
        reason = SlowReason.FEWER_DRAFTS
    return Observation(
        key=SLOW.key(server.name),
        verdict=reason.row.verdict,
        reason=reason.value,
        severity=reason.row.severity,
        summary=_slow_words(found),
        at=outcome.at,
        labels=labels_of(server),
        measurements=_slow_numbers(found),
        advice=reason.row.advice,
        look_only=reason.row.look_only,
    )


def _slow_words(found: Slowness) -> str:
    if found.factor >= FACTOR:
        what, unit = ("first token after", " s") if found.measure == "ttft_s" else ("tokens", "/s")
        words = (
            f"alive, but {found.factor:.1f}× slower than its own median of 7 days "
            f"({what} {found.now_value:.3g}{unit}, usually {found.usual_value:.3g}{unit})"
        )
        return words if found.is_quiet else f"{words}; its queue is unknown"
    if found.accepts_fewer and found.acceptance is not None and found.usual_acceptance is not None:
        now, usual = f"{100 * found.acceptance:.0f} %", f"{100 * found.usual_acceptance:.0f} %"
        return f"{now} of the drafted tokens are accepted, usually {usual}"
    return "as fast as usual" if found.measure else "its usual speed is not known yet"


def _slow_numbers(found: Slowness) -> dict[str, float]:
    numbers = (
        {}
        if not found.measure
        else {
            "slow_factor": found.factor,
            found.measure: found.now_value,
            f"usual_{found.measure}": found.usual_value,
        }
    )
    drafts = {"draft_acceptance": found.acceptance, "usual_draft_acceptance": found.usual_acceptance}
    return numbers | {name: value for name, value in drafts.items() if value is not None}
