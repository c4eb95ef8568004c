"""Whether an alert that must wake somebody has reached nobody: then nobody may rely on us any more."""

from __future__ import annotations

from watchdog.store import Reader
from watchdog.text import duration

UNHEARD_AFTER_S = 120.0
"""After so long a page that no receiver and no fallback has taken counts as unheard."""


def unheard_page(reader: Reader, now: float) -> str | None:
    """Why our alerts do not arrive, None while they do. `now` is Unix seconds."""
    found = reader.undelivered_page(now - UNHEARD_AFTER_S)
    if found is None:
        return None
    incident, since = found
    return f"the page of incident {incident} has reached no receiver for {duration(max(0.0, now - since))}"
