"""The script that installs from a checkout: it refuses, in one line, where the libraries do not run; and the floors."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def installed_with(python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with a Python that answers as `python` (a line of shell) does."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{python}\n")
    program.chmod(0o755)
    return subprocess.run(
        ["sh", str(ROOT / "packaging/install.sh"), str(folder / "place")],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("machine", ["armv7l False", "armv6l False", "aarch64 False"])
def test_a_32_bit_arm_system_is_refused_with_one_line(tmp_path: Path, machine: str) -> None:
    done = installed_with(f'case "$2" in *machine*) echo {machine} ;; esac', tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "install.sh: 32-bit ARM is not supported, its libraries are not built for it; use a 64-bit system"
    ]


def test_an_old_python_is_refused_with_one_line(tmp_path: Path) -> None:
    done = installed_with("exit 1", tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "needs Python 3.11 or newer" in done.stderr


def test_no_version_with_a_known_weakness_is_accepted() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    floors = {"aiohttp": "3.13.4", "asyncssh[bcrypt]": "2.23.1", "cryptography": "46.0.5", "urllib3": "2.6.3"}
    assert {f"{name}>={floor}" for name, floor in floors.items()} <= set(wanted)


def test_intel_macs_are_given_the_last_cryptography_that_has_a_wheel_for_them() -> None:
    pins = re.findall(r"^cryptography==(\d+)\S* ; (.*) \\$", (ROOT / "requirements/run.txt").read_text(), re.MULTILINE)
    assert [
        int(major) for major, where in pins if where == "platform_machine == 'x86_64' and sys_platform == 'darwin'"
    ] == [48]


@pytest.mark.parametrize("name", ["run", "dev", "lab", "packaging"])
def test_the_lock_files_have_hashes_and_name_no_index(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text
    assert not re.search(r"^--(index|extra|find)", text, re.MULTILINE)
