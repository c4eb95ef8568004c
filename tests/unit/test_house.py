"""What holds for the house as a whole: names, import cost, nothing of this or any one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

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
    heavy = ("apprise", "asyncssh", "aiohttp", "hyperscan", "rich.console", "structlog", "sqlite3", "yaml")
    code = f"import sys, watchdog.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["watchdog.daemon", "watchdog.ssh", "watchdog.checks.kernel_log"])
def test_the_daemon_imports_no_apprise_no_rich_table_and_no_ssh_server(module: str) -> None:
    heavy = ("apprise", "asyncssh.sftp_server", "aiohttp.web", "rich.table", "watchdog.demo.rig")
    start = f"import sys; from watchdog.cli.run import without_rich; without_rich(); import {module}"
    code = f"{start}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_its_purpose_and_stays_readable(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "a module starts with what it is for"
    assert text.count("\n") <= 450, "split it by purpose"


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
