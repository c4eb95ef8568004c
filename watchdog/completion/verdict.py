"""How a reply ended, and what that makes of it: the last step from bytes to a judgement."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from watchdog.completion import phrases
from watchdog.completion.accumulator import ReplyAccumulator
from watchdog.completion.error_body import (
    ErrorBody,
    bare_error_body,
    error_body_in,
    error_body_of,
    looks_like_html,
    names_request,
    reason_of,
    refuses_this_machine,
    wants_other_limit,
    wants_tls,
)
from watchdog.json_values import loads_untrusted
from watchdog.model import Json
from watchdog.reasons import ServerReason
from watchdog.text import one_line

_ERROR_FINISHES = frozenset({"error", "abort", "aborted", "failed"})
_LOGIN = re.compile(r"\b(log|sign)[-_]?in\b|\b(sso|oauth2?|auth|saml|openid-connect|cdn-cgi/access)\b", re.IGNORECASE)
_STOP_FINISHES = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})


USE_HTTPS = "this port speaks TLS: use https:// in base_url"
USE_HTTP = "this port speaks plain HTTP: use http:// in base_url"


class End(Enum):
    """How a reply ended: as HTTP says it should, cut before that, or not by our deadline."""

    COMPLETE = auto()
    CUT = auto()
    DEADLINE = auto()


@dataclass(slots=True)
class StreamFacts:
    """What a stream held besides text: how many events, whether `[DONE]` came, and the first thing that was wrong."""

    events: int = 0
    done: bool = False
    broken: str = ""
    wrong_type: str = ""


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


def judge_status(status: int, body: bytes, location: str) -> Judgement:
    """The judgement of a reply whose status is not a success."""
    error_body = error_body_of(body)
    reason = reason_of(status, error_body)
    if 300 <= status <= 399 and _LOGIN.search(location):
        reason = ServerReason.AUTH
    detail = f"redirects to {one_line(location, 120)}" if location else error_body.words
    wrong_scheme = reason is ServerReason.BAD_REQUEST and wants_tls(error_body)
    if wrong_scheme:
        detail = USE_HTTPS
    return Judgement(
        reason=reason,
        alive=reason.row.alive,
        detail=detail,
        wants_other_limit=wants_other_limit(status, error_body),
        wrong_scheme=wrong_scheme,
        names_request=names_request(error_body),
        blocked=reason is ServerReason.AUTH and refuses_this_machine(status, error_body),
    )


def judge_error_event(error_body: ErrorBody, accumulator: ReplyAccumulator, *, in_stream: bool = False) -> Judgement:
    """The judgement of an error said under HTTP 200, before or after text."""
    reason = reason_of(200, error_body, in_stream=in_stream)
    alive = True if accumulator.has_text else reason.row.alive
    said = names_request(error_body)
    return Judgement(reason=reason, alive=alive, detail=error_body.words, names_request=said)


def judge_endless(accumulator: ReplyAccumulator) -> Judgement:
    """The judgement of a reply that goes on beyond the limit, however much text it holds."""
    alive = True if accumulator.has_text else None
    return Judgement(reason=ServerReason.MALFORMED, alive=alive, detail="the reply is longer than 1 MiB")


def judge_stream(accumulator: ReplyAccumulator, facts: StreamFacts, comments: int, end: End) -> Judgement:
    """The judgement of an event stream without an error event. A finish reason ends it, with or without `[DONE]`."""
    over = facts.done or accumulator.finish_reason is not None
    if over and (accumulator.has_text or accumulator.finish_reason or accumulator.completion_tokens):
        return judge_finished(accumulator)
    if accumulator.has_text:
        reason = ServerReason.STALLED if end is End.DEADLINE else ServerReason.TRUNCATED
        return Judgement(
            reason=reason, alive=True, detail="no finish_reason and no [DONE] followed the text", said=facts.broken
        )
    if accumulator.banner_says_loading:
        return Judgement(reason=ServerReason.LOADING, alive=False, detail="only a model swapper's loading banner came")
    return _without_tokens(accumulator, facts, comments, end)


def _without_tokens(accumulator: ReplyAccumulator, facts: StreamFacts, comments: int, end: End) -> Judgement:
    words = ErrorBody(facts.broken, form="text")
    if (
        end is not End.DEADLINE
        and words.message
        and not words.message.startswith(("{", "[", "<"))
        and phrases.SOUNDS_LIKE_ERROR.search(words.haystack)
    ):
        return judge_error_event(words, accumulator, in_stream=True)
    opened = f"the stream opened with {facts.events} events and {comments} comments but no token, "
    if end is End.DEADLINE and not facts.done:
        return Judgement(reason=ServerReason.NO_TOKEN, detail=opened + "then silence", said=facts.broken)
    if accumulator.choices_seen == 0 and (facts.broken or facts.wrong_type):
        what = f"no JSON in the stream: {facts.broken}" if facts.broken else f"a {facts.wrong_type} in the stream"
        return Judgement(reason=ServerReason.MALFORMED, alive=False, detail=what)
    how = "then [DONE] without finish_reason: interrupted" if facts.done else "then it was closed"
    return Judgement(reason=ServerReason.NO_TOKEN, alive=False, detail=opened + how, closed=True)


def judge_plain(body: bytes, content_type: str, end: End, accumulator: ReplyAccumulator, at_s: float) -> Judgement:
    """The judgement of a reply that is not an event stream; adds its text to `accumulator`."""
    try:
        payload = loads_untrusted(body.decode("utf-8-sig"))
    except ValueError:
        return _no_json(body, end) if body.strip() else _blank(content_type, end)
    if isinstance(payload, dict):
        accumulator.add(at_s, payload, streamed=False)
    error_body = error_body_in(payload)
    if error_body is not None:
        return judge_error_event(error_body, accumulator)
    if not isinstance(payload, dict) or not isinstance(payload.get("choices"), list):
        return _no_completion(payload)
    if not accumulator.has_text:
        if accumulator.wrong_type:
            return Judgement(
                reason=ServerReason.MALFORMED, alive=False, detail=f"the reply holds {accumulator.wrong_type}"
            )
        if not accumulator.completion_tokens and _no_message(payload["choices"]):
            return Judgement(reason=ServerReason.EMPTY, alive=False, detail="no choice of the reply holds a message")
    return judge_finished(accumulator)


def _no_completion(payload: Json) -> Judgement:
    if isinstance(payload, dict):
        error_body = bare_error_body(payload)  # a gateway's own words, under 200
        reason = reason_of(200, error_body)
        if error_body.message and reason is not ServerReason.SERVER_ERROR:
            return Judgement(reason=reason, alive=reason.row.alive, detail=error_body.words)
    what = "an object without choices" if isinstance(payload, dict) else f"a JSON {type(payload).__name__}"
    return Judgement(reason=ServerReason.MALFORMED, alive=False, detail=f"the reply is {what}")


def _no_message(choices: list[Json]) -> bool:
    """Whether there are choices, and not one holds a message, a delta or a text: no proof of even one token."""
    parts = ("message", "delta", "text")
    return bool(choices) and all(
        isinstance(choice, dict) and all(choice.get(part) is None for part in parts) for choice in choices
    )


def _blank(content_type: str, end: End) -> Judgement:
    if end is End.DEADLINE:
        return Judgement(reason=ServerReason.NO_TOKEN, detail="headers came, the body never did")
    if "event-stream" in content_type:
        return Judgement(
            reason=ServerReason.NO_TOKEN, alive=False, detail="the stream was closed without an event", closed=True
        )
    return Judgement(reason=ServerReason.MALFORMED, alive=False, detail="HTTP success with an empty body")


def _no_json(body: bytes, end: End) -> Judgement:
    text = body[:4096].decode("utf-8", "replace").lstrip("\ufeff").strip()
    if looks_like_html(text):
        return Judgement(reason=ServerReason.MALFORMED, detail="HTTP 200 with a web page: " + error_body_of(body).words)
    if end is End.DEADLINE:
        return Judgement(reason=ServerReason.NO_TOKEN, detail=f"the body stopped after {len(body)} bytes")
    alive = False if text.startswith(("{", "[")) else None
    what = "JSON that is cut off or broken" if alive is False else "no JSON"
    return Judgement(reason=ServerReason.MALFORMED, alive=alive, detail=f"the reply is {what}: {one_line(text, 120)}")


def judge_finished(accumulator: ReplyAccumulator) -> Judgement:
    """The judgement of a reply that came to its end: text, or which kind of none."""
    finish, tokens = accumulator.finish_reason, accumulator.completion_tokens
    if finish in _ERROR_FINISHES and accumulator.finish_error is not None:
        return judge_error_event(accumulator.finish_error, accumulator)
    if finish in _ERROR_FINISHES:
        return Judgement(
            reason=ServerReason.SERVER_ERROR, alive=accumulator.has_text, detail=f"finish_reason is {finish}"
        )
    if accumulator.has_text:
        return Judgement(reason=ServerReason.GARBAGE if accumulator.is_garbage else ServerReason.OK, alive=True)
    counted = "no token count" if tokens is None else f"{tokens} tokens counted"
    detail = f"finish_reason {one_line(finish, 40) if finish else 'missing'}, {counted}, no text"
    if finish == "load":
        return Judgement(reason=ServerReason.LOADING, alive=False, detail=detail)
    # The end token is a token, whether or not the server counts it.
    if finish in _STOP_FINISHES and (tokens or 0) <= 1 and accumulator.chunks <= 1:
        return Judgement(reason=ServerReason.INSTANT_STOP, alive=True, detail=detail)
    nothing = tokens == 0 or (tokens is None and finish is None)
    return Judgement(reason=ServerReason.EMPTY, alive=False if nothing else None, detail=detail)
