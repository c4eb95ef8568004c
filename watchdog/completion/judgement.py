"""What one exchange with a server came to."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.reasons import ServerReason

_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One probe, judged.

    `alive`: True = at least one token is proven, False = proven none, None = undecided. `detail` is the server's own
    words or the finer cause, one line, safe to show. `said` is what it wrote into an open stream in plain words.
    `blocked`: this machine is refused, not its key. `wrong_scheme`: `http://` and `https://` are mixed up.
    `closed`: the stream was ended before it held a token. `names_request`: the error is about what we ask.
    `took_before`: the server refuses a request that it took before. Times are seconds from the start of the request.
    `text` and `reasoning` hold no think tags; both are "" when blank. `completion_tokens` is what the server counted.
    """

    reason: ServerReason
    alive: bool | None = None
    detail: str = ""
    said: str = ""
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
    blocked: bool = False
    wrong_scheme: bool = False
    closed: bool = False
    names_request: bool = False
    took_before: bool = False


def unanswered(reason: ServerReason, detail: str, duration_s: float) -> Judgement:
    """The judgement of an exchange that brought no usable HTTP reply at all."""
    return Judgement(reason=reason, alive=reason.row.alive, detail=one_line(detail), duration_s=duration_s)


def one_line(text: str, limit: int = _SHOWN) -> str:
    """`text` for a person: one line, no control characters, at most `limit` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text[: limit * 4])
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
