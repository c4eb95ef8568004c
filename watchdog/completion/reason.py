"""The named reasons of a generation probe, and what each means for verdict, severity and proof of life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.model import Severity, Verdict


class Reason(StrEnum):
    """Why a probe ended as it did (design §5.1). The text is the slug a person and a script see."""

    OK = "ok"
    GARBAGE = "garbage"
    INSTANT_STOP = "instant_stop"
    EMPTY = "empty"
    NO_REPLY = "no_reply"
    NO_TOKEN = "no_token"  # noqa: S105 - a reason, no password
    STALLED = "stalled"
    TRUNCATED = "truncated"
    LOADING = "loading"
    BUSY = "busy"
    AUTH = "auth"
    UNKNOWN_MODEL = "unknown_model"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    ENGINE_DEAD = "engine_dead"
    SERVER_ERROR = "server_error"
    UPSTREAM_DOWN = "upstream_down"
    GATEWAY_TIMEOUT = "gateway_timeout"
    MALFORMED = "malformed"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    DNS = "dns"
    TLS = "tls"
    RESET = "reset"
    ASLEEP = "asleep"


PASSING = frozenset({Reason.OK, Reason.GARBAGE})
"""Only generated text makes a probe pass (design §2, invariant 1)."""

CONFIGURATION = frozenset({Reason.AUTH, Reason.UNKNOWN_MODEL, Reason.BAD_REQUEST, Reason.NOT_FOUND})
"""Worded as a configuration fault, never as a sick engine."""

UNANSWERED = frozenset({Reason.NO_REPLY, Reason.NO_TOKEN, Reason.STALLED, Reason.GATEWAY_TIMEOUT})
"""Queue and hang look the same on the chat socket: only the engine's own counters tell them apart."""

_WARNINGS = frozenset({Reason.GARBAGE, Reason.LOADING, Reason.BUSY})

_PROVE_NOTHING_GENERATED = frozenset(
    {Reason.LOADING, Reason.ENGINE_DEAD, Reason.SERVER_ERROR, Reason.UPSTREAM_DOWN, Reason.REFUSED}
)


def verdict_of(reason: Reason) -> Verdict:
    """Pass for text, unknown where we chose not to look, fail for everything else."""
    if reason in PASSING:
        return Verdict.PASS
    return Verdict.UNKNOWN if reason is Reason.ASLEEP else Verdict.FAIL


def severity_of(reason: Reason) -> Severity:
    """Page, unless the server itself says that it is busy or loading, or lives but answers nonsense."""
    if reason in (Reason.OK, Reason.ASLEEP):
        return Severity.INFO
    return Severity.WARN if reason in _WARNINGS else Severity.PAGE


def alive_by(reason: Reason) -> bool | None:
    """What a reply without any text proves: False = nothing was generated, None = undecided."""
    return False if reason in _PROVE_NOTHING_GENERATED else None


# What one exchange with a server came to.

_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One probe, judged.

    `alive`: True = at least one token is proven, False = proven none, None = undecided. `detail` is the server's own
    words or the finer cause, one line, safe to show. Times are seconds from the start of the request.
    `text` and `reasoning` hold no think tags; both are "" when blank. `completion_tokens` is what the server counted.
    """

    reason: Reason
    alive: bool | None = None
    detail: str = ""
    http_status: int | None = None
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    completion_tokens: int | None = None
    model: str | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    duration_s: float = 0.0
    wants_other_limit: bool = False


def unanswered(reason: Reason, detail: str, duration_s: float) -> Judgement:
    """The judgement of an exchange that brought no usable HTTP reply at all."""
    return Judgement(reason=reason, alive=alive_by(reason), detail=one_line(detail), duration_s=duration_s)


def one_line(text: str, limit: int = _SHOWN) -> str:
    """`text` for a person: one line, no control characters, at most `limit` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text[: limit * 4])
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
