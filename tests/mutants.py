"""How many small wrong changes to the code that decides do the tests notice? `make mutants`, or with other options:

python -m tests.mutants --sample 20 --seed 1 --json found.json

A first run learns which tests reach which lines; it is kept under .lab/mutants until a file changes. Then every sampled
mutant runs the tests that reach its line, in a fork of this process: what is imported already need not be again.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
import yaml
from coverage import Coverage

from tests.support.mutations import Mutation, mutations

# Names under watchdog/, a module or a package each; one that does not exist is skipped.
SCOPE = (
    "tracker", "policy", "message", "diagnosis", "kernlog", "journal", "completion", "engines", "vitals",
    "checks", "ingest", "outbox", "scheduler", "selfwatch", "store",
)  # fmt: skip
TESTS = ("tests/unit", "tests/properties", "tests/integration")
MARKS = "not slow and not real and not alone"
AT_LEAST = 4  # mutants of each group, where the sample is big enough

# A mutant meets a few tests of many kinds first, and more of those that reach it only if it survives them.
BATCHES = ((60, 15.0), (600, 25.0), (600, 25.0))  # how many tests, and for how long together, in seconds
TIMEOUT_S = 60.0
SLOW_IMPORTS = ("aiohttp", "aiohttp.web", "asyncssh", "prometheus_client", "structlog")
MAP_TIMEOUT_S = 900.0
MEMORY_LIMIT = 8 << 30  # address space in bytes: a mutated loop may collect for ever

ROOT = Path(__file__).parents[1]
EQUIVALENT = ROOT / "tests/mutants_equivalent.yaml"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation of one file; `before` and `after` are its line."""

    file: str
    group: str
    mutation: Mutation
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant: killed, survived, unreached (survived too) or equivalent; `test` killed it."""

    mutant: Mutant
    status: str
    test: str = ""
    tests: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReachMap:
    """Which passing tests reach which lines, and how long each takes.

    A line that a test file reaches while it is collected has that file's name among its tests; those of `unseen` reach
    no line that we know of.
    """

    seconds: dict[str, float]
    reach: dict[str, dict[int, set[str]]]
    unseen: set[str]

    def tiers(self, mutant: Mutant, importers: Mapping[str, set[str]]) -> list[set[str]]:
        """Tests that may notice the mutant, the likeliest first."""
        lines = self.reach.get(mutant.file, {})
        if mutant.mutation.called:
            first, last = mutant.mutation.lines
            found = lines.get(mutant.mutation.line) or _all(lines.get(at, set()) for at in range(first, last + 1))
            direct = [found & self.seconds.keys()]
        else:  # what is set at import is used anywhere: in its own module first, else where that is imported
            found = _all(lines.values())
            users = [self.reach.get(user, {}) for user in sorted(importers[mutant.file])]
            direct = [found & self.seconds.keys(), _all(_all(user.values()) for user in users) & self.seconds.keys()]
        # A fixture of a whole module, or a cache, is filled in one test and judged in others of its file; and what a
        # test reaches in a process of its own is not seen.
        files = {_file_of(test) for test in found}
        return [*direct, {test for test in self.seconds if _file_of(test) in files}, self.unseen]


def _all(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)


# Forks


@dataclass(frozen=True, slots=True)
class Task:
    """Some test files, or chosen tests of them in this order, on the tree with one file changed."""

    name: str
    files: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    edit: tuple[str, str] | None = None
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a fork ended: its exit status, none after a timeout, and what its recorder wrote."""

    status: int | None
    seconds: float
    recorded: dict[str, Any]


class Recorder:
    """A pytest plugin: chooses and orders tests, times them, and knows the lines each reaches where `measured`."""

    def __init__(self, chosen: Sequence[str], measured: Path | None) -> None:
        self._order = {test: at for at, test in enumerate(chosen)}
        self._coverage = Coverage(data_file=None, config_file=False, source=[str(measured)]) if measured else None
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: list[str] = []
        self._skipped: list[str] = []
        if self._coverage:
            self._coverage.start()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._order:
            items[:] = sorted(
                (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self._coverage:
            self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            if self._coverage:
                self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if not report.passed:
            (self._failed if report.failed else self._skipped).append(report.nodeid)

    def recorded(self, tree: Path) -> dict[str, Any]:
        reach: dict[str, dict[int, list[str]]] = {}
        if self._coverage:
            self._coverage.stop()
            data = self._coverage.get_data()
            for name in data.measured_files():
                reach[str(Path(name).relative_to(tree))] = data.contexts_by_lineno(name)
        return {"seconds": self._seconds, "failed": self._failed, "skipped": self._skipped, "reach": reach}


class Slot:
    """A copy of the tree in which one fork at a time runs."""

    def __init__(self, place: Path) -> None:
        self.tree = place / "tree"
        self._temporary = place / "tmp"
        self._log = place / "log"
        self._result = place / "result.json"
        self._pid = 0
        self._task: Task | None = None
        self._began = 0.0
        self._written = 0
        self._original = ""
        _copy_tree(self.tree)

    def start(self, task: Task) -> None:
        self._task, self._began = task, time.monotonic()
        self._result.unlink(missing_ok=True)
        if task.edit:
            self._original = (self.tree / task.edit[0]).read_text()
            self._write(*task.edit)
        self._pid = os.fork()
        if not self._pid:
            try:
                code = self._run(task)
            except BaseException:  # noqa: BLE001  # a fork ends here, whatever happened
                traceback.print_exc()
                code = 70
            os._exit(code)

    def ended(self) -> tuple[Task, Outcome] | None:
        """The task and how it went, once it has ended or was ended for taking too long."""
        if not self._task:
            return None
        seconds = time.monotonic() - self._began
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        late = not pid and seconds > self._task.timeout_s
        if not pid and not late:
            return None
        self.stop(reaped=bool(pid))
        task, self._task = self._task, None
        if task.edit:
            self._write(task.edit[0], self._original)
        recorded = json.loads(self._result.read_text()) if self._result.exists() else {}
        return task, Outcome(None if late else os.waitstatus_to_exitcode(status), seconds, recorded)

    def stop(self, *, reaped: bool = False) -> None:
        """End the fork and all that it started."""
        if self._task and not reaped:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self._pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        child.kill()
        if self._task:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
        if self._task and not reaped:
            os.waitpid(self._pid, 0)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _write(self, file: str, text: str) -> None:
        path = self.tree / file
        path.write_text(text)
        # Bytecode is looked up by a file's second and size: without this a mutant could run as the one before it.
        self._written += 1
        os.utime(path, (1_000_000_000 + self._written,) * 2)

    def _run(self, task: Task) -> int:
        os.setsid()
        for descriptor, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(path, flags), descriptor)
        os.dup2(1, 2)
        os.chdir(self.tree)
        os.environ["PYTHONPATH"] = str(self.tree)
        sys.path[:] = [str(self.tree), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, resource.getrlimit(resource.RLIMIT_AS)[1]))
        # The same examples every time, and no search for a smaller one: that it fails is all we ask.
        hypothesis.settings.register_profile(
            "mutants",
            derandomize=True,
            database=None,
            deadline=None,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")
        recorder = Recorder(task.chosen, None if task.chosen else self.tree / "watchdog")
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", MARKS, f"--basetemp={self._temporary}"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning", *(["-x", "--tb=short"] if task.chosen else [])]
        code = pytest.main([*options, *task.files], plugins=[recorder])
        self._result.write_text(json.dumps(recorder.recorded(self.tree)))
        return int(code)


def forked(tasks: deque[Task], slots: Sequence[Slot]) -> Iterator[tuple[Task, Outcome, Slot]]:
    """Run all tasks, also those that are added meanwhile; each is yielded when it has ended."""
    idle, busy = list(slots), list[Slot]()
    try:
        while tasks or busy:
            while tasks and idle:
                busy.append(idle.pop())
                busy[-1].start(tasks.popleft())
            for slot in list(busy):
                if ended := slot.ended():
                    busy.remove(slot)
                    yield *ended, slot
                    idle.append(slot)
            time.sleep(0.02)
    finally:
        for slot in busy:
            slot.stop()


# What there is


def _git(*words: str, **environment: str) -> str:
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | environment
    )
    return done.stdout


def _copy_tree(target: Path) -> None:
    for name in filter(None, _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def tree_hash() -> str:
    """Git's hash of the working tree as it is, committed or not; what is known as equivalent changes no test."""
    with tempfile.TemporaryDirectory() as place:
        index = f"{place}/index"
        _git("add", "--all", ".", f":!{EQUIVALENT.relative_to(ROOT)}", GIT_INDEX_FILE=index)
        return _git("write-tree", GIT_INDEX_FILE=index).strip()


def group_of(file: str) -> str:
    return Path(file).parts[1].removesuffix(".py")


def sources() -> dict[str, str]:
    """Every module of the program, by its path."""
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "watchdog").rglob("*.py"))}


def importers(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """For each module those that import it, also by way of a package that passes its names on."""
    direct: dict[str, set[str]] = defaultdict(set)
    for user, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                stem = name.replace(".", "/")
                for used in {f"{stem}.py", f"{stem}/__init__.py"} & texts.keys():
                    direct[used].add(user)
    return defaultdict(
        set,
        {
            used: users.union(*(direct[user] for user in users if user.endswith("__init__.py")))
            for used, users in list(direct.items())
        },
    )


def sampled(texts: Mapping[str, str], size: int, seed: int) -> list[Mutant]:
    """So many mutants, from each group in proportion; a change in one group leaves the draw in others as it was."""
    found: dict[str, list[tuple[str, Mutation]]] = defaultdict(list)
    for file, text in texts.items():
        if any(fnmatch(group_of(file), pattern) for pattern in SCOPE):
            found[group_of(file)] += [(file, mutation) for mutation in mutations(text)]
    shares = allotted({group: len(candidates) for group, candidates in found.items()}, size)
    return [
        Mutant(file, group, mutation, *mutation.shown(texts[file]))
        for group, candidates in sorted(found.items())
        for file, mutation in random.Random(f"{seed} {group}").sample(candidates, shares[group])
    ]


def allotted(candidates: Mapping[str, int], size: int) -> dict[str, int]:
    """How many of each group: a few of every one, the rest in proportion to what there is."""
    if not candidates:
        return {}
    floor = min(AT_LEAST, size // len(candidates))
    shares = {group: min(floor, count) for group, count in candidates.items()}
    total = sum(candidates.values())
    for _ in range(min(size, total) - sum(shares.values())):
        open_groups = [group for group in candidates if shares[group] < candidates[group]]
        furthest = max(open_groups, key=lambda group: size * candidates[group] / total - shares[group])
        shares[furthest] += 1
    return shares


def batches(tiers: Sequence[set[str]], seconds: Mapping[str, float]) -> list[tuple[str, ...]]:
    """The tests to run, batch by batch: in each tier one case of every test before a second of any."""
    order: list[str] = []
    for tier in tiers:
        cases: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tier - set(order), key=lambda test: (seconds[test], test)):
            cases[test.partition("[")[0]].append(test)
        ranked = [(rank, seconds[test], test) for tests in cases.values() for rank, test in enumerate(tests)]
        order += [test for _, _, test in sorted(ranked)]
    found: list[tuple[str, ...]] = []
    for most, longest in BATCHES:
        taken: list[str] = []
        spent = 0.0
        for test in order:
            if len(taken) < most and (
                spent + seconds[test] <= longest or (not found and not taken and test == order[-1])
            ):
                taken.append(test)
                spent += seconds[test]
        if taken:
            found.append(_by_file(taken, seconds))
        order = [test for test in order if test not in set(taken)]
    return found


def _by_file(tests: Sequence[str], seconds: Mapping[str, float]) -> tuple[str, ...]:
    """Quick tests first, but file by file: fixtures are shared within one."""
    quickest: dict[str, float] = {}
    for test in tests:
        file = _file_of(test)
        quickest[file] = min(seconds[test], quickest.get(file, seconds[test]))
    return tuple(sorted(tests, key=lambda test: (quickest[_file_of(test)], _file_of(test), seconds[test], test)))


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def equivalents() -> dict[tuple[str, str, str], str]:
    """Known mutants that mean the same, by module, line and mutated line; with the reason."""
    rows = yaml.safe_load(EQUIVALENT.read_text()) or []
    return {(row["module"], row["line"], row["mutant"]): row["reason"] for row in rows}


def module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# The two runs


def learned(slots: Sequence[Slot], tree: str) -> ReachMap:
    """Which tests reach which lines: from the last run on the same tree, or from running all of them."""
    kept = ROOT / ".lab/mutants" / f"{tree}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(_learn(slots)))
    data = json.loads(kept.read_text())
    tests = data["tests"]
    reach = {
        file: {int(line): {tests[at] for at in numbers} for line, numbers in lines.items()}
        for file, lines in data["reach"].items()
    }
    seen = _all(_all(lines.values()) for lines in reach.values())
    return ReachMap(data["seconds"], reach, data["seconds"].keys() - seen)


def _learn(slots: Sequence[Slot]) -> dict[str, Any]:
    files = sorted((path for place in TESTS for path in (ROOT / place).glob("test_*.py")), key=lambda path: path.name)
    names = [str(path.relative_to(ROOT)) for path in files]
    tasks = deque(Task(name, (name,), timeout_s=MAP_TIMEOUT_S) for name in names)
    seconds: dict[str, float] = {}
    reach: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    began = time.monotonic()
    for done, (task, outcome, slot) in enumerate(forked(tasks, slots), start=1):
        failed = outcome.recorded.get("failed", [])
        left_out = {*failed, *outcome.recorded.get("skipped", ())}
        seconds |= {test: took for test, took in outcome.recorded.get("seconds", {}).items() if test not in left_out}
        for file, lines in outcome.recorded.get("reach", {}).items():
            for line, tests in lines.items():
                reach[file][line].update(test if test in seconds else task.name for test in tests)
        note = f"  {len(failed)} failed and are left out" if failed else ""
        if outcome.status not in {0, 1, 5}:
            note = f"  ended with {outcome.status}:\n{slot.log()[-2000:]}"
        _progress(f"[{done:3}/{len(files)}] {time.monotonic() - began:4.0f} s  {task.name}{note}")
        for test in failed:
            _progress(f"          {test}")
    number = {test: at for at, test in enumerate([*seconds, *names])}
    return {
        "tests": list(number),
        "seconds": seconds,
        "reach": {
            file: {line: [number[test] for test in sorted(tests)] for line, tests in lines.items() if tests}
            for file, lines in reach.items()
        },
    }


def judged(
    mutants: Sequence[Mutant], texts: Mapping[str, str], reached: ReachMap, slots: Sequence[Slot]
) -> Iterator[Result]:
    """Run every mutant; each comes when it is decided."""
    users = importers(texts)
    plans: dict[str, tuple[Mutant, deque[tuple[str, ...]]]] = {}
    spent: dict[str, Result] = {}
    tasks: deque[Task] = deque()
    for at, mutant in enumerate(mutants):
        plan = deque(batches(reached.tiers(mutant, users), reached.seconds))
        if not plan:
            yield Result(mutant, "unreached")
            continue
        plans[str(at)], spent[str(at)] = (mutant, plan), Result(mutant, "survived")
        tasks.append(_task(str(at), mutant, plan.popleft(), texts, reached.seconds))
    for task, outcome, _ in forked(tasks, slots):
        mutant, plan = plans[task.name]
        before = spent[task.name]
        now = replace(before, tests=before.tests + len(task.chosen), seconds=before.seconds + outcome.seconds)
        spent[task.name] = now
        if outcome.status not in {0, 5}:
            culprit = next(iter(outcome.recorded.get("failed", ())), "an error at import")
            yield replace(now, status="killed", test="timeout" if outcome.status is None else culprit)
        elif plan:
            tasks.append(_task(task.name, mutant, plan.popleft(), texts, reached.seconds))
        else:
            yield now


def _task(
    name: str, mutant: Mutant, tests: tuple[str, ...], texts: Mapping[str, str], seconds: Mapping[str, float]
) -> Task:
    edit = (mutant.file, mutant.mutation.applied(texts[mutant.file]))
    timeout_s = max(TIMEOUT_S, 4 * sum(seconds[test] for test in tests))
    return Task(name, tuple(dict.fromkeys(map(_file_of, tests))), tests, edit, timeout_s)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# What is said of it


def score(results: Sequence[Result]) -> float | None:
    """The killed in percent of those that are not equivalent."""
    counted = [result for result in results if result.status != "equivalent"]
    return 100 * sum(result.status == "killed" for result in counted) / len(counted) if counted else None


def table(results: Sequence[Result]) -> str:
    """One line for each group and one for all, then the survivors."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.mutant.group].append(result)
    rows = [f"{'':12} {'killed':>8} {'survived':>9} {'equivalent':>11} {'score':>7}"]
    for name, found in [*sorted(groups.items()), ("all", list(results))]:
        killed, equivalent = (sum(result.status == status for result in found) for status in ("killed", "equivalent"))
        percent = score(found)
        said = "-" if percent is None else f"{percent:.0f} %"
        rows.append(f"{name:12} {killed:8} {len(found) - killed - equivalent:9} {equivalent:11} {said:>7}")
    alive = [result for result in results if result.status in {"survived", "unreached"}]
    for result in sorted(alive, key=lambda result: (result.mutant.file, result.mutant.mutation.start)):
        mutant = result.mutant
        note = "" if result.status == "survived" else "   (no test reaches it)"
        rows.append(f"{mutant.file}:{mutant.mutation.line}  {mutant.before}  ->  {mutant.after}{note}")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants (default 150)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every mutant and its fate there")
    parser.add_argument("--min-score", type=float, metavar="PERCENT", help="exit 1 below it")
    options = parser.parse_args()

    for name in SLOW_IMPORTS:
        importlib.import_module(name)  # here, so that no fork has to
    began = time.monotonic()
    texts, tree, known = sources(), tree_hash(), equivalents()
    mutants = sampled(texts, options.sample, options.seed)
    same = [m for m in mutants if (module_of(m.file), m.before, m.after) in known]
    results = [Result(mutant, "equivalent") for mutant in same]
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        slots = [Slot(Path(place) / str(number)) for number in range(options.jobs)]
        reached = learned(slots, tree)
        for result in judged([mutant for mutant in mutants if mutant not in same], texts, reached, slots):
            results.append(result)
            mutant = result.mutant
            _progress(
                f"[{len(results):3}/{len(mutants)}] {result.status:9} {result.seconds:5.1f} s"
                f"  {mutant.file}:{mutant.mutation.line}  {mutant.before}  ->  {mutant.after}  {result.test}"
            )
    print(table(results))
    print(f"{len(results)} mutants of {tree[:12]}, seed {options.seed}, in {time.monotonic() - began:.0f} s")
    if options.json:
        found = [asdict(result) for result in results]
        options.json.write_text(json.dumps({"tree": tree, "seed": options.seed, "mutants": found}, indent=1))
    return int(options.min_score is not None and (score(results) or 0.0) < options.min_score)


if __name__ == "__main__":
    sys.exit(main())
