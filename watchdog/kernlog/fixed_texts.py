"""The fixed texts that a pattern needs: what the fast pass over a log looks for."""

from __future__ import annotations

import re
from itertools import product

from watchdog.kernlog.pattern_tree import Choice, Literal, Node, Opaque, Repeat, Sequence

MIN_LITERAL_CHARS = 3
"""Every alternative of a rule must hold a fixed text at least this long."""

MAX_ALTERNATIVES = 24
_UNSAFE = re.compile("[^ -~]|[\"\\\\/<>&']")
"""Characters that some JSON encoder writes otherwise; a text without them is found in JSON logs as in plain ones."""


def required_literals(node: Node) -> frozenset[str]:
    """Texts of which at least one stands in every match of `node`; empty if there are no useful ones."""
    exact, best = all_texts(node)
    return _better(_usable(exact), best)


def _usable(exact: frozenset[str] | None) -> frozenset[str]:
    """The exact texts cut down to characters that survive every encoding; empty when one becomes too short."""
    if not exact:
        return frozenset()
    cut = set()
    for text in exact:
        cut.add(max(_UNSAFE.split(text), key=len))
    return frozenset(cut) if min(map(len, cut)) >= MIN_LITERAL_CHARS else frozenset()


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    """How well a set of texts sifts: its shortest member counts, fewer members are better."""
    return (min(map(len, texts)) if texts else 0, -len(texts))


def _better(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    return max(left, right, key=_worth)


def all_texts(node: Node) -> tuple[frozenset[str] | None, frozenset[str]]:
    """(every text the node can match, or None if unbounded; the best required texts inside it)."""
    match node:
        case Literal(text):
            return frozenset((text,)), frozenset()
        case Opaque(width):
            return (None if width else frozenset(("",))), frozenset()
        case Repeat():
            return _repeat_texts(node)
        case Choice(branches):
            return _choice_texts(branches)
        case Sequence(parts):
            return _sequence_texts(parts)


def _repeat_texts(node: Repeat) -> tuple[frozenset[str] | None, frozenset[str]]:
    exact, best = all_texts(node.node)
    if node.low == 1 and node.high == 1:
        return exact, best
    if node.low == 0:
        return (exact | {""} if exact is not None and node.high == 1 else None), frozenset()
    return None, _better(_usable(exact), best)


def _choice_texts(branches: tuple[Node, ...]) -> tuple[frozenset[str] | None, frozenset[str]]:
    texts = [all_texts(branch) for branch in branches]
    exacts = [exact for exact, _ in texts if exact is not None]
    exact = frozenset().union(*exacts) if len(exacts) == len(texts) else None
    needed = [_better(_usable(exact), best) for exact, best in texts]
    best = frozenset().union(*needed) if all(needed) else frozenset()
    return (exact if exact is not None and len(exact) <= MAX_ALTERNATIVES else None), best


def _sequence_texts(parts: tuple[Node, ...]) -> tuple[frozenset[str] | None, frozenset[str]]:
    run, best, whole = frozenset(("",)), frozenset[str](), True
    for part in parts:
        exact, inner = all_texts(part)
        best = _better(best, inner)
        if exact is not None and len(run) * len(exact) <= MAX_ALTERNATIVES:
            run = frozenset(left + right for left, right in product(run, exact))
            continue
        whole = False
        best = _better(best, _usable(run))
        run = exact if exact is not None and len(exact) <= MAX_ALTERNATIVES else frozenset(("",))
    return (run if whole else None), _better(best, _usable(run))
