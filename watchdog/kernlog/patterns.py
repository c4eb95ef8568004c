"""The pattern language of kernel rules: the part of regular expressions that can be matched in linear time.

Kernel lines are partly chosen by others (device names, process names), and rule files by users, so no pattern may be
able to make the matcher slow. Allowed are plain text, `.`, classes `[…]`, `\\d`, `\\w`, `\\b`, groups, `|`, the
repeats `* + ? {m,n}`, `^` where a branch starts and `$` where one ends. Everything here means the same in Python's `re`
on bytes, in Hyperscan and, for patterns without `\\d`, in GNU `grep -E`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from watchdog.kernlog.fixed_texts import MIN_LITERAL_CHARS, all_texts, required_literals
from watchdog.kernlog.pattern_tree import Choice, Node, Opaque, PatternError, Repeat, Sequence, parse_tree

__all__ = ["Branch", "PatternError", "parse_pattern", "split_branches"]

MAX_PATTERN_CHARS = 2000
MAX_BRANCHES = 120


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a pattern. Every match of it holds one of `texts`; if `plain`, any of them is a match."""

    pattern: str
    texts: frozenset[str]
    plain: bool


def parse_pattern(pattern: str) -> tuple[Branch, ...]:
    """The alternatives of `pattern`, at least one of which matches exactly where `pattern` does.

    Raises PatternError when it is outside the language, or when an alternative holds no fixed text.
    """
    if not pattern:
        raise PatternError("the pattern is empty", 0)
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN_CHARS} characters", MAX_PATTERN_CHARS)
    for place, char in enumerate(pattern):
        if not " " <= char <= "~":
            raise PatternError("only printable ASCII is allowed", place)
    parse_tree(pattern)
    return tuple(_branch(branch) for branch in split_branches(pattern))


def _branch(pattern: str) -> Branch:
    node = parse_tree(pattern)
    texts = required_literals(node)
    if not texts:
        problem = f"needs a fixed text of at least {MIN_LITERAL_CHARS} characters in every branch, not so {pattern!r}"
        raise PatternError(problem, 0)
    return Branch(pattern, texts, plain=not _has_places(node) and all_texts(node)[0] == texts)


def _has_places(node: Node) -> bool:
    """Whether `^`, `$` or `\\b` stand in `node`."""
    match node:
        case Opaque(width):
            return width == 0
        case Repeat(inner):
            return _has_places(inner)
        case Choice(nodes) | Sequence(nodes):
            return any(_has_places(part) for part in nodes)
    return False


def split_branches(pattern: str) -> tuple[str, ...]:
    """Patterns of which at least one matches exactly where `pattern` does: its outermost and last alternatives.

    `a(?:b|c)|d` gives `ab`, `ac` and `d`. Hyperscan compiles many small expressions far faster, and to less, than one
    with many branches.
    """
    bars: dict[int, list[int]] = {}
    opened: list[int] = []
    group: tuple[int, int] | None = None
    for place, char in _syntax(pattern):
        if char == "|":
            bars.setdefault(opened[-1] if opened else -1, []).append(place)
        elif char == "(":
            opened.append(place)
        elif char == ")":
            group = (opened.pop(), place)
    prefix, inner, start, end = "", bars.get(-1), -1, len(pattern)
    if inner is None and group is not None and group[1] == len(pattern) - 1:
        start, end = group[0] + 2 * pattern.startswith("(?:", group[0]), group[1]
        prefix, inner = pattern[: group[0]], bars.get(group[0], [])
    if inner is None:
        return (pattern,)
    branches = [prefix + pattern[left + 1 : right] for left, right in pairwise([start, *inner, end])]
    split = tuple(part for branch in branches for part in split_branches(branch))
    return split if len(split) <= MAX_BRANCHES else tuple(branches)


def _syntax(pattern: str) -> Iterator[tuple[int, str]]:
    """The characters of a valid pattern that structure it, with their offsets: none escaped, none in a class."""
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
        elif char == "[":
            place += 1 + pattern.startswith("^", place + 1)
            place += pattern.startswith("]", place)
            while pattern[place] != "]":
                place += 1 + (pattern[place] == "\\")
        elif char in "(|)":
            yield place, char
        place += 1
