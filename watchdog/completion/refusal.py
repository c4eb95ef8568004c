"""From an HTTP error, or an error said under HTTP 200, to the reason it stands for.

The words of the body come before the status: gateways repeat the errors of what is behind them under any status.
"""

from __future__ import annotations

from watchdog.completion import phrases
from watchdog.completion.complaint import Complaint
from watchdog.completion.reason import Reason

_LOADING_STATUS = frozenset({200, 409, 425, 429, 500, 502, 503})
_BY_STATUS = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH,
    402: Reason.AUTH,
    403: Reason.AUTH,
    404: Reason.NOT_FOUND,
    405: Reason.NOT_FOUND,
    407: Reason.AUTH,
    408: Reason.GATEWAY_TIMEOUT,
    410: Reason.NOT_FOUND,
    424: Reason.SERVER_ERROR,
    425: Reason.LOADING,
    429: Reason.BUSY,
    499: Reason.GATEWAY_TIMEOUT,
    502: Reason.UPSTREAM_DOWN,
    504: Reason.GATEWAY_TIMEOUT,
    # Cloudflare: 520–523, 525–527, 530 = the origin could not be spoken to; 524 = it was, and did not answer in time.
    520: Reason.UPSTREAM_DOWN,
    521: Reason.UPSTREAM_DOWN,
    522: Reason.UPSTREAM_DOWN,
    523: Reason.UPSTREAM_DOWN,
    524: Reason.GATEWAY_TIMEOUT,
    525: Reason.UPSTREAM_DOWN,
    526: Reason.UPSTREAM_DOWN,
    527: Reason.UPSTREAM_DOWN,
    529: Reason.BUSY,
    530: Reason.UPSTREAM_DOWN,
    598: Reason.GATEWAY_TIMEOUT,
    599: Reason.GATEWAY_TIMEOUT,
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


def reason_of(status: int, complaint: Complaint) -> Reason:
    """The reason that `complaint`, said under HTTP `status`, stands for. `status` 200 is an error inside a reply."""
    if 300 <= status <= 399:
        return Reason.NOT_FOUND
    said_in_reply = status < 400
    if said_in_reply:
        status = complaint.code or _status_by_kind(complaint.kind.lower())
        if complaint.code is None and complaint.form == "string" and phrases.NO_SUCH_PATH.search(complaint.haystack):
            return Reason.NOT_FOUND  # LM Studio: "Unexpected endpoint or method. … Returning 200 anyway"
    elif status == 400 and complaint.code is not None and (complaint.code >= 500 or complaint.code == 429):
        status = complaint.code  # FastChat says everything under 400, and what it is in the body
    if status in (401, 403, 407):
        return Reason.AUTH
    by_words = _by_words(status, complaint)
    if by_words is not None:
        return by_words
    return _by_status(status, complaint)


def wants_other_limit(status: int, complaint: Complaint) -> bool:
    """Whether the server refuses `max_tokens` and asks for `max_completion_tokens` (OpenAI, LiteLLM)."""
    return status in (400, 422) and bool(phrases.OTHER_LIMIT.search(complaint.haystack))


def _by_words(status: int, complaint: Complaint) -> Reason | None:
    words = complaint.haystack
    server_side = status >= 500 or status in (408, 424, 429)
    found = _whatever_the_status(complaint, words)
    if found is not None:
        return found
    if (
        status in _LOADING_STATUS
        and phrases.STILL_LOADING.search(words)
        and not phrases.LOAD_FAILED.search(complaint.message.lower())
    ):
        found = Reason.LOADING
    elif server_side or "crashed" in words:
        found = _server_side(status, complaint, words)
    if found is None and complaint.form != "html":
        found = _our_side(status, complaint, words)
    return found


def _whatever_the_status(complaint: Complaint, words: str) -> Reason | None:
    if phrases.TUNNEL_DOWN.search(words):
        return Reason.UPSTREAM_DOWN
    if complaint.form != "html" and phrases.ENGINE_SURELY_DEAD.search(words):
        return Reason.ENGINE_DEAD
    return Reason.BAD_REQUEST if phrases.TOO_LONG.search(words) else None


def _server_side(status: int, complaint: Complaint, words: str) -> Reason | None:
    if phrases.ENGINE_DEAD.search(words):
        return Reason.ENGINE_DEAD
    if "maximum pending requests" not in words and phrases.UPSTREAM_DOWN.search(words):
        return Reason.UPSTREAM_DOWN
    if status in (500, 502, 503) and phrases.TIMED_OUT.search(words):
        return Reason.GATEWAY_TIMEOUT
    if status in (500, 502, 503, 529) and complaint.form != "html" and phrases.AT_CAPACITY.search(words):
        return Reason.BUSY
    return Reason.AUTH if status == 500 and phrases.NO_KEY.search(words) else None


def _our_side(status: int, complaint: Complaint, words: str) -> Reason | None:
    if status == 503:
        return Reason.UNKNOWN_MODEL if phrases.NONE_LOADED.search(words) else None
    if status >= 500 or status == 429:
        return None
    if status == 404 and complaint.form == "string" and phrases.HUB_FAILURE.search(words):
        return Reason.SERVER_ERROR  # mlx-lm: 404 with a string for any failure to load or to generate
    if phrases.NO_SUCH_MODEL.search(words):
        return Reason.UNKNOWN_MODEL
    return Reason.AUTH if status in (400, 422) and phrases.NO_KEY.search(words) else None


def _by_status(status: int, complaint: Complaint) -> Reason:
    if status == 404 and complaint.form == "string" and not phrases.NO_SUCH_PATH.search(complaint.haystack):
        return Reason.SERVER_ERROR
    if status == 501:
        return Reason.BAD_REQUEST if complaint.form in ("nested", "flat", "string") else Reason.NOT_FOUND
    if status == 503:
        gateways_own = complaint.form in ("html", "text", "none", "bare")
        no_cause = phrases.NO_CAUSE_GIVEN.search(complaint.message.lower())
        return Reason.UPSTREAM_DOWN if gateways_own or no_cause else Reason.SERVER_ERROR
    known = _BY_STATUS.get(status)
    return known or (Reason.BAD_REQUEST if status < 500 else Reason.SERVER_ERROR)


def _status_by_kind(kind: str) -> int:
    return next((status for word, status in _STATUS_BY_KIND if word in kind), 500)
