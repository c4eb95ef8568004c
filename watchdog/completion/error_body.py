"""Error bodies in all their forms, reduced to one message, one type and one code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from watchdog.completion import phrases
from watchdog.json_values import loads_untrusted
from watchdog.model import Json
from watchdog.reasons import ServerReason
from watchdog.text import one_line

_TAGS = re.compile(r"<(script|style|title)\b.*?</\1\s*>|<[^>]{0,1000}>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title\b[^>]{0,1000}>(.{0,1000}?)</title\s*>", re.IGNORECASE | re.DOTALL)
"""Mostly the headline once more: it counts only where the page shows nothing else."""
_READ = 20_000
_MESSAGE_KEYS = ("message", "msg", "error", "detail", "title", "description", "reason")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What a server says is wrong.

    `form` tells how it said so: `nested`, `string`, `flat`, `detail`, `bare` (a message and nothing else, as gateways
    do), `html`, `text`, `none`. `code` is an HTTP-like status if the body named one.
    """

    message: str = ""
    kind: str = ""
    code: int | None = None
    form: str = "none"

    @property
    def haystack(self) -> str:
        """Type and message in lower case, for matching."""
        return f"{self.kind} {self.message}".lower()

    @property
    def words(self) -> str:
        """The message for a person: one line."""
        return one_line(self.message or self.kind)


def error_body_in(payload: Json) -> ErrorBody | None:
    """The error in a JSON value, or None if it holds none (for example because it is a normal reply).

    Forms: `{"error": {…}}`, also inside a choice, `{"error": "…", "error_type": …}`, `{"detail": …}` of FastAPI, flat
    `{"object": "error", "message": …}` and `{"code": 500, "msg": …}`, FastChat's `{"text": …, "error_code": 50001}`,
    and the same inside each other as gateways wrap. An error that says nothing, beside choices, is none.
    """
    if not isinstance(payload, dict):
        return None
    error, choices = payload.get("error"), payload.get("choices")
    if isinstance(error, (dict, str, list)) and error and not (choices and _says_nothing(error)):
        return _in_error(error, payload)
    if isinstance(choices, list):
        # Gateways of the OpenRouter kind put the failure of what is behind them into the choice, under HTTP 200.
        failed = (c["error"] for c in choices if isinstance(c, dict) and isinstance(c.get("error"), dict))
        return next((_build(error, "nested") for error in failed if error), None)
    if payload.get("detail"):
        inner = error_body_in(payload["detail"])
        return inner or ErrorBody(_text(payload["detail"]), _text(payload.get("type")), _code(payload), "detail")
    said = payload.get("errors") or (payload.get("text") if payload.get("error_code") else None)
    if said:
        return ErrorBody(_text(said), "", _code(payload), "flat")
    named = _text(payload.get("message")) and any(payload.get(key) for key in ("type", "code", "status"))
    coded = _code(payload) is not None or payload.get("object") == "error" or error is True
    return _build(payload, "flat") if named or coded else None


def _in_error(error: Json, payload: dict[str, Json]) -> ErrorBody | None:
    if isinstance(error, dict):
        return _build(error, "nested")
    if isinstance(error, list):
        return ErrorBody(_text(error), "", _code(payload), "nested")
    kind = _text(payload.get("error_type") or payload.get("type"))
    return ErrorBody(error, kind, _code(payload), "string") if error.strip() else None


def _says_nothing(error: Json) -> bool:
    """Whether an `error` is the empty form of a server that always sends one: nothing filled in, or the code 0."""
    if not isinstance(error, dict):
        return False
    return error.get("code") in (0, "0") or not any(_text(value).strip() for value in error.values())


def error_body_of(body: bytes) -> ErrorBody:
    """The error in the body of an error reply; of an empty body one that says nothing."""
    text = body[: _READ * 4].decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return ErrorBody()
    try:
        payload = loads_untrusted(text)
    except ValueError:
        payload = None
        if looks_like_html(text):
            shown = " ".join(_TAGS.sub(" ", text[:_READ]).split())
            titled = _TITLE.search(text[:_READ])
            return ErrorBody(shown or " ".join(titled[1].split() if titled else ()), form="html")
    if isinstance(payload, str):
        return ErrorBody(payload, form="text")
    found = error_body_in(payload)
    if found is None and isinstance(payload, dict):
        found = bare_error_body(payload)
    return found or ErrorBody(text[:_READ], form="text")


def bare_error_body(payload: dict[str, Json]) -> ErrorBody:
    """What an object says that is not an error in any known form: its message, as gateways give it."""
    return _build(payload, "bare")


def looks_like_html(text: str) -> bool:
    """Whether `text` is a web page rather than an answer of an API."""
    start = text[:600].lstrip("\ufeff \t\r\n").lower()
    return start.startswith(("<!doctype", "<html", "<head", "<body", "<?xml", "<!--")) or "<html" in start


def _build(error: dict[str, Json], form: str) -> ErrorBody:
    message = next((text for key in _MESSAGE_KEYS if (text := _text(error.get(key)))), "")
    words = [_text(error.get(key)) for key in ("type", "error_type", "code", "param")]
    return ErrorBody(message, " ".join(word for word in words if word), _code(error), form)


def _code(error: dict[str, Json]) -> int | None:
    for key in ("code", "status", "status_code", "error_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if value // 100 in (429, *range(500, 510)):  # FastChat: 42901, 50002; its 403xx are no HTTP status
                return value // 100
            if 400 <= value <= 599:
                return value
    return None


def _text(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        return "" if value in ("None", "null") else value[:_READ]
    if isinstance(value, dict):
        inner = error_body_in(value)
        if inner is not None and inner.message:
            return inner.message
        parts = [part for key in _MESSAGE_KEYS if (part := _text(value.get(key)))]
        return parts[0] if parts else json.dumps(value)[:_READ]
    if isinstance(value, list):
        return "; ".join(part for item in value[:5] if (part := _text(item)))
    return str(value)[:100]


# From an HTTP error, or an error said under HTTP 200, to the reason it stands for.

_LOADING_STATUS = frozenset({200, 409, 425, 429, 500, 502, 503})
_BY_STATUS = {
    400: ServerReason.BAD_REQUEST,
    401: ServerReason.AUTH,
    402: ServerReason.AUTH,
    403: ServerReason.AUTH,
    404: ServerReason.NOT_FOUND,
    405: ServerReason.NOT_FOUND,
    407: ServerReason.AUTH,
    408: ServerReason.GATEWAY_TIMEOUT,
    410: ServerReason.NOT_FOUND,
    424: ServerReason.SERVER_ERROR,
    425: ServerReason.LOADING,
    429: ServerReason.BUSY,
    499: ServerReason.GATEWAY_TIMEOUT,
    502: ServerReason.UPSTREAM_DOWN,
    504: ServerReason.GATEWAY_TIMEOUT,
    # Cloudflare: 520–523, 525–527, 530 = the origin could not be spoken to; 524 = it was, and did not answer in time.
    520: ServerReason.UPSTREAM_DOWN,
    521: ServerReason.UPSTREAM_DOWN,
    522: ServerReason.UPSTREAM_DOWN,
    523: ServerReason.UPSTREAM_DOWN,
    524: ServerReason.GATEWAY_TIMEOUT,
    525: ServerReason.UPSTREAM_DOWN,
    526: ServerReason.UPSTREAM_DOWN,
    527: ServerReason.UPSTREAM_DOWN,
    529: ServerReason.BUSY,
    530: ServerReason.UPSTREAM_DOWN,
    598: ServerReason.GATEWAY_TIMEOUT,
    599: ServerReason.GATEWAY_TIMEOUT,
}
_STATUS_BY_KIND = (
    ("auth", 401),
    ("permission", 403),
    ("overloaded", 529),
    ("rate_limit", 429),
    ("ratelimit", 429),
    ("badrequest", 400),
    ("invalid_request", 400),
    ("validation", 422),
    ("notfound", 404),
    ("not_found", 404),
    ("timeout", 504),
    ("unavailable", 503),
)


def reason_of(status: int, error_body: ErrorBody, *, in_stream: bool = False) -> ServerReason:
    """The reason that `error_body`, said under HTTP `status`, stands for. `status` 200 is an error inside a reply.

    `in_stream`: it came in an opened stream. The request was accepted by then, so a code of a bad request weighs less
    than the words: engines send it for whatever ended their stream.
    """
    if 300 <= status <= 399:
        return ServerReason.NOT_FOUND
    said_in_reply = status < 400
    if said_in_reply:
        status = error_body.code or _status_by_kind(error_body.kind.lower())
        if error_body.code is None and error_body.form == "string" and phrases.NO_SUCH_PATH.search(error_body.haystack):
            return ServerReason.NOT_FOUND  # LM Studio: "Unexpected endpoint or method. … Returning 200 anyway"
    elif status == 400 and error_body.code is not None and (error_body.code >= 500 or error_body.code == 429):
        status = error_body.code  # FastChat says everything under 400, and what it is in the body
    if status in (401, 403, 407):
        return ServerReason.AUTH
    by_words = _by_words(status, error_body)
    if by_words is not None:
        return by_words
    by_status = _by_status(status, error_body)
    if in_stream and by_status is ServerReason.BAD_REQUEST and not phrases.REQUEST_FAULT.search(error_body.haystack):
        return (
            ServerReason.ENGINE_DEAD if phrases.ENGINE_DEAD.search(error_body.haystack) else ServerReason.SERVER_ERROR
        )
    return by_status


def names_request(error_body: ErrorBody) -> bool:
    """Whether the error is about something in the request."""
    words = error_body.haystack
    return bool(phrases.REQUEST_FAULT.search(words) or phrases.TOO_LONG.search(words))


def wants_tls(error_body: ErrorBody) -> bool:
    """Whether the port says that it speaks TLS, to a request in plain HTTP."""
    return bool(phrases.TLS_PORT.search(error_body.haystack))


def refuses_this_machine(status: int, error_body: ErrorBody) -> bool:
    """Whether a 403 is about who we are on the network, not about our key: an allow-list, or a proxy's own page."""
    if status != 403 or phrases.NO_KEY.search(error_body.haystack):
        return False
    return error_body.form in ("html", "none") or bool(phrases.NOT_THIS_MACHINE.search(error_body.haystack))


def wants_other_limit(status: int, error_body: ErrorBody) -> bool:
    """Whether the server refuses `max_tokens` and asks for `max_completion_tokens` (OpenAI, LiteLLM)."""
    return status in (400, 422) and bool(phrases.OTHER_LIMIT.search(error_body.haystack))


def _by_words(status: int, error_body: ErrorBody) -> ServerReason | None:
    words = error_body.haystack
    server_side = status >= 500 or status in (408, 424, 429)
    found = _whatever_the_status(error_body, words)
    if found is not None:
        return found
    if (
        status in _LOADING_STATUS
        and phrases.STILL_LOADING.search(words)
        and not phrases.LOAD_FAILED.search(error_body.message.lower())
    ):
        found = ServerReason.LOADING
    elif server_side or "crashed" in words:
        found = _server_side(status, error_body, words)
    if found is None and error_body.form != "html":
        found = _our_side(status, error_body, words)
    return found


def _whatever_the_status(error_body: ErrorBody, words: str) -> ServerReason | None:
    if phrases.TUNNEL_DOWN.search(words):
        return ServerReason.UPSTREAM_DOWN
    if error_body.form != "html" and phrases.ENGINE_SURELY_DEAD.search(words):
        return ServerReason.ENGINE_DEAD
    if phrases.TOO_LONG.search(words):
        return ServerReason.BAD_REQUEST
    return ServerReason.SERVER_ERROR if phrases.GPU_OUT_OF_MEMORY.search(words) else None


def _server_side(status: int, error_body: ErrorBody, words: str) -> ServerReason | None:
    if phrases.ENGINE_DEAD.search(words):
        return ServerReason.ENGINE_DEAD
    if "maximum pending requests" not in words and phrases.UPSTREAM_DOWN.search(words):
        return ServerReason.UPSTREAM_DOWN
    if status in (500, 502, 503) and phrases.TIMED_OUT.search(words):
        return ServerReason.GATEWAY_TIMEOUT
    if status == 503 and error_body.form == "html" and phrases.LIMITED_BY_NGINX.search(words):
        return ServerReason.BUSY
    if status in (500, 502, 503, 529) and error_body.form != "html" and phrases.AT_CAPACITY.search(words):
        return ServerReason.BUSY
    return ServerReason.AUTH if status == 500 and phrases.NO_KEY.search(words) else None


def _our_side(status: int, error_body: ErrorBody, words: str) -> ServerReason | None:
    if status == 503:
        return ServerReason.UNKNOWN_MODEL if phrases.NONE_LOADED.search(words) else None
    if status >= 500 or status == 429:
        return None
    if status == 404 and error_body.form == "string" and phrases.HUB_FAILURE.search(words):
        return ServerReason.SERVER_ERROR  # mlx-lm: 404 with a string for any failure to load or to generate
    if phrases.NO_SUCH_MODEL.search(words):
        return ServerReason.UNKNOWN_MODEL
    return ServerReason.AUTH if status in (400, 422) and phrases.NO_KEY.search(words) else None


def _by_status(status: int, error_body: ErrorBody) -> ServerReason:
    if status == 404 and error_body.form == "string" and not phrases.NO_SUCH_PATH.search(error_body.haystack):
        return ServerReason.SERVER_ERROR
    if status == 501:
        return ServerReason.BAD_REQUEST if error_body.form in ("nested", "flat", "string") else ServerReason.NOT_FOUND
    if status == 503:
        gateways_own = error_body.form in ("html", "text", "none", "bare")
        no_cause = phrases.NO_CAUSE_GIVEN.search(error_body.message.lower())
        return ServerReason.UPSTREAM_DOWN if gateways_own or no_cause else ServerReason.SERVER_ERROR
    known = _BY_STATUS.get(status)
    return known or (ServerReason.BAD_REQUEST if status < 500 else ServerReason.SERVER_ERROR)


def _status_by_kind(kind: str) -> int:
    return next((status for word, status in _STATUS_BY_KIND if word in kind), 500)
