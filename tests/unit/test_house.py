"""What holds for the house as a whole: names, import cost, nothing of this or any one machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.own_texts import error_classes, looks_into_own_text
from watchdog.kinds import KINDS
from watchdog.reasons import HostReason, OwnReason, ProgressReason, ServerReason

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "watchdog"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_no_distribution_named_watchdog_shares_our_environment() -> None:
    """PyPI's `watchdog` owns the same import name (docs/decisions/0002)."""
    assert "watchdog" not in {(found.metadata["Name"] or "").lower() for found in metadata.distributions()}


def test_no_module_has_a_name_that_pypi_watchdog_uses() -> None:
    taken = {"events", "observers", "tricks", "utils", "version", "watchmedo"}
    assert not {path.stem for path in PACKAGE.iterdir()} & taken


def test_the_package_itself_is_a_docstring_and_nothing_else() -> None:
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)


def test_the_command_line_imports_neither_apprise_nor_asyncssh_nor_a_web_server() -> None:
    """`--help` must be quick, and the daemon pays only for what its configuration uses (design §11)."""
    heavy = ("apprise", "asyncssh", "aiohttp", "re2", "rich.console", "structlog", "sqlite3", "yaml")
    code = f"import sys, watchdog.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["watchdog.daemon", "watchdog.ssh", "watchdog.checks.kernel_log"])
def test_the_daemon_imports_no_apprise_no_web_server_and_no_ssh_server(module: str) -> None:
    heavy = ("apprise", "asyncssh.sftp_server", "aiohttp.web", "watchdog.demo.rig")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_patches_ssl_or_the_table_of_modules(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assigned = [
        target
        for node in ast.walk(tree)
        for target in (
            *(node.targets if isinstance(node, ast.Assign | ast.Delete) else ()),
            *([node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else ()),
        )
    ]
    patched = [name for target in assigned if re.match(r"ssl\.|sys\.modules\b", name := ast.unparse(target))]
    called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    changed = [name for name in called if re.match(r"sys\.modules\.(?!get$|keys$)", name)]
    set_on = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"setattr", "delattr"}
        and re.match(r"ssl\b|sys\b", ast.unparse(node.args[0]))
    ]
    assert patched + changed + set_on == []


TABLES = {"reasons.py"}  # one row a fact, all in one place


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_its_purpose_and_stays_readable(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "a module starts with what it is for"
    assert text.count("\n") <= (650 if path.name in TABLES else 450), "split it by purpose"


def test_tracked_files_name_no_index_host_and_no_path_of_one_machine() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=False, cwd=ROOT)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout: nothing is tracked")
    banned = re.compile(r"pythonhosted[.]org|//pypi[.]org|/w[o]rk/|/r[o]ot/[.]|/f[a]rm/")
    found = []
    for name in tracked.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and "fixtures/corpus" not in name:
            found += [
                f"{name}: {line}" for line in path.read_text(errors="replace").splitlines() if banned.search(line)
            ]
    assert found == []


def _strings(path: Path) -> list[tuple[int, str]]:
    """The string constants of a module that are no docstrings, with their lines."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_key_is_made_and_read_by_the_row_of_its_kind_alone(path: Path) -> None:
    if path.name == "kinds.py" or path.relative_to(PACKAGE).parts[0] == "demo":
        return
    beginnings = tuple(f"{kind.name}/" for kind in KINDS)
    assert [(line, text) for line, text in _strings(path) if text.startswith(beginnings)] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_code_compares_a_reason_with_a_word_typed_anew(path: Path) -> None:
    slugs = {reason.value for reasons in (ServerReason, ProgressReason, HostReason, OwnReason) for reason in reasons}
    compared = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "reason"
        if isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn)
    ]
    typed = [
        ast.unparse(node)
        for node in compared
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in slugs
    ]
    assert typed == [], "name the row: ServerReason.REFUSED, HostReason.SILENT, OwnReason.BLIND"


def test_a_new_kind_of_check_is_one_module_and_one_row(tmp_path: Path) -> None:
    """In a copy of the package: nothing else has to know it, and no table misses it."""
    _copy_package(tmp_path)
    (tmp_path / "watchdog/checks/disk.py").write_text(
        textwrap.dedent(
            """
            from watchdog.kinds import kind_of
            from watchdog.model import CheckResult, Observation, Severity, Verdict

            class DiskCheck:
                interval_s = 60.0
                def __init__(self, host): self.key = f"disk/{host.name}"
                async def run(self, memory, now):
                    seen = Observation(key=self.key, verdict=Verdict.PASS, reason="ok", severity=Severity.WARN,
                                       summary="there is room", at=now, labels={kind_of(self.key).label: "head"})
                    return CheckResult((seen,))

            def build(config, clock, chat):
                return [DiskCheck(host) for host in config.hosts]
            """
        )
    )
    rows = tmp_path / "watchdog/kinds.py"
    row = 'DISK = CheckKind(name="disk", label="host", module="disk", settings="vitals", reasons=HostReason)\n'
    text = rows.read_text().replace("KINDS = (GENERATION,", f"{row}\nKINDS = (DISK, GENERATION,")
    rows.write_text(text)
    code = """
        import asyncio
        from watchdog.checks import build_checks
        from watchdog.config import Config, HostSettings, ReceiverSettings, Secret
        from watchdog.policy import AlertPlan
        from watchdog.policy.plan import plan
        config = Config(hosts=(HostSettings(name="head", address="127.0.0.1", user="u", known_hosts="k"),),
                        receivers=(ReceiverSettings(name="phone", url=Secret("json://127.0.0.1")),))
        print([check.key for check in plan(config)], AlertPlan.from_config(config).covers("disk/head"))
        check = next(one for one in build_checks(config, None, None) if one.key == "disk/head")
        print(asyncio.run(check.run(None, 0.0)).observations[0].labels)
        from watchdog.cli.silence import CHECKS
        print("disk" in CHECKS)
    """
    printed = _run_in(tmp_path, code).splitlines()
    assert "disk/head" in printed[0]
    assert printed[0].endswith("True")
    assert printed[1:] == ["{'host': 'head'}", "True"]


def test_a_new_reason_is_one_row(tmp_path: Path) -> None:
    """In a copy of the package: severity, verdict, diagnosis, metrics and runbook read the row."""
    _copy_package(tmp_path)
    rows = tmp_path / "watchdog/reasons.py"
    row = 'MURMUR = "murmur", Row(runbook="Text comes, slowly.", words="slow", advice="Wait.", severity=Severity.WARN)'
    rows.write_text(rows.read_text().replace("    GARBAGE = ", f"    {row}\n    GARBAGE = ", 1))
    code = """
        from docs.generate_runbook import runbook
        from watchdog.kinds import row_of
        from watchdog.config import Config
        from watchdog.web.metrics import Metrics
        print("| `murmur` | warn | Text comes, slowly. | Wait. |" in runbook())
        print(row_of("generation/x", "murmur").severity.value)
        print(row_of("kernel_log/x", "murmur"))
    """
    assert _run_in(tmp_path, code).splitlines() == ["True", "warn", "None"]


def _copy_package(target: Path) -> None:
    shutil.copytree(PACKAGE, target / "watchdog", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", target / "docs", ignore=shutil.ignore_patterns("__pycache__", "screenshots"))


def _run_in(directory: Path, code: str) -> str:
    script = f"import sys; sys.path.insert(0, {str(directory)!r})\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def placeholders(tree: ast.Module) -> list[int]:
    """Lines that put a lambda or a function of the module into `self.…`, for somebody else to replace it later."""
    functions = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        into_self = any(isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self" for one in targets)
        is_function = isinstance(node.value, ast.Lambda) or (
            isinstance(node.value, ast.Name) and node.value.id in functions
        )
        if into_self and is_function:
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_callback_is_given_to_the_constructor_and_never_assigned_later(path: Path) -> None:
    assert placeholders(ast.parse(path.read_text())) == [], "make it a parameter of `__init__`"


def test_a_placeholder_for_a_callback_is_found() -> None:
    for line in ("self.wake: Callable[[], None] = lambda: None", "self.run = nothing"):
        code = f"def nothing(): pass\nclass A:\n    def __init__(self):\n        {line}\n"
        assert placeholders(ast.parse(code)) == [4]


MAY_READ_TEXTS = ("message/", "overview/", "demo/story.py")
"""Where texts are made out of texts; and the demo, which waits for alerts as the person with the phone does."""


def test_no_code_looks_into_a_text_that_other_code_wrote_for_people() -> None:
    """Reword any sentence and nothing else changes: what others must know travels in a typed field beside it."""
    trees = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in SOURCES}
    errors = error_classes(trees.values())
    assert {"HostError", "ConfigError"} <= errors
    looks = [
        f"{name}:{line}: {code}"
        for name, tree in trees.items()
        if not name.startswith(MAY_READ_TEXTS)
        for line, code in looks_into_own_text(tree, errors)
    ]
    assert looks == []


@pytest.mark.parametrize(
    "code",
    [
        'said = newest.summary.removeprefix(f"{host.name}: ").removeprefix("no vitals: ")',
        'said = strip(newest.summary)\n    gone = newest.reason == "timeout" and "logged in" not in said',
        'how = one.summary.removeprefix(f"{host.name} restarted ")',
        'return Evidence(vitals.at, host.name, vitals.summary.removeprefix(f"{host.name}: "))',
        'if "refused our request" not in error.summary:\n        raise',
        "summary = clean_line(incident.summary)\n    named = summary.lower().startswith(subject.lower())",
        "return f\"comes and goes, {short or summary.removeprefix(f'{subject}: ')}\"",
        "return clean_line(incident.diagnosis.short).removeprefix(f'{subject}: ')",
        "return f\"{'at least ' if 'at least' in summary else ''}{incident.count} times\"",
        "return _LINE_COUNT.sub('', summary)",
        "return re.sub(LINES, '', incident.summary)",
        'advice = shortened(clean_line(incident.advice), 400)\n    return advice.startswith(("Look ", "See "))',
        "return view.last.summary.removeprefix(f\"{view.key.partition('/')[2]}: \")",
        'return vitals.last.summary.removeprefix(f"{name}: ") if vitals is not None else ""',
        'return replace(lead, summary=lead.summary.replace(f"{lead.count} lines", f"{count} lines"))',
        'return row["summary"].partition(":")[2]',
        'return outcome.summary(60).endswith("hung")',
        'return diagnosis.sentence == "nothing more is known"',
        'try:\n        load()\n    except ConfigError as error:\n        return "file" in str(error)',
        'try:\n        load()\n    except (OSError, HostError) as error:\n        return f"{error}".split()',
        "try:\n        load()\n    except StoreError as error:\n        return error.args[0].find('locked')",
    ],
)
def test_a_look_into_our_own_text_is_found(code: str) -> None:
    tree = ast.parse(f"def look(subject):\n    {code}\n")
    assert looks_into_own_text(tree, frozenset({"HostError", "ConfigError", "StoreError"}))


@pytest.mark.parametrize(
    "code",
    [
        'try:\n        connect()\n    except asyncssh.Error as error:\n        return "refused" in str(error).lower()',
        'return "Permission denied" in answer.stderr',
        'return line.message.startswith("BERT:")',
        "text = await reply.text()\n    return text.split()",
        'return [f"{one.key}: {one.summary}" for one in incidents if len(one.summary) < 80]',
        'return replace(incident, summary=f"blind to {incident.key}: {incident.summary}")',
        "return text.title().startswith('A')",
    ],
)
def test_foreign_text_may_be_read_and_our_own_be_put_together(code: str) -> None:
    tree = ast.parse(f"async def look(subject):\n    {code}\n")
    assert looks_into_own_text(tree, frozenset({"HostError"})) == []


def test_every_attack_in_the_docs_names_tests_that_exist() -> None:
    text = (ROOT / "docs/security.md").read_text()
    table = text[text.index("## Attacks") : text.index("## The read-only proof")]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 40
    written = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named or re.search(r"`(tests|packaging)/[\w/.]+`", row), row
        assert set(named) <= written, row
