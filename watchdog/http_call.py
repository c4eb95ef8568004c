"""One small, bounded HTTP request, as the heartbeat, the standby and Alertmanager need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

import aiohttp
from yarl import URL

from watchdog.chat.connection_errors import connection_error

PROGRAM = "inference-watchdog"
"""What /healthz says of itself, so that a standby knows a watchdog from any other service."""


class Role(StrEnum):
    """What /healthz says of its watchdog: does it alert by itself, or only in another one's place?"""

    FIRST = "first"
    STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back: the status and the beginning of the body; or no status, and why (`problem`, without the URL)."""

    status: int | None
    body: str = ""
    problem: str = ""
    timed_out: bool = False
    retry_after_s: float = 0.0


LONGEST_RETRY_AFTER_S = 900.0


def retry_after_s(headers: Mapping[str, str]) -> float:
    """How long an answer asks to wait (RFC 9110, 10.2.3), at most 15 min; 0 if it does not say.

    A date is compared with the answer's own, so that neither our clock nor theirs need be right.
    """
    after = headers.get("Retry-After", "").strip()
    if after.isascii() and after.isdigit():
        return min(float(after), LONGEST_RETRY_AFTER_S) if len(after) < 10 else 0.0
    try:
        wait_s = (parsedate_to_datetime(after) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
    except (ValueError, TypeError, OverflowError):  # no date, or one of the two without a zone
        return 0.0
    return min(max(wait_s, 0.0), LONGEST_RETRY_AFTER_S)


async def http_call(
    method: str,
    url: URL | str,
    *,
    timeout_s: float,
    data: bytes | None = None,
    json: Any = None,
    headers: Mapping[str, str] | None = None,
    read_bytes: int = 0,
) -> HttpReply:
    """Send one request on a connection of its own; `timeout_s` bounds all of it. Never raises for a failed request.

    No redirect is followed, no cookie kept, no proxy taken from the environment; at most `read_bytes` of the body are
    read.
    """
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session,
            session.request(method, url, data=data, json=json, headers=headers, allow_redirects=False) as reply,
        ):
            body = await reply.content.read(read_bytes) if read_bytes else b""
            waits_s = retry_after_s(reply.headers)
            return HttpReply(reply.status, body.decode("utf-8", "replace"), retry_after_s=waits_s)
    except TimeoutError:
        return HttpReply(None, problem=f"no answer within {timeout_s:g} s", timed_out=True)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return HttpReply(None, problem=connection_error(error)[1])
