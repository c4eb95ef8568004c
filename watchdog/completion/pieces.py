"""Where the generated text can be in a message or a delta, over all engines."""

from __future__ import annotations

from typing import NamedTuple
from unicodedata import category

from watchdog.model import Json

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_TEXT_KEYS = ("text", "content", "refusal", "thinking", "reasoning", "summary")
_DEPTH = 8
_INVISIBLE = ("Cc", "Cf")


class Pieces(NamedTuple):
    """Text found in one message or delta; "" where there is none."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls_tool: bool = False


def pieces_of(message: Json) -> Pieces:
    """Read one `message` or `delta`. Anything of an unexpected type is no text, never an error."""
    if not isinstance(message, dict):
        return Pieces()
    content, reasoning = _content(message.get("content"))
    for field in _REASONING_FIELDS:
        found = _flatten(message.get(field))
        if found:
            reasoning += found
            break
    else:
        reasoning += _flatten(message.get("reasoning_details"))
    refusal = message.get("refusal")
    return Pieces(content, reasoning, refusal if isinstance(refusal, str) else "", _calls_tool(message))


def is_blank(text: str) -> bool:
    """Whether nobody would see anything: white space, controls, zero-width and other invisible characters."""
    return all(sign.isspace() or category(sign) in _INVISIBLE for sign in text)


def wrong_type_in(message: Json) -> str:
    """What stands where a message or its content should, if it is of a type that no server means; else ""."""
    if message is not None and not isinstance(message, dict):
        return f"a message that is a JSON {type(message).__name__}"
    content = message.get("content") if message else None
    if content is not None and not isinstance(content, str | list):
        return f"content that is a JSON {type(content).__name__}"
    return ""


def _content(content: Json) -> tuple[str, str]:
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        return "", ""
    text: list[str] = []
    reasoning: list[str] = []
    for part in content:
        thinks = isinstance(part, dict) and str(part.get("type", "")) in ("thinking", "reasoning")
        (reasoning if thinks else text).append(_flatten(part))
    return "".join(text), "".join(reasoning)


def _flatten(value: Json, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth >= _DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(_flatten(item, depth + 1) for item in value)
    if isinstance(value, dict):
        for key in _TEXT_KEYS:
            found = _flatten(value.get(key), depth + 1)
            if found:
                return found
    return ""


def _calls_tool(message: dict[str, Json]) -> bool:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and any(_names_function(call) for call in calls):
        return True
    call = message.get("function_call")
    return isinstance(call, dict) and _names_function({"function": call})


def _names_function(call: Json) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return False
    return any(isinstance(v, str) and v.strip() for v in (function.get("name"), function.get("arguments")))
