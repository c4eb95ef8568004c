"""What chat services would take for markup or a mention in a kernel line or a model's reply, made plain text."""

from __future__ import annotations

import re

_BREAK = "\u200b"
"""A space of no width: shows nothing, and ends what would have been a mention or a link."""
_BACKSLASHED = re.compile(r"([\\*_~`|>\[\]()<#])")
_EITHER_SIDE = re.compile(r"([*_~`])")


def _without_mentions(text: str) -> str:
    """A backslash does not keep Discord from notifying whom `<@…>` names, so the sign itself is cut off."""
    for sign, cut in (("@", f"@{_BREAK}"), ("<", f"<{_BREAK}"), ("](", f"]{_BREAK}("), ("://", f":{_BREAK}//")):
        text = text.replace(sign, cut)
    return text


def _escaped(text: str) -> str:
    """For services that show a sign behind a backslash as it is."""
    return _without_mentions(_BACKSLASHED.sub(r"\\\1", text))


def _broken(text: str) -> str:
    """For a service that knows no backslash."""
    return _without_mentions(_EITHER_SIDE.sub(rf"{_BREAK}\1{_BREAK}", text))


_PLAIN = {"NotifyDiscord": _escaped, "NotifyMattermost": _escaped, "NotifyGoogleChat": _broken}


def plain_for(service: object, text: str) -> str:
    """`text` as `service`, a plugin of apprise, shows it unchanged: no mention, no link, nothing bold."""
    make = _PLAIN.get(type(service).__name__)
    return text if make is None else make(text)
