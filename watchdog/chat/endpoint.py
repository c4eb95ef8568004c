"""From a server's settings to what its requests need: addresses, headers, TLS, proxy."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from urllib.request import getproxies, proxy_bypass

from multidict import CIMultiDict
from yarl import URL

from watchdog.config import ServerSettings
from watchdog.errors import WatchdogError
from watchdog.model import Json

_CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server's addresses and how to reach them. Holds secrets in `headers`: never shown."""

    base: URL
    headers: CIMultiDict[str]
    tls: ssl.SSLContext | bool
    proxy: str | None

    def __repr__(self) -> str:
        return f"Endpoint({self.base})"

    @property
    def chat(self) -> URL:
        """The URL that completions are posted to."""
        return self.base.with_path(self.base.raw_path.rstrip("/") + _CHAT, encoded=True, keep_query=True)

    @property
    def models(self) -> URL:
        """The URL of the list of served models."""
        return self.base.with_path(self.base.raw_path.rstrip("/") + "/models", encoded=True, keep_query=True)

    def root(self, path: str) -> URL:
        """`path` next to the API: below the same prefix where a gateway has one, with `/v1` taken off."""
        prefix = self.base.raw_path.rstrip("/").removesuffix("/v1")
        return self.base.with_path(prefix + path, encoded=True)


def endpoint_of(server: ServerSettings) -> Endpoint:
    """Build the endpoint of `server`. Raises WatchdogError for an address or a CA file that cannot be used."""
    try:
        base = URL(server.base_url)
    except ValueError as error:
        raise WatchdogError(f"server {server.name}: base_url is not a valid URL: {error}") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise WatchdogError(f"server {server.name}: base_url must start with http:// or https:// and name a host")
    headers = CIMultiDict({"Accept-Encoding": "identity", "Accept": "*/*"})
    if server.api_key is not None:
        headers["Authorization"] = f"Bearer {server.api_key.reveal()}"
    for name, secret in server.headers.items():
        headers[name] = secret.reveal()
    for name, value in headers.items():
        if any(character in name + value for character in "\r\n\0"):
            raise WatchdogError(f"server {server.name}: the header {name!r} or the key holds a line break")
    return Endpoint(base, headers, _tls_of(server), _proxy_of(server, base))


def _tls_of(server: ServerSettings) -> ssl.SSLContext | bool:
    if not server.verify_tls:
        return False
    if server.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=server.ca_file)
    except (OSError, ValueError) as error:
        raise WatchdogError(f"server {server.name}: ca_file cannot be used: {error}") from None


def _proxy_of(server: ServerSettings, base: URL) -> str | None:
    if not server.proxy_from_environment or base.host is None or proxy_bypass(base.host):
        return None
    proxy = getproxies().get(base.scheme)
    return proxy if proxy and proxy.startswith(("http://", "https://")) else None


# The request body of a probe.

MAX_TOKENS = "max_tokens"
MAX_COMPLETION_TOKENS = "max_completion_tokens"
"""Only after a 400 that asks for it: Ollama and transformers serve ignore this name and generate without limit."""


def request_body(server: ServerSettings, model: str | None, nonce: str, limit_field: str = MAX_TOKENS) -> bytes:
    """One short chat request as JSON bytes. The nonce stands first, so that no cache in between can answer.

    `extra_body` adds keys (for example `chat_template_kwargs`) or, with null, leaves one of ours out; it can change
    neither the messages, nor streaming, nor that a limit is always sent: without one some servers generate for ever.
    """
    body: dict[str, Json] = {"temperature": 0}
    if model is not None:
        body["model"] = model
    body.update(server.extra_body)
    body = {key: value for key, value in body.items() if value is not None}
    for key in (MAX_TOKENS, MAX_COMPLETION_TOKENS, "n"):
        body.pop(key, None)
    body[limit_field] = server.probe.max_tokens
    body["stream"] = server.probe.stream
    body["messages"] = [{"role": "user", "content": f"[{nonce}] Say ok."}]
    return json.dumps(body, separators=(",", ":")).encode()
