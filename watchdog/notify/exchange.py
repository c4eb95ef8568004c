"""One send through apprise: bounds what its plugins read of the answer, notes it, and says why there was none.

The plugins call `requests`, which reads an answer whole: 1 GiB of it were 2 GiB of memory. Its `Session.send` is
wrapped for the threads that have an `Exchange`; every other use of it goes on as before.
"""

from __future__ import annotations

import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
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


# Why a service could not be reached, in plain words: apprise says "a connection error occurred" of everything.

_SSL_WORDS = {
    10: "its certificate has expired",
    9: "its certificate is not valid yet",
    18: "its certificate is self-signed",
    19: "its certificate is signed by an authority that this machine does not trust",
    20: "its certificate is signed by an authority that this machine does not trust",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}
"""OpenSSL's X509_V_ERR_… → words."""
_MAIL_TIMEOUT_S = 5.0


def cause_of(error: BaseException) -> str:
    """What is behind an exception of the connection; "" if it says nothing that helps."""
    for inner in _chain(error):
        words = _words(inner)
        if words:
            return words
    return ""


def mail_cause(plugin: Any) -> str:
    """Ask the mail server of an e-mail plugin what is wrong, up to the login; "" for nothing, or for another plugin.

    Blocks for at most a few seconds; nothing is sent.
    """
    host, mode = getattr(plugin, "smtp_host", ""), getattr(plugin, "secure_mode", "")
    if not host:
        return ""
    trust = ssl.create_default_context()
    try:
        server: smtplib.SMTP = (
            smtplib.SMTP_SSL(host, plugin.port, timeout=_MAIL_TIMEOUT_S, context=trust)
            if mode == "ssl"
            else smtplib.SMTP(host, plugin.port, timeout=_MAIL_TIMEOUT_S)
        )
        with server:
            if mode == "starttls":
                server.starttls(context=trust)
            if plugin.user and plugin.password:
                server.login(plugin.user, plugin.password)
    except (OSError, smtplib.SMTPException) as error:
        return cause_of(error)
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was raised from or wraps, the innermost first; urllib3 keeps them in `reason` and `args`."""
    seen: list[BaseException] = []
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < 20:
        one = waiting.pop()
        if one not in seen:
            seen.append(one)
            linked = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
            waiting += [other for other in linked if isinstance(other, BaseException)]
    return iter(reversed(seen))


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _SSL_WORDS.get(error.verify_code, f"its certificate is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        plain_text = error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
        handshake = f"the TLS handshake failed: {error.reason or 'no reason given'}"
        return "what listens on that port does not speak TLS" if plain_text else handshake
    named = next((words for kind, words in _WORDS if isinstance(error, kind)), "")
    if not named and isinstance(error, OSError) and error.errno is not None:
        return error.strerror or ""
    return named


_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "its name is not known: no such address"),
    (ConnectionRefusedError, "nothing listens on that port"),
    (TimeoutError, "it does not answer in time"),
    (smtplib.SMTPAuthenticationError, "it refuses the user name or password"),
    (
        smtplib.SMTPNotSupportedError,
        "it offers no STARTTLS; use mailtos://…?mode=ssl for a server that speaks TLS from the start",
    ),
    (smtplib.SMTPServerDisconnected, "it closed the connection"),
    (ConnectionResetError, "it closed the connection"),
    (BrokenPipeError, "it closed the connection"),
)
