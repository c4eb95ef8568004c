"""What people write beside an incident or a silence: one clean line, not empty, not endless.

It is cleaned when it comes in and again when it is read: a file may hold what an older version let in.
"""

from __future__ import annotations

from watchdog.errors import StoreError
from watchdog.message import clean_line

LONGEST_REASON = 500
LONGEST_AUTHOR = 100


def reason_of(text: str) -> str:
    """`text` as it is kept. Raises `StoreError` for none, or more than 500 characters."""
    line = clean_line(text)
    if not line:
        raise StoreError("the reason is empty: say in a few words why, for those who read `status`")
    if len(line) > LONGEST_REASON:
        raise StoreError(f"the reason has {len(line)} characters; say it in at most {LONGEST_REASON}")
    return line


def author_of(text: str) -> str:
    """The name of who asks, as it is kept."""
    return clean_line(text)[:LONGEST_AUTHOR]
