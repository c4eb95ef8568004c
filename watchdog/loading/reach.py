"""Rules about reach: there is something to watch, and somebody hears of every check (design §2, invariant 8)."""

from __future__ import annotations

from watchdog.loading.plan import Listener, listeners
from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.model import Severity

KINDS = {"servers": "generation", "hosts": "kernel_log"}


def check_reach(root: Record, problems: Problems) -> None:
    """Every check reaches a receiver; a check of which warnings reach nobody is said, not refused."""
    if not any(root.given(section) for section in KINDS) or not any(
        root.values.get(section) != () for section in KINDS if root.given(section)
    ):
        problems.error(root.place, "there is nothing to watch: no server and no host", "start from config/minimal.yaml")
        return
    everyone = _everyone(root)
    for section, kind in KINDS.items():
        for record in root.sections(section):
            _check_record(record, kind, everyone, problems)


def _everyone(root: Record) -> list[Listener] | None:
    """All receivers; None when one of them could not be read, as then nothing can be said about who hears what."""
    found = []
    if root.given("receivers") and root.get("receivers") is None:
        return None
    for receiver in root.get("receivers") or ():
        name, severity = (
            (receiver.get("name"), receiver.get("min_severity")) if isinstance(receiver, Record) else (None, None)
        )
        if name is None or severity is None:
            return None
        found.append(Listener(name, severity))
    return found


def _check_record(record: Record, kind: str, everyone: list[Listener] | None, problems: Problems) -> None:
    name, named = record.get("name"), record.get("receivers")
    if name is None or named is None or everyone is None:
        return
    check = f"{kind}/{name}" if name.isprintable() else kind
    heard_by = listeners([one for one in named if isinstance(one, str)], everyone)
    if not heard_by:
        hint = "name a receiver that exists" if everyone else "add a receiver"
        problems.error(record.at("receivers"), f"nobody would hear of {check}", hint)
    elif all(one.min_severity.rank > Severity.WARN.rank for one in heard_by):
        names = ", ".join(one.receiver for one in heard_by)
        problems.warn(
            record.at("receivers"),
            f"warnings of {check} reach nobody: {names} {'hears' if len(heard_by) == 1 else 'hear'} pages only",
            "add a receiver with min_severity: warn, for mail or a log",
        )
