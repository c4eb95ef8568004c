"""Kernel rules as data: what a rule says, and reading rules from a parsed YAML document.

A rule names a kind of kernel line, how loud it is, how to recognise it, and what a person should do. Adding one is
one YAML entry with real sample lines; no Python (CONTRIBUTING.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from watchdog.errors import RuleError
from watchdog.kernlog.patterns import PatternError, check_pattern
from watchdog.model import Severity


class Subject(StrEnum):
    """Where in a line its device is named."""

    PCI = "pci"
    SOURCE = "source"
    GPU = "gpu"
    NVME = "nvme"
    DISK = "disk"
    NETDEV = "netdev"
    SMMU = "smmu"
    MEMORY = "memory"
    EEH = "eeh"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Burst:
    """So many lines of one rule and device within a window raise the severity."""

    count: int
    window_s: float
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to recognise one kind of kernel line.

    `severity` None means benign: the line is known and never alerts (the first matching rule wins, so such a rule
    stands before the one it makes an exception to). `detail` marks a continuation line, which never alerts alone.
    """

    id: str
    kind: str
    severity: Severity | None
    pattern: str
    summary: str
    advice: str = ""
    source: str = ""
    subject: Subject = Subject.PCI
    detail: bool = False
    bursts: tuple[Burst, ...] = ()
    matches: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in the order they are tried; the first that matches a line decides."""

    rules: tuple[Rule, ...]
    by_id: Mapping[str, Rule] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index by id; raises RuleError when two rules share one."""
        index: dict[str, Rule] = {}
        for rule in self.rules:
            if rule.id in index:
                raise RuleError(f"two rules are called {rule.id!r}: give one of them another id")
            index[rule.id] = rule
        object.__setattr__(self, "by_id", index)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def changed(self, disable: Iterable[str] = (), severity: Mapping[str, Severity] | None = None) -> RuleSet:
        """A set without the rules in `disable` and with the severities in `severity`, both by rule id.

        Raises RuleError for an id that no rule has, with the closest one: a typo must not leave a rule as it was.
        """
        severity = severity or {}
        for name, where in [*((name, "disable") for name in disable), *((name, "severity") for name in severity)]:
            if name not in self.by_id:
                raise RuleError(f"rules.{where}: there is no rule {name!r}{did_you_mean(name, self.by_id)}")
        gone = frozenset(disable)
        kept = (rule for rule in self.rules if rule.id not in gone)
        return RuleSet(tuple(replace(rule, severity=severity.get(rule.id, rule.severity)) for rule in kept))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the closest known word, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


_KEYS = frozenset(
    ("id", "kind", "severity", "pattern", "summary", "advice", "source", "device", "detail", "burst", "matches")
) | {"ignores"}
_NEEDED = ("id", "kind", "severity", "pattern", "summary")
_LEVELS: Mapping[str, Severity | None] = {
    "page": Severity.PAGE,
    "warn": Severity.WARN,
    "info": Severity.INFO,
    "ignore": None,
}
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,79}")


def parse_rules(document: object, file: str) -> tuple[Rule, ...]:
    """The rules of one parsed YAML document, in its order.

    The document is a mapping with the one key `rules`, a list of mappings. Raises RuleError naming `file`, every
    faulty rule and what is wrong with it.
    """
    if not isinstance(document, Mapping) or set(document) != {"rules"} or not isinstance(document["rules"], list):
        raise RuleError(f"{file}: a rule file holds one key, 'rules', with a list of rules below it")
    rules: list[Rule] = []
    problems: list[str] = []
    for place, entry in enumerate(document["rules"], start=1):
        name = str(entry.get("id", f"number {place}")) if isinstance(entry, Mapping) else f"number {place}"
        try:
            rules.append(_rule(entry))
        except _EntryError as fault:
            problems.append(f"{file}: rule {name}: {fault}")
    if problems:
        raise RuleError("\n".join(problems))
    return tuple(rules)


class _EntryError(Exception):
    """A rule that cannot be used; the text says what is wrong, without the rule's name."""


def _rule(entry: object) -> Rule:
    if not isinstance(entry, Mapping):
        raise _EntryError("must be a mapping with id, kind, severity, pattern and summary")
    for key in entry:
        if key not in _KEYS:
            raise _EntryError(f"unknown key {key!r}{did_you_mean(str(key), _KEYS)}")
    for key in _NEEDED:
        if key not in entry:
            raise _EntryError(f"{key!r} is missing")
    texts = {key: _text(entry, key) for key in ("id", "kind", "pattern", "summary", "advice", "source")}
    for key in ("id", "kind"):
        if not _NAME.fullmatch(texts[key]):
            raise _EntryError(f"{key} {texts[key]!r} may hold small letters, digits, '.', '_' and '-', at most 80")
    try:
        check_pattern(texts["pattern"])
    except PatternError as error:
        raise _EntryError(f"pattern {texts['pattern']!r}: {error}") from None
    detail = entry.get("detail", False)
    if not isinstance(detail, bool):
        raise _EntryError("detail must be true or false")
    return Rule(
        **texts,
        severity=_LEVELS[_choice(entry, "severity", _LEVELS)],
        subject=Subject(_choice(entry, "device", tuple(Subject))) if "device" in entry else Subject.PCI,
        detail=detail,
        bursts=_bursts(entry["burst"]) if "burst" in entry else (),
        matches=_samples(entry, "matches"),
        ignores=_samples(entry, "ignores"),
    )


def _text(entry: Mapping[Any, Any], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise _EntryError(f"{key} must be a text: put it in quotes")
    return value.strip() if key != "pattern" else value


def _choice(entry: Mapping[Any, Any], key: str, known: Iterable[str]) -> str:
    value = entry[key]
    names = [str(name) for name in known]
    if not isinstance(value, str) or value not in names:
        raise _EntryError(f"{key} must be one of {', '.join(names)}, not {value!r}{did_you_mean(str(value), names)}")
    return value


def _samples(entry: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(sample, str) for sample in value):
        raise _EntryError(f"{key} must be a list of sample lines, each a text in quotes")
    return tuple(value)


def _bursts(value: object) -> tuple[Burst, ...]:
    """One burst or a list of them, such as a warn at 50 and a page at 500; they count in one window."""
    bursts = tuple(_burst(entry) for entry in (value if isinstance(value, list) and value else [value]))
    if len({burst.window_s for burst in bursts}) > 1:
        raise _EntryError("the bursts of one rule must have the same window")
    return bursts


def _burst(value: object) -> Burst:
    if not isinstance(value, Mapping) or set(value) != {"count", "window", "severity"}:
        raise _EntryError(
            "burst must hold count, window and severity, such as {count: 20, window: 10m, severity: page}"
        )
    count, window = value["count"], _DURATION.fullmatch(str(value["window"]))
    if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= 100_000:
        raise _EntryError("burst.count must be a whole number from 2 to 100000")
    if window is None:
        raise _EntryError(f"burst.window must be a duration such as 10m, not {value['window']!r}")
    level = _LEVELS[_choice(value, "severity", ("page", "warn"))]
    assert level is not None  # noqa: S101 - page and warn are severities
    return Burst(count, float(window[1]) * {"s": 1, "m": 60, "h": 3600}[window[2]], level)
