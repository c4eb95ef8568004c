"""Which models a server lists, and which it holds in memory now."""

from __future__ import annotations

from watchdog.model import Json

LOOK_PATHS = ("/api/ps", "/running", "/api/v0/models")
"""Where on-demand servers say what is loaded, from the server's root: Ollama, llama-swap, LM Studio."""


def served_models(payload: Json) -> tuple[str, ...] | None:
    """Names of the models in a `/v1/models` reply, adapters of another one left out; None if it is no such list."""
    data = payload.get("data") if isinstance(payload, dict) else None
    if not isinstance(data, list):
        return None
    found = [m for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)]
    return tuple(m["id"] for m in found if not m.get("parent")) or tuple(m["id"] for m in found)


def loaded_models(path: str, payload: Json) -> tuple[str, ...] | None:
    """Names of the models in memory according to the reply of one of `LOOK_PATHS`; None if it does not say.

    A server that answers every path, or lists its models in OpenAI's form there, says nothing about its memory: only
    entries with the field that tells of it count (LM Studio's `state`; a name with Ollama and llama-swap).
    """
    if not isinstance(payload, dict):
        return None
    key = {"/api/ps": "models", "/running": "running", "/api/v0/models": "data"}[path]
    entries = payload.get(key)
    if not isinstance(entries, list):
        return None
    telling = ("state",) if path == "/api/v0/models" else ("model", "name")
    told = [entry for entry in entries if isinstance(entry, dict) and any(_is_text(entry.get(one)) for one in telling)]
    if not told and (entries or path == "/api/v0/models"):
        return None
    names = []
    for entry in told:
        if entry.get("state", "loaded") not in ("loaded", "ready"):
            continue
        name = entry.get("model") or entry.get("name") or entry.get("id")
        if isinstance(name, str) and name:
            names.append(name)
    return tuple(names)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def same_model(asked: str, listed: str) -> bool:
    """Whether `listed` is the model that was asked for; Ollama lists `name:latest` for `name`."""
    return listed in (asked, f"{asked}:latest")
