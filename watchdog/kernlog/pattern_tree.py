"""The pattern language of kernel rules as a tree, and the parser that refuses everything else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

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
