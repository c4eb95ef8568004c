"""Whether kernel lines can be classified at all, asked before the first one comes."""

from __future__ import annotations

from importlib import import_module

from watchdog.config import RulesSettings

MODULE = "watchdog.kernlog.matcher"


def matcher_problem(settings: RulesSettings) -> str | None:
    """Why the matcher of kernel lines cannot be used with these rules; None if it can."""
    try:
        matcher = import_module(MODULE).Matcher(import_module("watchdog.rulebook").load_rules(settings))
        matcher.classify("pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error message received")
    except Exception as error:  # noqa: BLE001 - a missing library, a library of another Python, rules that do not fit
        return f"kernel lines cannot be classified: {str(error) or type(error).__name__}"
    return None
