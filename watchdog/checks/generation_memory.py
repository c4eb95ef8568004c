"""What a generation check remembers from run to run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from watchdog.chat.endpoint import MAX_COMPLETION_TOKENS, MAX_TOKENS
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.completion.verdict import Judgement
from watchdog.engines.movement import Movement
from watchdog.engines.slowness import Pace, Slowness, Speed
from watchdog.model import Json, Severity, Verdict
from watchdog.reasons import PASSING, UNANSWERED, ServerReason


@dataclass(slots=True)
class GenerationMemory:
    """Facts found out about a server. All can be found out again: losing them costs a request or two.

    `after` is the sample taken behind the last passing probe while requests ran; `stuck_rounds` counts the rounds in
    a row in which such requests made no progress between two probes. Of the failures since the last pass,
    `still_windows` counts those in which the counters stood still, `proved_alive` says that one was only a warning,
    `strikes` counts those since then that would page, and `blind_windows` the newest ones in a row without counters
    that could be read. `loading_since` is since when it has been loading its model, `down_since` since when it
    fails in a way that a restart explains. `accepted` is the mark of the request that passed last. `pace` is what
    passing probes usually take, `text_at` when the last one passed.
    """

    limit_field: str = MAX_TOKENS
    model: str | None = None
    metrics_path: str | None = None
    metrics_absent_since: float | None = None
    after: Json = None
    stuck_rounds: int = 0
    still_windows: int = 0
    proved_alive: bool = False
    strikes: int = 0
    blind_windows: int = 0
    loading_since: float | None = None
    down_since: float | None = None
    accepted: str | None = None
    pace: Json = None
    text_at: float | None = None

    @classmethod
    def from_json(cls, value: Json) -> GenerationMemory:
        """Memory from its JSON form; what is missing or of a wrong type starts at its default."""
        memory = cls()
        if not isinstance(value, dict):
            return memory
        if value.get("limit_field") == MAX_COMPLETION_TOKENS:
            memory.limit_field = MAX_COMPLETION_TOKENS
        model, path, since = value.get("model"), value.get("metrics_path"), value.get("metrics_absent_since")
        memory.model = model if isinstance(model, str) else None
        memory.metrics_path = path if isinstance(path, str) else None
        memory.metrics_absent_since = since if isinstance(since, (int, float)) else None
        memory.after = value.get("after")
        for name in ("stuck_rounds", "still_windows", "strikes", "blind_windows"):
            count = value.get(name)
            setattr(memory, name, count if isinstance(count, int) else 0)
        loading = value.get("loading_since")
        memory.loading_since = loading if isinstance(loading, (int, float)) else None
        down = value.get("down_since")
        memory.down_since = down if isinstance(down, (int, float)) else None
        memory.proved_alive = value.get("proved_alive") is True
        accepted = value.get("accepted")
        memory.accepted = accepted if isinstance(accepted, str) else None
        memory.pace = value.get("pace")
        text_at = value.get("text_at")
        memory.text_at = text_at if isinstance(text_at, (int, float)) else None
        return memory

    def with_history(self, judgement: Judgement, request: bytes) -> Judgement:
        """`judgement` of `request` (without its nonce), weighed by what the server did with the same one before.

        What it took before, and now calls a bad request without naming anything in it, is no fault of the request.
        """
        mark = hashlib.sha256(request).hexdigest()[:16]
        if judgement.reason in PASSING:
            self.accepted = mark
        took_before = judgement.reason is ServerReason.BAD_REQUEST and self.accepted == mark
        if not took_before or judgement.names_request or judgement.wrong_scheme:
            return judgement
        return replace(judgement, reason=ServerReason.SERVER_ERROR, alive=False, took_before=True)

    def count_failure(self, outcome: ProbeOutcome, needed: int) -> tuple[int, bool]:
        """Still windows so far, and whether `outcome` is still only a warning because too few prove the opposite.

        What was proven alive pages only after `needed` failures that would page: as many as open an incident. A window
        without readable counters is no evidence and changes nothing; but `needed` of them in a row are a server that
        has gone as silent as one that pages from the start.
        """
        if outcome.verdict is Verdict.UNKNOWN:
            return self.still_windows, False
        if outcome.verdict is Verdict.PASS:
            self.still_windows, self.strikes, self.blind_windows, self.proved_alive = 0, 0, 0, False
            return 0, False
        unreadable = outcome.reason in UNANSWERED and outcome.change.movement is Movement.UNKNOWN
        if outcome.change.movement is Movement.FROZEN:
            self.still_windows += 1
        elif not unreadable:
            self.still_windows = 0
        self.blind_windows = self.blind_windows + 1 if unreadable else 0
        if outcome.own_severity is not Severity.PAGE:
            self.proved_alive, self.strikes = True, 0
        elif self.proved_alive:
            self.strikes += 0 if unreadable else 1
            self.proved_alive = max(self.strikes, self.blind_windows) < needed
        return self.still_windows, self.proved_alive

    def count_loading(self, outcome: ProbeOutcome) -> float | None:
        """For how long the server has been loading its model now; None if it is not."""
        if outcome.reason is not ServerReason.LOADING:
            self.loading_since = None
            return None
        if self.loading_since is None or self.loading_since > outcome.at:
            self.loading_since = outcome.at
        return outcome.at - self.loading_since

    def count_down(self, outcome: ProbeOutcome) -> float | None:
        """For how long the server has been failing in a way that a restart explains; None if it is not."""
        if not outcome.reason.row.must_last:
            self.down_since = None
            return None
        if self.down_since is None or self.down_since > outcome.at:
            self.down_since = outcome.at
        return outcome.at - self.down_since

    def compare_pace(self, outcome: ProbeOutcome) -> Slowness | None:
        """How the speed of a passing probe compares with its week; None for one that did not pass."""
        if outcome.verdict is not Verdict.PASS:
            return None
        pace = Pace.from_json(self.pace, outcome.model or "")
        speed = Speed(outcome.judgement.ttft_s, outcome.judgement.tokens_per_s)
        found = pace.learn(outcome.at, speed, outcome.before)
        self.pace = pace.to_json()
        return found

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__}
