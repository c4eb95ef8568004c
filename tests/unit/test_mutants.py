"""What `make mutants` changes, draws and runs."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tests.mutants import Mutant, ReachMap, allotted, batches, importers
from tests.support.mutations import mutations


def mutated(source: str) -> list[str]:
    """The line of every mutant."""
    return [mutation.shown(source)[1] for mutation in mutations(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = a <= b", ["x = a < b", "x = a > b"]),
        ("x = a == b", ["x = a != b"]),
        ("x = a in b", ["x = a not in b"]),
        ("x = a not  in b", ["x = a in b"]),
        ("x = a is b", ["x = a is not b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a < b > c", ["x = a <= b > c", "x = a >= b > c", "x = a < b <= c", "x = a < b >= c"]),
        ("x = (a) and (b or c)", ["x = (a) or (b or c)", "x = (a) and (b and c)"]),
        ("x = not (a)", ["x = (a)"]),
        ("if a: pass", ["if not (a): pass"]),
        ("if a is b: pass", ["if a is not b: pass"]),
        ("if not a: pass", ["if a: pass"]),
        ("while (a or b): pass", ["while (not (a or b)): pass", "while (a and b): pass"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not (a)]"]),
        ("x = 7", ["x = 8"]),
        ("x = 2.0", ["x = 3.0"]),
        ("x = 0.0", ["x = 1.0"]),
        ("x = True", ["x = False"]),
        ("x = a + b", ["x = a - b"]),
        ("x -= a", ["x += a"]),
        ("x = a - b - c", ["x = a + b - c", "x = a - b + c"]),
        ("x = max(a, b)", ["x = min(a, b)"]),
        ("for a in b: continue", ["for a in b: pass"]),
        ("for a in b: break", ["for a in b: pass"]),
        ("def f(): return a, b", ["def f(): return None"]),
        ("def f(): return False", ["def f(): return True"]),
        ("x = 'ä' if a else b", ["x = 'ä' if not (a) else b"]),
    ],
)
def test_each_kind_of_change_is_made_and_only_there(source: str, expected: list[str]) -> None:
    assert mutated(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x = 'a' + b",
        "x += 'a'",
        "x = f'{a + 1}'",
        "x: Literal[1] = a",
        "def f(x: Literal[1]) -> Literal[2]: pass",
        "@dataclass(frozen=True)\nclass A: pass",
        "if TYPE_CHECKING: import a",
        "x = zip(a, b, strict=True)",
        "def f(): return None",
        "def f(): return",
    ],
)
def test_what_means_nothing_for_a_decision_is_left_alone(source: str) -> None:
    assert mutated(source) == []


def test_every_mutant_parses_differs_and_changes_one_place() -> None:
    source = textwrap.dedent('''
        """Text with 1 < 2 and more."""

        LIMIT = 3  # not 4


        async def judge(values, limit=LIMIT + 1):
            total = 0
            for value in values:
                if not value or value is None:
                    continue
                if (
                    value > limit  # greater and not equal
                    and not (value in (1, 2) or value == -1)
                ):
                    break
                total += max(value, 0.5)
            match total:
                case 0 if limit:
                    return sorted(
                        values, key=lambda value: -value if value < 1 else value
                    )
            return total != 7
    ''')
    meaning = ast.dump(ast.parse(source))
    found = mutations(source)
    assert len(found) == 33
    for mutation in found:
        changed = mutation.applied(source)
        assert ast.dump(ast.parse(changed)) != meaning
        assert changed.split("\n")[: mutation.line - 1] == source.split("\n")[: mutation.line - 1]
        before, after = mutation.shown(source)
        assert before != after


def test_a_mutation_knows_its_statement_and_whether_it_runs_in_a_call() -> None:
    source = "A = 1\ndef f(b=2):\n    if (b and\n        A):\n        return lambda: 3\nC = lambda: 4\n"
    assert [(found.line, found.lines, found.called) for found in mutations(source)] == [
        (1, (1, 1), False),
        (2, (2, 2), False),
        (3, (3, 4), True),
        (3, (3, 4), True),
        (5, (5, 5), True),
        (5, (5, 5), True),
        (6, (6, 6), True),
    ]


def test_every_group_gets_a_few_and_the_rest_in_proportion() -> None:
    assert allotted({"big": 900, "middle": 95, "small": 5, "tiny": 2}, 50) == {
        "big": 40, "middle": 4, "small": 4, "tiny": 2,
    }  # fmt: skip
    assert allotted({"big": 90, "small": 10}, 5) == {"big": 3, "small": 2}
    assert allotted({"one": 2}, 10) == {"one": 2}
    assert allotted({}, 10) == {}


def test_a_mutant_meets_one_case_of_every_test_first_and_quick_ones_file_by_file() -> None:
    seconds = {"a.py::x[1]": 0.2, "a.py::x[2]": 0.1, "a.py::y": 3.0, "b.py::z": 0.15, "b.py::w": 30.0}
    first, *more = batches([set(seconds)], seconds)
    assert first == ("a.py::x[2]", "a.py::x[1]", "a.py::y", "b.py::z")
    assert more == []
    many = {f"a.py::x[{case}]": 0.001 * case for case in range(1, 100)} | {"b.py::y": 1.5}
    first, second = batches([set(many)], many)
    assert len(first) == 60
    assert "b.py::y" in first
    assert len(second) == 40


def test_the_only_test_is_run_however_long_it_takes() -> None:
    assert batches([set(), {"a.py::x"}], {"a.py::x": 99.0}) == [("a.py::x",)]
    assert batches([set(), set()], {}) == []


def test_who_imports_a_module_is_found_also_by_way_of_its_package() -> None:
    texts = {
        "watchdog/a/__init__.py": "from watchdog.a.b import c",
        "watchdog/a/b.py": "c = 1",
        "watchdog/d.py": "from watchdog.a import c",
        "watchdog/e.py": "import watchdog.d",
    }
    found = importers(texts)
    assert found["watchdog/a/b.py"] == {"watchdog/a/__init__.py", "watchdog/d.py"}
    assert found["watchdog/d.py"] == {"watchdog/e.py"}
    assert found["watchdog/e.py"] == set()


def test_tests_that_may_notice_come_by_how_likely_they_do() -> None:
    source = "LIMIT = 3\n\ndef f(a):\n    if a > LIMIT:\n        return a\n"
    reached = ReachMap(
        seconds=dict.fromkeys(["a.py::x", "a.py::y", "b.py::z", "c.py::own_process"], 0.1),
        reach={
            "watchdog/m.py": {1: {"a.py", "b.py"}, 4: {"a.py::x", "b.py"}},
            "watchdog/user.py": {9: {"b.py::z"}},
        },
        unseen={"c.py::own_process"},
    )
    limit, condition, *_ = (Mutant("watchdog/m.py", "m", found, *found.shown(source)) for found in mutations(source))
    users = {"watchdog/m.py": {"watchdog/user.py"}}
    everything = {"a.py::x", "a.py::y", "b.py::z"}
    assert reached.tiers(limit, users) == [{"a.py::x"}, {"b.py::z"}, everything, {"c.py::own_process"}]
    assert reached.tiers(condition, users) == [{"a.py::x"}, everything, {"c.py::own_process"}]
