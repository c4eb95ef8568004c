"""Reasoning that a server without a reasoning parser leaves inline in the content."""

from __future__ import annotations

import re

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
