"""Bytes → a tree of nodes that know their line and column. Bounded in size, depth and alias growth; does not know keys.

PyYAML gives the events, so no YAML tag is ever turned into an object. The tree is built in the same pass, without
recursion: PyYAML's own composer recurses, so a deeply nested file would crash the process, it has no limits for
aliases, and it refuses an anchor that is defined twice.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 40
MAX_NODES = 200_000
"""Nodes after every alias is written out; 1,000 servers need about 25,000."""

PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it (25 times faster), else the pure parser."""

NOTHING = ("", "~", "null", "Null", "NULL")
NOT_PRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.1 does not allow in a file (its production `c-printable`), and the byte order mark inside the text."""

BRACES = re.compile(r"\$\{([^{}\s'\",]*)\}")
STAND_INS = re.compile("\\$\ue000([^\ue000\ue001\\s'\",]*)\ue001")
"""`${…}` is hidden from the parser behind characters of the same width, so that `{url: ${env:URL}}` needs no quotes."""

FAULTS = (
    ("tab character", "a tab in the indentation", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a colon where no key is allowed",
        "check the indentation; quote text with `: `",
    ),
    ("could not find expected ':'", "a key without a colon", "write a colon and a space, like `name: head`"),
    (
        "cannot start any token",
        "a character that cannot start a value",
        "indent with spaces, not tabs; quote text like '@x'",
    ),
    ("unexpected end of stream", "a quote that is never closed", "close it"),
    ("escape character", "an unknown escape", "in double quotes a backslash starts an escape; use single quotes"),
    ("tag handle", "YAML tags (words that start with !) are not accepted", "put text that starts with ! in quotes"),
    (
        "expected ',' or ",
        "a [ or { that is not closed, or a missing comma",
        "close it, or put text with , [ ] { } in quotes",
    ),
    (
        "node content",
        "a [ or { that is not closed, or a missing value",
        "close it, or put text with , [ ] { } in quotes",
    ),
    ("expected '-' indicator", "a list entry that does not line up", "start every entry with `- ` in the same column"),
    ("expected key", "a key that does not line up", "start all keys of a section in the same column"),
    ("block end", "a line that does not line up", "start all keys of a section in the same column"),
    ("alphabetic or numeric", "an alias or anchor without a name", "put text that starts with * or & in quotes"),
)
"""Part of a parser's message → what is wrong, what to do. Never its own words: the pure parser quotes the file."""


class DocumentError(Exception):
    """The text is not one YAML document within the limits. Never quotes the file: that may be a secret."""

    def __init__(self, line: int, column: int, problem: str, hint: str = "") -> None:
        """`line` and `column` count from 1; 0 means the file as a whole."""
        self.line, self.column, self.problem, self.hint = line, column, problem, hint
        super().__init__(problem)


class Mark(NamedTuple):
    """A place in the file, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it is written. `plain` = without quotes, so `null` may mean nothing and `1` a number."""

    mark: Mark
    text: str
    plain: bool
    depth: int = 1
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Items:
    mark: Mark
    items: tuple[Node, ...]
    depth: int
    weight: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping, with its pairs as written: duplicates and merge keys (`<<`) are still in it."""

    mark: Mark
    pairs: tuple[tuple[Node, Node], ...]
    depth: int
    weight: int


Node = Scalar | Items | Entries


def is_nothing(node: Node) -> bool:
    """Whether the value is empty or a plain `null`."""
    return isinstance(node, Scalar) and node.plain and node.text in NOTHING


def kind_of(node: Node) -> str:
    """What a node is, for a message."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Entries):
        return "a section with keys"
    return "nothing" if is_nothing(node) else "a single value"


def read_document(data: bytes) -> Node | None:
    """Give the root node of `data`, or None when there is nothing but comments.

    Raises DocumentError for anything that is not one UTF-8 YAML document within the limits.
    """
    if len(data) > MAX_BYTES:
        raise DocumentError(
            0, 0, f"is larger than {MAX_BYTES // 1024} KiB, so it cannot be a configuration of this program"
        )
    try:
        text = _decode(data)
        return _Composer().compose(_events(BRACES.sub("$\ue000\\1\ue001", text)))
    except yaml.MarkedYAMLError as error:
        fault = _syntax_error(error, text)
    except yaml.YAMLError:
        fault = DocumentError(0, 0, "is not valid YAML")
    raise fault


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(1, 1, "is UTF-16", "save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before, byte = data[: error.start], data[error.start]
    else:
        found = NOT_PRINTABLE.search(text)
        if found is None:
            return text
        what = f"contains the control character U+{ord(found.group()):04X}"
        raise DocumentError(*_place(text[: found.start()]), what, "remove it")
    # Outside the handler, so that no traceback carries the file's bytes along.
    raise DocumentError(*_place(before.decode()), f"is not UTF-8: byte 0x{byte:02X}", "save it as UTF-8")


def _place(before: str) -> Mark:
    return Mark(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _events(text: str) -> Iterator[yaml.Event]:
    return iter(yaml.parse(text, Loader=PARSER))


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> DocumentError:
    words = error.problem or ""
    in_quotes = "quoted scalar" in (error.context or "")
    mark = (error.context_mark if in_quotes else error.problem_mark) or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
    lines = text.split("\n", line)
    if 0 < line <= len(lines) and re.match(" *\t", lines[line - 1]):
        words = "tab character"
    for known, problem, hint in FAULTS:
        if known in words:
            return DocumentError(line, column, f"is not valid YAML: {problem}", hint)
    return DocumentError(line, column, "is not valid YAML: " + re.sub(r"'[^']*'", "'…'", words))


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been seen yet."""

    mark: Mark
    anchor: str | None
    is_list: bool
    children: list[Node]

    def close(self) -> Items | Entries:
        depth = 1 + max((child.depth for child in self.children), default=0)
        weight = 1 + sum(child.weight for child in self.children)
        if self.is_list:
            return Items(self.mark, tuple(self.children), depth, weight)
        keys, values = self.children[::2], self.children[1::2]
        return Entries(self.mark, tuple(zip(keys, values, strict=True)), depth, weight)


class _Composer:
    """Builds the tree from events, with an explicit stack and all limits."""

    def __init__(self) -> None:
        self.stack: list[_Open] = []
        self.anchors: dict[str, Node | None] = {}
        self.root: Node | None = None
        self.seen = 0

    def compose(self, events: Iterator[yaml.Event]) -> Node | None:
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise DocumentError(*_mark(event), "contains a second YAML document", "remove the line `---`")
            elif isinstance(event, yaml.NodeEvent):
                self._node(event)
            elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
                opened = self.stack.pop()
                self._add(opened.close(), opened.anchor)
        return self.root

    def _node(self, event: yaml.NodeEvent) -> None:
        mark = _mark(event)
        self.seen += 1
        if self.seen > MAX_NODES:
            raise DocumentError(*mark, f"contains more than {MAX_NODES} values")
        if len(self.stack) >= MAX_DEPTH:
            raise DocumentError(*mark, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            self._add(self._anchored(event.anchor, mark), None)
            return
        if getattr(event, "tag", None) is not None:
            raise DocumentError(
                *mark, "YAML tags (words that start with !) are not accepted", "put text that starts with ! in quotes"
            )
        if isinstance(event, yaml.ScalarEvent):
            text = STAND_INS.sub(r"${\1}", event.value)
            self._add(Scalar(mark, text, event.style in (None, "")), event.anchor)
            return
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(mark, event.anchor, isinstance(event, yaml.SequenceStartEvent), []))

    def _anchored(self, anchor: str | None, mark: Mark) -> Node:
        # The name is not repeated in the messages: an unquoted password may start with `*`.
        if anchor is None or anchor not in self.anchors:
            raise DocumentError(*mark, "an alias without an anchor", "put text that starts with * in quotes")
        node = self.anchors[anchor]
        if node is None:
            raise DocumentError(*mark, "an alias inside its own anchor")
        return node

    def _add(self, node: Node, anchor: str | None) -> None:
        if node.weight > MAX_NODES or node.depth > MAX_DEPTH:
            raise DocumentError(*node.mark, "aliases make this value too large or too deep", "write the values out")
        if anchor is not None:
            self.anchors[anchor] = node
        if self.stack:
            self.stack[-1].children.append(node)
        else:
            self.root = node


def _mark(event: yaml.Event) -> Mark:
    mark = event.start_mark
    return Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(0, 0)
