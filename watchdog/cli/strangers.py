"""What a silence names is known here: a value that can never match would silence nothing, without a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from watchdog.store import Reader

NAMED_BY = {"server": ("generation/",), "host": ("kernel_log/", "vitals/")}
"""Label → how the keys begin that its values are known from."""
CHECKS = ("generation", "kernel_log", "self", "vitals")
NEAR = 0.8
"""How much like a known value a value must be to be taken for a typo, where others may still turn up."""


@dataclass(frozen=True, slots=True)
class Known:
    """The values of one label. `closed`: there are no others; else others may still turn up.

    `roots` are beginnings under which any value may turn up.
    """

    label: str
    values: tuple[str, ...]
    closed: bool
    roots: tuple[str, ...] = ()

    def fits(self, wanted: str) -> bool:
        """Whether `wanted` (a value, or a beginning and `*`) is one of the values."""
        if wanted.endswith("*"):
            return any(value.startswith(wanted[:-1]) for value in self.values)
        return wanted in self.values

    def doubt(self, wanted: str) -> str | None:
        """What to tell about a value that nothing has had so far; None for a known one.

        Raises click.UsageError for one that can never match, or is a typo.
        """
        if self.fits(wanted):
            return None
        open_to = not self.closed or any(wanted.startswith(root) for root in self.roots)
        near = difflib.get_close_matches(wanted.removesuffix("*"), self.values, n=1, cutoff=NEAR if open_to else 0.5)
        if near:
            raise click.UsageError(f"no {self.label} called {wanted} is known; did you mean {near[0]}?")
        if not open_to:
            there = ", ".join(self.values) or "none"
            raise click.UsageError(f"no {self.label} called {wanted} is watched; there are: {there}")
        return f"nothing with {self.label}={wanted} was seen so far: see that it is no typo"


def doubts(reader: Reader, matcher: Mapping[str, str]) -> tuple[str, ...]:
    """What to tell about values in `matcher` that nothing has had so far; raises click.UsageError for typos."""
    found = (known.doubt(matcher[known.label]) for known in _known(reader, matcher) if known.label in matcher)
    return tuple(doubt for doubt in found if doubt is not None)


def _known(reader: Reader, asked: Iterable[str]) -> Iterable[Known]:
    from watchdog.model import Severity
    from watchdog.store import PLAN

    yield Known("severity", tuple(severity.value for severity in reversed(Severity)), closed=True)
    yield Known("check", CHECKS, closed=True)
    checks = tuple(reader.memory(PLAN) or {})
    if checks:
        for label, beginnings in NAMED_BY.items():
            names = {key.partition("/")[2] for key in checks if key.startswith(beginnings)}
            yield Known(label, tuple(sorted(names)), closed=True)
    if not {"kind", "device", "receiver", "key"}.isdisjoint(asked):
        yield from _seen(reader, checks)


def _seen(reader: Reader, checks: tuple[str, ...]) -> Iterable[Known]:
    """What is known from the past: slower, and only for who asks."""
    from watchdog.kernlog.grouping import HISTORY, MISSED, SUPPRESSED
    from watchdog.policy import DELIVERY_PREFIX
    from watchdog.rulebook import packaged_rules

    incidents = reader.incidents(0.0, float("inf"))
    tracked = {*reader.keys(), *(incident.key for incident in incidents)}
    labels: dict[str, set[str]] = {"kind": set(), "device": set(), "receiver": set()}
    for incident in incidents:
        for label, values in labels.items():
            values.update({incident.labels[label]} if label in incident.labels else ())
    kinds = {rule.kind for rule in packaged_rules()} | {"log.incomplete", "host.rebooted", HISTORY, MISSED, SUPPRESSED}
    yield Known("kind", tuple(sorted(labels["kind"] | kinds)), closed=False)
    yield Known("device", tuple(sorted(labels["device"])), closed=False)
    names = labels["receiver"] | set(reader.receivers())
    names |= {key.removeprefix(DELIVERY_PREFIX) for key in tracked if key.startswith(DELIVERY_PREFIX)}
    yield Known("receiver", tuple(sorted(names)), closed=False)
    keys = tuple(sorted(tracked.union(checks)))
    yield Known("key", keys, closed=bool(checks), roots=(*(f"{key}/" for key in checks), "self/"))
