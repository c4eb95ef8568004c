"""Small wrong changes to a Python source, each replacing exactly one segment of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Lt: (r"<", ("<=", ">=")),
    ast.LtE: (r"<=", ("<", ">")),
    ast.Gt: (r">", (">=", "<=")),
    ast.GtE: (r">=", (">", "<")),
    ast.Eq: (r"==", ("!=",)),
    ast.NotEq: (r"!=", ("==",)),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
    ast.Is: (r"\bis\b", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
    ast.And: (r"\band\b", ("or",)),
    ast.Or: (r"\bor\b", ("and",)),
    ast.Add: (r"\+", ("-",)),
    ast.Sub: (r"-", ("+",)),
}
SWAPPED_CALLS = {"max": "min", "min": "max"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: the bytes from `start` to `end` become `replacement`.

    `lines` are the first and the last of its statement's head; `called` is true where it runs in a call rather than
    when its module is imported.
    """

    start: int
    end: int
    replacement: str
    line: int
    lines: tuple[int, int]
    called: bool

    def applied(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.replacement.encode() + data[self.end :]).decode()

    def shown(self, source: str) -> tuple[str, str]:
        """Its line before and after, without indentation."""
        before, after = (text.split("\n")[self.line - 1] for text in (source, self.applied(source)))
        return before.strip(), after.strip()


def mutations(source: str) -> list[Mutation]:
    """Every mutation, in the order of the text."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(set(finder.found), key=lambda found: (found.start, found.end, found.replacement))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Mutation] = []
        self._source = source.encode()
        self._starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = (1, 1)
        self._called = False

    def visit(self, node: ast.AST) -> None:
        outer = self._lines
        if isinstance(node, ast.stmt):
            self._lines = (node.lineno, _head_end(node))
        super().visit(node)
        self._lines = outer

    # What is not looked into: types, decorators, and f-strings, whose parts have no exact places before Python 3.12.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_arg(self, node: ast.arg) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit(node.args)
        self._inside(*node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._inside(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the visitor's own naming

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    # Conditions

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard:
            self._negate(node.guard)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            written = re.compile(rb"not\s*").match(self._source, self._start(node))
            assert written is not None
            self._add(written.start(), written.end(), "")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._operator(left, operator, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator(left, node.op, right)
        self.generic_visit(node)

    # Values

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not (_is_text(node.left) or _is_text(node.right)):
            self._operator(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _is_text(node.value):
            self._operator(node.target, node.op, node.value)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1))
        elif isinstance(node.value, float):
            self._replace(node, repr(node.value * 1.5 or 1.0))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in SWAPPED_CALLS:
            self._replace(node.func, SWAPPED_CALLS[node.func.id])
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of `zip`: no test can tell where both sides are always equally long
            self.generic_visit(node)

    # Flow

    def visit_Continue(self, node: ast.Continue | ast.Break) -> None:
        self._replace(node, "pass")

    visit_Break = visit_Continue  # noqa: N815

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value in (False, None)):  # falsy either way
            self._replace(node.value, "None")
        self.generic_visit(node)

    # Places

    def _inside(self, *body: ast.AST) -> None:
        outer, self._called = self._called, True
        for part in body:
            self.visit(part)
        self._called = outer

    def _negate(self, test: ast.expr) -> None:
        """Put `not` before a condition; a single comparison is turned round by its operator, a `not` is dropped."""
        if isinstance(test, ast.UnaryOp) or (isinstance(test, ast.Compare) and len(test.ops) == 1):
            return
        text = self._source[self._start(test) : self._end(test)].decode()
        self._replace(test, f"not ({text})")

    def _operator(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        pattern, others = OPERATORS.get(type(operator), ("", ()))
        begin = self._end(left)
        between = re.sub(rb"#.*", lambda comment: b" " * len(comment[0]), self._source[begin : self._start(right)])
        written = re.search(pattern.encode(), between)
        assert written is not None
        for other in others:
            self._add(begin + written.start(), begin + written.end(), other)

    def _replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        self._add(self._start(node), self._end(node), text)

    def _add(self, start: int, end: int, replacement: str) -> None:
        line = self._source.count(b"\n", 0, start) + 1
        self.found.append(Mutation(start, end, replacement, line, self._lines, self._called))

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _head_end(node: ast.stmt) -> int:
    """The last line of a statement before its body."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return node.end_lineno or node.lineno
    return max([node.lineno, *(part.end_lineno or 0 for part in _parts(node))])


def _parts(node: ast.stmt) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        for part in ast.walk(child) if isinstance(child, ast.arguments | ast.withitem) else (child,):
            if isinstance(part, ast.expr):
                yield part
