"""From an incident to the words a person reads on a locked phone at night. Pure: text in, text out."""

from watchdog.message.clean import clean_block, clean_line
from watchdog.message.redaction import REDACTED, Redactor, redact
from watchdog.message.rehearsal import rehearsal
from watchdog.message.render import BODY_LIMIT, TITLE_LIMIT, finish, render
from watchdog.quantity import span

__all__ = [
    "BODY_LIMIT",
    "REDACTED",
    "TITLE_LIMIT",
    "Redactor",
    "clean_block",
    "clean_line",
    "finish",
    "redact",
    "rehearsal",
    "render",
    "span",
]
