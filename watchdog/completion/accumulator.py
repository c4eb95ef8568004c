"""What the payloads of one reply add up to: text, finish, counts. The same for streamed and plain replies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from unicodedata import category

from watchdog.completion.error_body import ErrorBody, error_body_in
from watchdog.model import Json

# Where the generated text can be in a message or a delta, over all engines.

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_THINKS = re.compile(r"reason|think|thought", re.IGNORECASE)
_NO_TEXT = re.compile(r"finish|stop|token|signature|effort|budget|status", re.IGNORECASE)
_TEXT_KEYS = ("text", "content", "refusal", "thinking", "reasoning", "thought", "summary")
_DEPTH = 8
_INVISIBLE = ("Cc", "Cf")


class MessageText(NamedTuple):
    """Text found in one message or delta; "" where there is none."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls_tool: bool = False


def message_text(message: Json) -> MessageText:
    """Read one `message` or `delta`. Anything of an unexpected type is ignored, never an error."""
    if not isinstance(message, dict):
        return MessageText()
    content, reasoning = _content(message.get("content"))
    # Known names first; then whatever is named like thinking and shaped like text, for engines name it as they like.
    others = [name for name in message if _THINKS.search(name) and not _NO_TEXT.search(name)]
    fields = dict.fromkeys([*_REASONING_FIELDS, *others])
    found = [text for field in fields if (text := _flatten(message.get(field)))]
    # Engines repeat the same text in several fields: take one, and never a blank one before one with text.
    reasoning += next((text for text in found if not is_blank(text)), found[0] if found else "")
    refusal = message.get("refusal")
    return MessageText(content, reasoning, refusal if isinstance(refusal, str) else "", _calls_tool(message))


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
        thinks = isinstance(part, dict) and bool(_THINKS.search(str(part.get("type", ""))))
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


# Reasoning that a server without a reasoning parser leaves inline in the content.

_TAG = re.compile(
    r"<(?P<close>/)?(?:think|thinking|thought|reasoning|seed:think)>|\[(?P<close2>/)?THINK\]"
    r"|(?P<open3><\|channel\|>analysis<\|message\|>)|(?P<close3><\|end\|>|<\|channel\|>final<\|message\|>)",
    re.IGNORECASE,
)


def split_thinking(content: str) -> tuple[str, str]:
    """Return `(text, reasoning)` of `content`: tags taken out, an unclosed block runs to the end.

    A closing tag alone means that the chat template had opened the block. Content without tags is returned unchanged.
    """
    if "<" not in content and "[" not in content:
        return content, ""
    tags = list(_TAG.finditer(content))
    if not tags:
        return content, ""
    text: list[str] = []
    reasoning: list[str] = []
    thinking, position = _closes(tags[0]), 0
    for tag in tags:
        (reasoning if thinking else text).append(content[position : tag.start()])
        thinking, position = not _closes(tag), tag.end()
    (reasoning if thinking else text).append(content[position:])
    return "".join(text).strip(), "".join(reasoning).strip()


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag["close"] or tag["close2"] or tag["close3"])


_SAYS_LOADING = re.compile(r"llama-swap|\bload(ing)?\b|swapping|starting", re.IGNORECASE)
_SWAPPER = re.compile(r"llama-swap|loading model", re.IGNORECASE)


class ReplyAccumulator:
    """Adds up `choices` and `usage` of one payload after the other."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._banner: list[str] = []
        self.calls_tool = False
        self.choices_seen = 0
        self.wrong_type = ""
        self.finish_reason: str | None = None
        self.finish_error: ErrorBody | None = None
        self.completion_tokens: int | None = None
        self.model: str | None = None
        self.chunks = 0
        self.first_at_s: float | None = None
        self.last_at_s: float | None = None

    def add(self, at_s: float, payload: dict[str, Json], *, streamed: bool) -> None:
        """Take one whole reply, or one chunk of a stream, that arrived `at_s` seconds after the request."""
        if isinstance(payload.get("model"), str):
            self.model = payload["model"]
        usage = payload.get("usage")
        if isinstance(usage, dict):
            counted = usage.get("completion_tokens")
            if isinstance(counted, int) and not isinstance(counted, bool):
                self.completion_tokens = counted
        anonymous = streamed and not any(payload.get(key) for key in ("id", "object", "model"))
        choices = payload.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._choice(at_s, choice, anonymous=anonymous)
            else:
                self.wrong_type = f"a choice that is a JSON {type(choice).__name__}"

    def _choice(self, at_s: float, choice: dict[str, Json], *, anonymous: bool) -> None:
        self.choices_seen += 1
        message = choice.get("delta") or choice.get("message")
        self.wrong_type = self.wrong_type or wrong_type_in(message)
        found = message_text(message)
        if isinstance(choice.get("text"), str) and not found.content:
            found = found._replace(content=choice["text"])
        finish = choice.get("finish_reason")
        if isinstance(finish, dict):
            if finish.get("message"):
                self.finish_error = error_body_in({"error": finish})  # SGLang: `abort`, with why and a status
            finish = finish.get("type")
        if isinstance(finish, str) and finish:
            self.finish_reason = finish
        if anonymous:
            found = self._without_banner(found)
        if not (found.content or found.reasoning or found.refusal or found.calls_tool):
            return
        self._content.append(found.content)
        self._reasoning.append(found.reasoning)
        self._refusal.append(found.refusal)
        self.calls_tool |= found.calls_tool
        self.chunks += 1
        self.first_at_s = at_s if self.first_at_s is None else self.first_at_s
        self.last_at_s = at_s

    def _without_banner(self, found: MessageText) -> MessageText:
        # llama-swap writes its own "loading model" banner as reasoning, in chunks without id, object and model.
        if found.reasoning:
            self._banner.append(found.reasoning)
        if _SWAPPER.search(found.content):
            self._banner.append(found.content)
            return MessageText()
        return found._replace(reasoning="")

    @property
    def banner_says_loading(self) -> bool:
        """Whether a model swapper's banner, which does not count as a token, said that the model is being loaded."""
        return bool(_SAYS_LOADING.search("".join(self._banner)))

    @property
    def has_text(self) -> bool:
        """Whether anything generated and not blank arrived, in whatever field; a think tag alone counts."""
        return self.calls_tool or any(_visible(parts) for parts in (self._content, self._reasoning, self._refusal))

    def text_and_reasoning(self) -> tuple[str, str]:
        """`(text, reasoning)` without think tags; "" where blank. A refusal stands in for missing content."""
        text, inline = split_thinking("".join(self._content))
        reasoning = "".join(self._reasoning) + inline
        if is_blank(text):
            text = "".join(self._refusal)
        return ("" if is_blank(text) else text), ("" if is_blank(reasoning) else reasoning)

    @property
    def is_garbage(self) -> bool:
        """Whether all text is one character over and over, or U+FFFD only: what NaN logits decode to."""
        if self.calls_tool:
            return False
        text, reasoning = self.text_and_reasoning()
        characters = "".join((text + reasoning).split())
        distinct = set(characters)
        return distinct == {"\ufffd"} or (len(distinct) == 1 and len(characters) >= 4)

    def still_flows(self, at_s: float) -> bool:
        """Whether text still came at `at_s`: the pause since the last chunk is at most twice the pauses before it."""
        if self.chunks < 2 or self.first_at_s is None or self.last_at_s is None:
            return False
        return at_s - self.last_at_s <= 2 * (self.last_at_s - self.first_at_s) / (self.chunks - 1)

    @property
    def tokens_per_s(self) -> float | None:
        """Decode rate over the streamed chunks after the first; None below two chunks."""
        if self.chunks < 2 or self.first_at_s is None or self.last_at_s is None:
            return None
        elapsed = self.last_at_s - self.first_at_s
        return (self.chunks - 1) / elapsed if elapsed > 0 else None


def _visible(parts: Iterable[str]) -> bool:
    return any(not is_blank(part) for part in parts)
