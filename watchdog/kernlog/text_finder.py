"""Finds which of many fixed texts stand in a short line, in plain Python: linear in the line, small in memory.

The idle daemon sees a few lines an hour; a Hyperscan database for them would cost 5 MiB it does not need (design §11).
Whole logs are searched by Hyperscan (`matcher`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

GRAM = 3
"""Every text has at least so many bytes (`fixed_texts.MIN_LITERAL_CHARS`)."""


class TextFinder:
    """Looks each text up by three of its bytes, chosen to be rare, and compares the whole text only there."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take the texts; each is numbered by its place."""
        encoded = [text.encode() for text in texts]
        common = Counter(gram for text in encoded for gram in {*_grams(text)})
        self._by_gram: dict[bytes, list[tuple[int, bytes, int]]] = {}
        for number, text in enumerate(encoded):
            grams = _grams(text)
            offset = min(
                range(len(grams)), key=lambda at: (grams[at].isalpha() and grams[at].islower(), common[grams[at]])
            )
            self._by_gram.setdefault(grams[offset], []).append((offset, text, number))

    def seen(self, line: bytes) -> set[int]:
        """The numbers of the texts that stand in `line`."""
        found: set[int] = set()
        by_gram = self._by_gram
        for at in range(len(line) - GRAM + 1):
            entries = by_gram.get(line[at : at + GRAM])
            if entries is not None:
                for offset, text, number in entries:
                    if at >= offset and line.startswith(text, at - offset):
                        found.add(number)
        return found


def _grams(text: bytes) -> list[bytes]:
    return [text[at : at + GRAM] for at in range(len(text) - GRAM + 1)]
