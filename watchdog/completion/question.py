"""The request body of a probe."""

from __future__ import annotations

import json

from watchdog.config import ServerSettings
from watchdog.model import Json

MAX_TOKENS = "max_tokens"
MAX_COMPLETION_TOKENS = "max_completion_tokens"
"""Only after a 400 that asks for it: Ollama and transformers serve ignore this name and generate without limit."""


def question(server: ServerSettings, model: str | None, nonce: str, limit_field: str = MAX_TOKENS) -> bytes:
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
