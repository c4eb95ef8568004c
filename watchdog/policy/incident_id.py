"""Ids of incidents: short, sortable by time, easy to read aloud."""

from __future__ import annotations

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o or u, so an id can be read aloud and typed from a phone."""
_ID_EPOCH = 1_577_836_800  # 2020-01-01, keeps ids at 8 characters until 2054
_ID_LENGTH = 8


def incident_id(now: float, last: str, entropy: int) -> str:
    """A new id: 8 characters that sort by time, always after `last`, even if the clock was set back.

    `entropy` (0 to 1023) keeps two watchdogs that page the same phone apart.
    """
    number = max(0, int(now) - _ID_EPOCH) * 1024 + entropy % 1024
    number = max(number, _id_number(last) + 1)
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(_ID_LENGTH)))


def _id_number(text: str) -> int:
    number = 0
    for letter in text[:_ID_LENGTH]:
        number = number * 32 + max(0, _ALPHABET.find(letter))
    return number
