"""The unit files and the plist: strict for systemd and launchd, made for any installation, and nothing secret."""

from __future__ import annotations

import copy
import os
import plistlib
import pwd
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.journal_files import require
from watchdog.cli.options import read_environment_file, service_environment
from watchdog.cli.service import (
    MARK,
    NAMESPACED,
    ServiceKind,
    UnfitError,
    check_reachable,
    launchd_file,
    systemd_files,
    unit_word,
    without_namespace,
)

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs/benchmarks.md"
UNITS = ROOT / "units"
PLIST = UNITS / "org.inference-watchdog.daemon.plist"
CHECKER = runpy.run_path(str(ROOT / "packaging/macos/check_plist.py"))


def faults(data: bytes, name: str = PLIST.name) -> list[str]:
    found: list[str] = CHECKER["faults"](data, name)
    return found


def stand_in(folder: Path) -> Path:
    program = folder / "inference-watchdog"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.mark.real
@pytest.mark.parametrize("kind", [ServiceKind.SYSTEM, ServiceKind.USER])
@pytest.mark.parametrize("place", ["plain", "with space", "100% $sure"])
def test_units_for_any_installation_are_clean(tmp_path: Path, kind: ServiceKind, place: str) -> None:
    require("systemd-analyze", packages="systemd")
    folder = tmp_path / place
    folder.mkdir()
    files = systemd_files(kind, stand_in(folder), folder / "config.yaml", tmp_path / "units")
    (tmp_path / "units").mkdir()
    for file in files:
        file.path.write_text(file.text)
        assert MARK in file.text
    words = ["systemd-analyze", "verify", "--recursive-errors=yes", "--man=no"]
    words += ["--user"] if kind is ServiceKind.USER else []
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    words += [str(file.path) for file in files]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.real
@pytest.mark.parametrize("name", ["inference-watchdog.service", "inference-watchdog-failed@.service"])
def test_the_exposure_is_at_most_1_3(name: str) -> None:
    require("systemd-analyze", packages="systemd")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=13", "--no-pager", str(UNITS / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.real
@pytest.mark.parametrize("name", ["inference-watchdog.service", "inference-watchdog-failed@.service"])
def test_the_exposure_of_a_users_own_unit_is_at_most_3(name: str) -> None:
    require("systemd-analyze", packages="systemd")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", str(UNITS / "user" / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_a_unit_for_a_machine_without_user_namespaces_lacks_only_what_needs_one(tmp_path: Path) -> None:
    for file in systemd_files(ServiceKind.USER, Path("/opt/w/bin/inference-watchdog"), None, tmp_path):
        gone = set(file.text.splitlines()) - set(without_namespace(file).text.splitlines())
        assert gone == set(NAMESPACED)


@pytest.mark.parametrize("name", ["inference-watchdog.service", "user/inference-watchdog.service"])
def test_the_memory_is_limited_to_a_multiple_of_what_was_measured(name: str) -> None:
    measured = [int(figure) for figure in re.findall(r"resident memory, MiB \| (\d+)", FIGURES.read_text())]
    limits = dict(re.findall(r"^(Memory(?:High|Max))=(\d+)M$", (UNITS / name).read_text(), re.MULTILINE))
    assert len(measured) >= 2
    assert 3 * max(measured) <= int(limits["MemoryHigh"]) < int(limits["MemoryMax"]) <= 6 * max(measured)


def test_both_system_units_have_the_same_sandbox_and_the_same_secrets() -> None:
    """Else the page about a failure fails where the daemon would not, or may do more than it."""
    daemon, failed = (
        dict(line.split("=", 1) for line in (UNITS / name).read_text().splitlines() if re.match(r"\w+=", line))
        for name in ("inference-watchdog.service", "inference-watchdog-failed@.service")
    )
    own = {"Description", "Type", "ExecStart", "TimeoutStartSec", "Environment"}
    assert {name: daemon.get(name) for name in failed if name not in own} == {
        name: value for name, value in failed.items() if name not in own
    }


def test_a_unit_word_keeps_what_systemd_would_fill_in() -> None:
    assert unit_word("/opt/a/b-c_1.2") == "/opt/a/b-c_1.2"
    assert unit_word("/opt/100% $x") == '"/opt/100%% $$x"'


def test_a_path_that_systemd_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnfitError, match="no quote"):
        systemd_files(ServiceKind.SYSTEM, Path('/opt/quo"te/inference-watchdog'), None, tmp_path)


def test_no_unit_runs_the_interpreter_instead_of_the_command() -> None:
    for path in (*UNITS.rglob("*.service"), PLIST):
        assert "python -m" not in path.read_text()


def test_an_installation_in_a_home_directory_is_no_system_service(tmp_path: Path) -> None:
    with pytest.raises(UnfitError, match="service install --user"):
        check_reachable(Path("/home/somebody/bin/inference-watchdog"))


def test_the_plist_in_the_tree_is_strictly_good() -> None:
    assert faults(PLIST.read_bytes()) == []


def test_the_plist_for_an_installation_is_strictly_good(tmp_path: Path) -> None:
    account = pwd.getpwuid(os.geteuid()).pw_name
    file = launchd_file(tmp_path / "a & b <c>" / "inference-watchdog", tmp_path / "config.yaml", account, tmp_path)
    assert faults(file.text.encode(), file.path.name) == []
    plist = plistlib.loads(file.text.encode())
    assert plist["UserName"] == account
    assert plist["ProgramArguments"][0] == str(tmp_path / "a & b <c>" / "inference-watchdog")
    assert MARK in file.text


BREAKS: dict[str, dict[str, Any]] = {
    "a misspelt key": {"KeepAlve": True},
    "a text for a truth": {"KeepAlive": "true"},
    "a truth for a number": {"ThrottleInterval": True},
    "a text for a number": {"ThrottleInterval": "15"},
    "a condition that is gone": {"KeepAlive": {"NetworkState": True}},
    "never started again": {"KeepAlive": False},
    "a relative program": {"ProgramArguments": ["inference-watchdog", "run"]},
    "one text for the arguments": {"ProgramArguments": "/usr/local/bin/inference-watchdog run"},
    "no arguments": {"ProgramArguments": []},
    "a number among the arguments": {"ProgramArguments": ["/bin/x", 1]},
    "a home that is not filled in": {"ProgramArguments": ["/bin/x", "run", "--config", "~/config.yaml"]},
    "a relative configuration": {"ProgramArguments": ["/bin/x", "run", "--config", "config.yaml"]},
    "a receiver in the open": {"ProgramArguments": ["/bin/x", "ntfys://ntfy.sh/secret-topic"]},
    "a secret in the open": {"EnvironmentVariables": {"PHONE_TOKEN": "x"}},
    "a number as variable": {"EnvironmentVariables": {"LEVEL": 1}},
    "a relative log": {"StandardErrorPath": "stderr.log"},
    "a variable in a path": {"StandardErrorPath": "/Users/$USER/stderr.log"},
    "another label": {"Label": "org.inference-watchdog.other"},
    "a label without dots": {"Label": "watchdog"},
    "an unknown process type": {"ProcessType": "Normal"},
    "an account that is none": {"UserName": "some body"},
    "a mask out of range": {"Umask": 4095},
    "beside a timer": {"StartInterval": 60},
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS.keys())
def test_a_broken_plist_is_found(change: dict[str, Any]) -> None:
    plist = plistlib.loads(PLIST.read_bytes())
    assert faults(plistlib.dumps({**plist, **change})) != []


@pytest.mark.parametrize("key", ["Label", "ProgramArguments", "RunAtLoad", "KeepAlive"])
def test_a_plist_without_what_it_needs_is_found(key: str) -> None:
    plist = plistlib.loads(PLIST.read_bytes())
    del plist[key]
    assert faults(plistlib.dumps(plist)) != []


def test_a_key_given_twice_is_found() -> None:
    text = PLIST.read_text().replace("<key>RunAtLoad</key>", "<key>KeepAlive</key><false/><key>RunAtLoad</key>")
    assert faults(text.encode()) == ["KeepAlive is given twice"]


@given(cut=st.integers(0, len(PLIST.read_bytes().rstrip()) - 1))
def test_a_plist_that_ends_too_early_is_found(cut: int) -> None:
    """`plutil` of libplist says nothing about it."""
    assert faults(PLIST.read_bytes()[:cut]) != []


VALUES = st.one_of(
    st.none(), st.floats(allow_nan=False), st.binary(max_size=4), st.integers(-9, -2), st.just([]), st.just({})
)


@given(key=st.sampled_from(sorted(plistlib.loads(PLIST.read_bytes()))), value=VALUES)
def test_no_key_takes_a_value_of_a_wrong_kind(key: str, value: object) -> None:
    plist = copy.deepcopy(plistlib.loads(PLIST.read_bytes()))
    plist[key] = value
    try:
        data = plistlib.dumps(plist)
    except TypeError:  # no value of a property list at all
        return
    assert faults(data) != []


@given(key=st.sampled_from(sorted(CHECKER["KEYS"])), letter=st.integers(0, 30), sign=st.sampled_from("xZ_"))
def test_no_misspelt_key_passes(key: str, letter: int, sign: str) -> None:
    at = letter % (len(key) + 1)
    wrong = key[:at] + sign + key[at:]
    plist = plistlib.loads(PLIST.read_bytes())
    value = plist.pop(key, True)
    assert any(wrong in fault for fault in faults(plistlib.dumps({**plist, wrong: value})))


def test_the_environment_of_the_service_is_read_as_systemd_reads_it(tmp_path: Path) -> None:
    (tmp_path / "environment").write_text("# no\n; no\nA=1\nB='two words'\nC=\"x\"\n\nbad line\nD='open\nE=a b\n")
    assert read_environment_file(tmp_path / "environment") == {"A": "1", "B": "two words", "C": "x", "E": "a b"}
    assert read_environment_file(tmp_path / "missing") == {}
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials/phone_url").write_text("json://x\n")
    with service_environment(tmp_path, {"HOME": "/"}) as environ:
        assert environ["HOME"] == "/"
        assert environ["A"] == "1"
        assert (Path(environ["CREDENTIALS_DIRECTORY"]) / "secret_phone_url").read_text() == "json://x\n"
