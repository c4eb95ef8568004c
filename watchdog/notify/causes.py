"""Why a service could not be reached, in plain words: apprise says "a connection error occurred" of everything.

A web request's own exception is kept by `bounded_http`; a mail server is asked once more, as far as a login.
"""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

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
