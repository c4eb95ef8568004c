"""Bounds what apprise's plugins read of a receiver's answer, and notes what the receiver answered.

The plugins call `requests`, which reads an answer whole: 1 GiB of it were 2 GiB of memory. Its `Session.send` is
wrapped for the threads that have an `Exchange`; every other use of it goes on as before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from watchdog.http_call import retry_after_s

READ_LIMIT_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_current = threading.local()


@dataclass(slots=True)
class Exchange:
    """What is known of one send. `deadline` is on `time.monotonic`: until then an answer may be read."""

    deadline: float
    amend: Callable[[Any], None] | None = None
    """What is done to each prepared request before it is sent."""
    answer: bytes = b""
    """The beginning of the last answer."""
    status: int | None = None
    error: Exception | None = None
    """Why there was no answer; the plugins keep it to themselves."""
    retry_after_s: float = 0.0

    @classmethod
    def lasting(cls, seconds: float) -> Exchange:
        """One that may read for so many seconds from now on."""
        return cls(time.monotonic() + seconds)  # noqa: TID251 - on a thread of its own, where no clock of ours is

    def __enter__(self) -> Self:
        """Bound what this thread reads."""
        _wrap()
        _current.exchange = self
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop bounding."""
        _current.exchange = None

    def begin(self) -> None:
        """Forget what an earlier request of this send came to."""
        self.status, self.error, self.answer = None, None, b""

    @property
    def refused(self) -> bool:
        """Whether the receiver is there and does not want this message (5xx too: it may choke on this one alone)."""
        return self.status is not None and self.status >= 300


def _wrap() -> None:
    import requests  # noqa: PLC0415 - comes with apprise, only for who sends

    plain = requests.sessions.Session.send
    if getattr(plain, "is_bounded", False):
        return

    def send(session: Any, request: Any, **options: Any) -> Any:
        exchange: Exchange | None = getattr(_current, "exchange", None)
        if exchange is None:
            return plain(session, request, **options)
        if exchange.amend is not None:
            exchange.amend(request)
        try:
            response = plain(session, request, **(options | {"stream": True}))
        except Exception as error:
            exchange.error = error
            raise
        _note(exchange, response)
        response._content = exchange.answer = _bounded(response.raw, exchange.deadline)
        response._content_consumed = True
        response.close()
        return response

    send.is_bounded = True  # type: ignore[attr-defined]  # marks our own wrapper
    requests.sessions.Session.send = send  # type: ignore[assignment,method-assign]


def _note(exchange: Exchange, response: Any) -> None:
    exchange.status = int(response.status_code)
    exchange.retry_after_s = retry_after_s(response.headers) or exchange.retry_after_s


def _bounded(raw: Any, deadline: float) -> bytes:
    """The beginning of an answer: at most `READ_LIMIT_BYTES`, unpacked, and not after `deadline`."""
    body = bytearray()
    while len(body) < READ_LIMIT_BYTES and time.monotonic() < deadline:  # noqa: TID251 - see `lasting`
        chunk = raw.read1(_CHUNK_BYTES, decode_content=True)
        if not chunk:
            break
        body += chunk
    return bytes(body[:READ_LIMIT_BYTES])
