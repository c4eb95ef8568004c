"""The two messages of a test alert: real enough to prove the road, plain enough to frighten nobody."""

from __future__ import annotations

from watchdog.model import NotificationKind, Text

TEST_KEY = "self/test"
"""The key of a test alert; it has no incident in the store."""


def rehearsal(kind: NotificationKind, sent_from: str) -> Text:
    """The trigger or the end of a test alert, asked for on `sent_from` (a machine's name or the like)."""
    if kind.is_end:
        title = f"{kind} test alert from inference-watchdog: all is well"
        body = "This is the end of the test alert. If you read both, this receiver works."
    else:
        title = f"{kind} test alert from inference-watchdog: nothing is wrong"
        body = "Somebody asked for a test alert. Nothing is wrong, nothing needs to be done. Its end follows at once."
    return Text(title, f"{body}\nasked for on: {sent_from}" if sent_from else body)
