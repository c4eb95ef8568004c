"""From an incident to the words a person reads on a locked phone at night. Pure: text in, text out."""

from watchdog.message.group import finish_group
from watchdog.message.redaction import REDACTED, Redactor
from watchdog.message.render import BODY_LIMIT, TITLE_LIMIT, finish, render, test_alert_text
from watchdog.message.shortening import Limits, fitted, plain

__all__ = [
    "BODY_LIMIT",
    "REDACTED",
    "TITLE_LIMIT",
    "Limits",
    "Redactor",
    "finish",
    "finish_group",
    "fitted",
    "plain",
    "render",
    "test_alert_text",
]
