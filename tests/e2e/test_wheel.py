"""The wheel, in a clean environment outside the checkout: with the oldest Python here, in CI with each of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.packages import snapshot

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel"), pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
NEWER = [f"python3.{minor}" for minor in range(11, 20)]


def usable(name: str) -> str | None:
    """The path of that interpreter, if it is one that works and can make environments."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    for path in [folder / name for folder in (*folders, *Path.home().glob(".pyenv/versions/*/bin"))]:
        if path.is_file() and "shims" not in path.parts:
            look = [str(path), "-c", "import ensurepip, sys; print(sys.version_info[1])"]
            done = subprocess.run(look, capture_output=True, text=True, check=False)
            if done.returncode == 0 and name.endswith(f".{done.stdout.strip()}"):
                return str(path)
    return None


EVERY = {name: path for name in NEWER if (path := usable(name))} or {"python3": sys.executable}
PYTHONS = EVERY if os.environ.get("EVERY_PYTHON") else dict([next(iter(EVERY.items()))])
"""The oldest; all of them, which takes a minute each, with EVERY_PYTHON=1 (CI)."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, target = snapshot(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("wheel")
    # First the source distribution, then the wheel from it: what is forgotten there is missing here.
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    subprocess.run([*build, "--target", "sdist"], check=True, cwd=source, capture_output=True)
    (sdist,) = target.glob("*.tar.gz")
    shutil.unpack_archive(sdist, target / "unpacked")
    (unpacked,) = (target / "unpacked").iterdir()
    subprocess.run([*build, "--target", "wheel"], check=True, cwd=unpacked, capture_output=True)
    (made,) = target.glob("*.whl")
    return made


def test_every_table_and_script_beside_the_code_is_in_the_wheel(wheel: Path) -> None:
    """From the wheel the packages for Debian and Fedora are built."""
    listed = subprocess.run(["git", "ls-files", "watchdog"], check=True, cwd=ROOT, capture_output=True, text=True)
    held = set(zipfile.ZipFile(wheel).namelist())
    assert "watchdog/notify/services.yaml" in held
    assert [name for name in listed.stdout.split() if name not in held] == []


@pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())
def test_the_wheel_runs_the_demo_outside_the_checkout(wheel: Path, python: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    pip = [str(tmp_path / "env/bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    requirements = str(ROOT / "requirements/run.txt")
    subprocess.run([*pip, "--require-hashes", "-r", requirements], check=True, capture_output=True, env=environment)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, capture_output=True, env=environment)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "env/bin/inference-watchdog"), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
            timeout=150,
        )

    told = run("demo")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "RESOLVED deepseek" in told.stdout
    shown = run("service", "install", "--system", "--print")
    assert shown.returncode == 0, shown.stderr
    assert f"ExecStart={tmp_path}/env/bin/inference-watchdog run" in shown.stdout
    where = subprocess.run(
        [str(tmp_path / "env/bin/python"), "-c", "import watchdog; print(watchdog.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert where.stdout.startswith(str(tmp_path / "env"))
