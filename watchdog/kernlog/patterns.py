"""The pattern language of kernel rules: the part of regular expressions that can be matched in linear time.

Kernel lines are partly chosen by others (device names, process names), and rule files by users, so no pattern may be
able to make the matcher slow. Allowed are plain text, `.`, classes `[…]`, `\\d`, `\\w`, `\b`, groups, `|`, the
repeats `* + ? {m,n}`, `^` where a branch starts and `$` where one ends. Everything here means the same in Python's `re`
on bytes, in Hyperscan and, for patterns without `\\d`, in GNU `grep -E`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TypeAlias

# The pattern language of kernel rules as a tree, and the parser that refuses everything else.

MAX_REPEAT = 64
MAX_CLASS_TEXTS = 4
MAX_DEPTH = 20

_PUNCTUATION = frozenset(r".^$*+?{}[]\|()-/ :=#'\"<>!&@,;%~")
_PLAIN = re.compile(r"[^\\()\[\].^$*+?{}|]+")


class PatternError(ValueError):
    """A pattern outside the language; `position` is the offset of the trouble."""

    def __init__(self, problem: str, position: int) -> None:
        """Say what is wrong at which character."""
        super().__init__(f"{problem} (at character {position + 1})")
        self.position = position


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters that stand for themselves."""

    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something of no fixed text: a class, `.`, or a place (`^`, `$`, `\\b`) when `width` is 0."""

    width: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the branches."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`node` from `low` to `high` times; `high` None means without end."""

    node: Node
    low: int
    high: int | None


Node: TypeAlias = Literal | Opaque | Sequence | Choice | Repeat


def parse_tree(pattern: str) -> Node:
    """The tree of `pattern`; raises PatternError when it is outside the language."""
    parser = _Parser(pattern)
    node = parser.choice()
    if parser.at != len(pattern):
        raise PatternError("this ')' closes nothing", parser.at)
    return node


class _Parser:
    """Recursive descent over one pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def choice(self) -> Node:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while (char := self.peek()) and char not in "|)":
            part = self.plain() or self.repeated(self.atom())
            last = parts[-1] if parts else None
            if isinstance(part, Literal) and isinstance(last, Literal):
                parts[-1] = Literal(last.text + part.text)
            else:
                parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def plain(self) -> Node | None:
        """A run of plain characters, without the last one if a repeat follows it."""
        run = _PLAIN.match(self.pattern, self.at)
        if run is None:
            return None
        end = run.end() - (self.pattern[run.end() : run.end() + 1] in ("*", "+", "?", "{"))
        text, self.at = self.pattern[self.at : end], end
        return Literal(text) if text else None

    def atom(self) -> Node:
        start, char = self.at, self.peek()
        self.at += 1
        compound = {"(": self.group, "[": self.char_class, "\\": self.escape}.get(char)
        if compound is not None:
            return compound(start)
        if char == "^" and start and self.pattern[start - 1] not in "|:(":
            raise PatternError("'^' may only stand where a branch starts; write '\\^' for the character", start)
        if char == "$" and self.peek() and self.peek() not in "|)":
            raise PatternError("'$' may only stand where a branch ends; write '\\$' for the character", start)
        if char in "*+?{":
            raise PatternError(f"nothing to repeat before {char!r}", start)
        return Opaque(0) if char in "^$" else Opaque(1) if char == "." else Literal(char)

    def escape(self, start: int) -> Node:
        char = self.peek()
        self.at += 1
        if char in ("d", "w"):
            return Opaque(1)
        if char == "b":
            return Opaque(0)
        if char == "t":
            return Literal("\t")
        if char and char in _PUNCTUATION:
            return Literal(char)
        hint = {"s": "write a blank, or '[ \\t]'", "D": "write '[^0-9]'", "W": "write '[^0-9A-Za-z_]'"}.get(char, "")
        raise PatternError(f"'\\{char}' is not part of the rule language" + (f": {hint}" if hint else ""), start)

    def group(self, start: int) -> Node:
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            raise PatternError("only plain groups '(?:…)' are allowed: no look-around, no names, no flags", start)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise PatternError("groups are nested too deeply", start)
        node = self.choice()
        if self.peek() != ")":
            raise PatternError("this '(' is never closed", start)
        self.at += 1
        self.depth -= 1
        return node

    def char_class(self, start: int) -> Node:
        negated = self.peek() == "^"
        self.at += negated
        first, plain, members = True, not negated, ""
        while (char := self.peek()) and (char != "]" or first):
            first = False
            self.at += 1
            if char == "[" and self.peek() in (":", ".", "="):
                raise PatternError("POSIX classes are not allowed: write the range, such as '[0-9]'", self.at - 1)
            if char == "\\":
                if not (self.peek() in ("d", "w", "t", "n") or self.peek() in _PUNCTUATION):
                    raise PatternError(f"'\\{self.peek()}' is not part of the rule language", self.at - 1)
                self.at += 1
            plain = plain and char not in "\\-"
            members += char
        if not char:
            raise PatternError("this '[' is never closed", start)
        self.at += 1
        if plain and len(members) <= MAX_CLASS_TEXTS:
            return Choice(tuple(Literal(member) for member in members))
        return Opaque(1)

    def repeated(self, node: Node) -> Node:
        start, char = self.at, self.peek()
        if char not in ("*", "+", "?", "{") or not char:
            return node
        if isinstance(node, Opaque) and node.width == 0:
            raise PatternError("'^', '$' and '\\b' cannot be repeated", start)
        self.at += 1
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char) or self.bounds(start)
        if self.peek() in ("*", "+", "?", "{") and self.peek():
            raise PatternError("lazy, possessive and double repeats are not allowed", self.at)
        return Repeat(node, low, high)

    def bounds(self, start: int) -> tuple[int, int | None]:
        end = self.pattern.find("}", start)
        inside = self.pattern[start + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise PatternError("write a repeat as {3}, {1,4} or {2,}, or '\\{' for the character", start)
        self.at = end + 1
        most = int(high) if high else (None if comma else int(low))
        if int(low) > MAX_REPEAT or (most is not None and not int(low) <= most <= MAX_REPEAT):
            raise PatternError(f"a counted repeat may go up to {MAX_REPEAT}", start)
        return int(low), most


# The fixed texts that a pattern needs: what the fast pass over a log looks for.

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
