"""Finds code that looks into a text which this program wrote for people, instead of into a typed field beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

TEXTS = frozenset({"summary", "advice", "sentence", "short", "detail", "title", "body", "phrase", "statement"})
"""Attributes, and keys of our own JSON, that hold words for a person."""
NAMES = frozenset({"summary", "advice", "sentence", "statement"})
"""Variables that hold such words wherever they come from."""
INTO = frozenset(
    {
        "startswith", "endswith", "removeprefix", "removesuffix", "replace", "split", "rsplit",
        "partition", "rpartition", "find", "rfind", "index", "rindex", "count",
    }
)  # fmt: skip
REGEX = frozenset({"search", "match", "fullmatch", "sub", "subn", "findall", "finditer"})
MEASURES = frozenset({"len", "bool", "hash", "isinstance", "print", "tag"})
"""Calls whose result is no text of ours any more."""


def error_classes(trees: Iterable[ast.Module], root: str = "WatchdogError") -> frozenset[str]:
    """Names of the classes that derive from `root`, itself included."""
    bases = {
        node.name: {base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {root}
    while more := {name for name, over in bases.items() if over & found} - found:
        found |= more
    return frozenset(found)


def looks_into_own_text(tree: ast.Module, errors: frozenset[str]) -> list[tuple[int, str]]:
    """Line and source of every expression in `tree` that looks into one of our texts.

    Texts are followed through assignments within a function, not through its calls.
    """
    scopes = [node for node in tree.body if not isinstance(node, ast.ClassDef)]
    scopes += [node for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for node in one.body]
    found: set[tuple[int, str]] = set()
    for scope in scopes:
        if not isinstance(scope, ast.ClassDef):
            found |= set(_Scope(scope, errors).looks())
    return sorted(found)


class _Scope:
    """One function with all that stands inside it, or one statement of a module."""

    def __init__(self, node: ast.AST, errors: frozenset[str]) -> None:
        self._node = node
        self._caught = set(_error_names(node, errors))
        self._known: set[str] = set(NAMES)
        size = -1
        while size != len(self._known):
            size = len(self._known)
            for target, value in _assignments(node):
                if self._is_ours(value):
                    self._known.add(target)

    def looks(self) -> Iterator[tuple[int, str]]:
        """Every look into one of our texts."""
        for node in ast.walk(self._node):
            if (isinstance(node, ast.Compare) and self._compares(node)) or (
                isinstance(node, ast.Call) and self._calls(node)
            ):
                yield node.lineno, ast.unparse(node)

    def _compares(self, node: ast.Compare) -> bool:
        for left, operation, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if isinstance(operation, ast.In | ast.NotIn) and self._is_ours(right):
                return True
            if isinstance(operation, ast.Eq | ast.NotEq | ast.In | ast.NotIn) and (
                (self._is_ours(left) and _holds_words(right)) or (self._is_ours(right) and _holds_words(left))
            ):
                return True
        return False

    def _calls(self, node: ast.Call) -> bool:
        if not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr in INTO and self._is_ours(node.func.value):
            return True
        return node.func.attr in REGEX and any(self._is_ours(given) for given in node.args)

    def _is_ours(self, node: ast.expr | None) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._known
            case ast.Attribute(value=value, attr=name):
                return name in TEXTS or (name == "args" and self._is_error(value))
            case ast.Subscript(value=value, slice=key):
                return (isinstance(key, ast.Constant) and key.value in TEXTS) or self._is_ours(value)
            case ast.JoinedStr(values=parts):
                return any(isinstance(part, ast.FormattedValue) and self._is_said(part.value) for part in parts)
            case ast.BinOp(left=left, right=right):
                return self._is_ours(left) or self._is_ours(right)
            case ast.BoolOp(values=values):
                return any(map(self._is_ours, values))
            case ast.IfExp(body=body, orelse=other):
                return self._is_ours(body) or self._is_ours(other)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self._is_ours(value)
            case ast.Call():
                return self._returns_ours(node)
        return False

    def _returns_ours(self, node: ast.Call) -> bool:
        match node.func:
            case ast.Attribute(value=value, attr=name):
                if self._is_ours(value) or (name in TEXTS - {"title"}):  # str.title
                    return True
            case ast.Name(id=name):
                if name in MEASURES or name[:1].isupper():
                    return False
                if name in {"str", "repr", "format"}:
                    return any(self._is_said(given) for given in node.args)
        return any(map(self._is_ours, node.args))

    def _is_said(self, node: ast.expr) -> bool:
        return self._is_ours(node) or self._is_error(node)

    def _is_error(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._caught


def _holds_words(node: ast.expr) -> bool:
    """Whether `node` is a text, or a collection of texts, written out in the code."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value for part in parts)


def _error_names(node: ast.AST, errors: frozenset[str]) -> Iterator[str]:
    """Variables that hold one of our errors: caught as one, or a parameter of that type."""
    for one in ast.walk(node):
        if isinstance(one, ast.ExceptHandler) and one.name and _names(one.type) & errors:
            yield one.name
        if isinstance(one, ast.arg) and _names(one.annotation) & errors:
            yield one.arg


def _names(node: ast.expr | None) -> set[str]:
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in (() if node is None else ast.walk(node))
        if isinstance(one, ast.Name | ast.Attribute)
    }


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for one in ast.walk(node):
        match one:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield from _pairs(target, value)
            case ast.NamedExpr(target=target, value=value) | ast.comprehension(target=target, iter=value):
                yield from _pairs(target, value)
            case ast.For(target=target, iter=value):
                yield from _pairs(target, value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, given in zip(target.elts, value.elts, strict=True):
            yield from _pairs(part, given)
