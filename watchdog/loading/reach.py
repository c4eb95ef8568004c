"""Rules about reach: there is something to watch, and somebody hears of every check (design §2, invariant 8)."""

from __future__ import annotations

from collections.abc import Iterator

from watchdog.loading.plan import Listener, listeners
from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.model import Severity

SHOWN_CHECKS = 3
KINDS = {"servers": "generation", "hosts": "kernel_log"}


def check_reach(root: Record, problems: Problems) -> None:
    """Every check reaches a receiver; a check of which warnings reach nobody is said, not refused."""
    if root.meant & {*KINDS, "receivers"}:
        return
    if not any(root.given(section) and root.values[section] != () for section in KINDS):
        problems.error(root.place, "there is nothing to watch: no server and no host", "start from config/minimal.yaml")
        return
    if root.given("receivers") and root.get("receivers") is None:
        return
    checks = [(record, kind) for section, kind in KINDS.items() for record in root.sections(section)]
    if root.get("receivers"):
        everyone = tuple(_listeners(root))
        unheard = [_check_key(record, kind) for record, kind in checks if _is_deaf_to_warnings(record, everyone)]
        if unheard:
            hint = "add a receiver with min_severity: warn, for example a mail address"
            problems.warn(root.at("receivers"), f"warnings reach nobody, only pages do: {_some(unheard)}", hint)
    elif checks:
        names = _some([_check_key(record, kind) for record, kind in checks])
        problem = f"there is no receiver: nobody would hear of {names}"
        problems.error(root.at("receivers"), problem, "add one under `receivers`")


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN_CHECKS} more" if len(names) > SHOWN_CHECKS else ""
    return ", ".join(names[:SHOWN_CHECKS]) + rest


def _check_key(record: Record, kind: str) -> str:
    name = record.get("name")
    return f"{kind}/{name}" if name else record.place.path


def _listeners(root: Record) -> Iterator[Listener]:
    for receiver in root.sections("receivers"):
        name, severity = receiver.get("name"), receiver.get("min_severity")
        if name is not None and severity is not None:
            yield Listener(name, severity)


def _is_deaf_to_warnings(record: Record, everyone: tuple[Listener, ...]) -> bool:
    heard_by = listeners([name for name in record.get("receivers") or () if isinstance(name, str)], everyone)
    return bool(heard_by) and all(one.min_severity.rank > Severity.WARN.rank for one in heard_by)
