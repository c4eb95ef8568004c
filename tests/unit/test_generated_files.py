"""The man page and the completions in the tree are what the commands say today, and what their readers accept."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from watchdog.cli import COMMANDS

PACKAGING = Path(__file__).parents[2] / "packaging"
GENERATED: dict[str, str] = runpy.run_path(str(PACKAGING / "generate.py"))["generated"]()
MAN_PAGE = PACKAGING / "man/inference-watchdog.1"


def need(program: str) -> None:
    """Skip, or fail where CI promises it, without `program`."""
    if shutil.which(program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{program} is not installed")


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_the_generated_files_are_up_to_date(name: str) -> None:
    """If not: run `python packaging/generate.py` and commit what it writes."""
    assert GENERATED[name] == (PACKAGING / name).read_text(encoding="utf-8")


def test_the_man_page_has_every_command() -> None:
    text = GENERATED["man/inference-watchdog.1"]
    for name in COMMANDS:
        assert f".SS {name.replace('-', chr(92) + '-')} " in text


@pytest.mark.real
def test_troff_reads_the_man_page_without_a_warning() -> None:
    need("groff")
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", str(MAN_PAGE)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "inference-watchdog" in done.stdout


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", ("-n",)), ("zsh", ("-n",)), ("fish", ("--no-execute",))],
)
def test_the_shell_reads_its_completions(shell: str, words: tuple[str, ...]) -> None:
    need(shell)
    name = "_inference-watchdog" if shell == "zsh" else f"inference-watchdog.{shell}"
    script = str(PACKAGING / "completions" / name)
    done = subprocess.run([shell, *words, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "inference-watchdog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m watchdog "$@"\n')
    program.chmod(0o755)
    script = PACKAGING / "completions/inference-watchdog.bash"
    ask = (
        f'. {script}; COMP_WORDS=(inference-watchdog "$@"); COMP_CWORD=$#; compopt() {{ :; }}; '
        '_inference_watchdog_completion inference-watchdog; echo "${COMPREPLY[@]}"'
    )

    def complete(*words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", ask, "bash", *words],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGING.parent)},
        )
        return done.stdout.split()

    assert complete("val") == ["validate"]
    assert complete("service", "in") == ["install"]
    assert "--log-file" in complete("run", "--lo")
