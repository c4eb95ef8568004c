"""One small, bounded HTTP request, as the heartbeat, the standby and Alertmanager need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import aiohttp
from yarl import URL

from watchdog.chat.connection import connection_error

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
            return HttpReply(reply.status, body.decode("utf-8", "replace"))
    except TimeoutError:
        return HttpReply(None, problem=f"no answer within {timeout_s:g} s", timed_out=True)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return HttpReply(None, problem=connection_error(error)[1])
