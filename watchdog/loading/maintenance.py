"""Rules about maintenance: what it matches exists, and when it is can be read in one way only."""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.loading.names import names_of
from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.policy import LABELS

WEEKLY = ("days", "start", "duration_s", "time_zone")
ONCE = ("begins", "ends")
EXAMPLE = "write days, start, duration and time_zone for every week, or begins and ends for once"
NAMED_IN = {"server": "servers", "host": "hosts", "receiver": "receivers"}


def check_maintenance(root: Record, problems: Problems) -> None:
    """Each window matches something that exists, and is either weekly with its time zone or happens once."""
    for window in root.sections("maintenance"):
        _check_matcher(root, window, problems)
        _check_times(window, problems)


def _check_matcher(root: Record, window: Record, problems: Problems) -> None:
    matcher = window.get("match")
    if matcher is None:
        return
    if not matcher:
        problems.error(window.at("match"), "matches nothing", 'name a label, for example {server: NAME} or {host: "*"}')
    for label, wanted in matcher.items():
        where = f"match.{label}"
        if label not in LABELS:
            hint = problems.suggest(label, LABELS) or f"labels are: {', '.join(LABELS)}"
            problems.error(
                window.at(where), f"there is no label {label!r}" if label.isidentifier() else "no label", hint
            )
        elif label in NAMED_IN:
            known = names_of(root, NAMED_IN[label])
            if known is not None and not _fits_one(wanted, known):
                quoted = window.quoted(where, wanted)
                hint = window.hint(where, problems.suggest(wanted, known))
                problems.error(window.at(where), f"no {label} is named {quoted}", hint)


def _fits_one(wanted: str, known: Iterable[str]) -> bool:
    return any(name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted for name in known)


def _check_times(window: Record, problems: Problems) -> None:
    weekly = [name for name in WEEKLY if window.given(name)]
    once = [name for name in ONCE if window.given(name)]
    if weekly and once:
        problems.error(window.at(once[0]), "is for a window that happens once, but this one is weekly", EXAMPLE)
    elif not weekly and not once:
        problems.error(window.place, "does not say when it is", EXAMPLE)
    elif once:
        _check_once(window, once, problems)
    else:
        for name in ("days", "start", "time_zone"):
            if name not in weekly and name not in window.meant:
                problems.error(window.place, f"`{name}` is missing", EXAMPLE)


def _check_once(window: Record, given: list[str], problems: Problems) -> None:
    for name in ONCE:
        if name not in given and name not in window.meant:
            problems.error(window.place, f"`{name}` is missing", EXAMPLE)
    begins, ends = window.get("begins"), window.get("ends")
    if begins is not None and ends is not None and not ends > begins:
        problems.error(window.at("ends"), "is not after `begins`", "")
