"""What is in the .deb and the .rpm, and that two builds are the same."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.journal_files import require
from tests.support.packages import Packages, build

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real,
    pytest.mark.xdist_group("packages"),
    pytest.mark.timeout(300),
    pytest.mark.alone,
]

ROOT = Path(__file__).parents[2]
FILES = (
    "/etc/inference-watchdog/config.yaml",
    "/opt/inference-watchdog/bin/inference-watchdog",
    "/usr/bin/inference-watchdog",
    "/usr/lib/systemd/system/inference-watchdog.service",
    "/usr/lib/systemd/system/inference-watchdog-failed@.service",
    "/usr/lib/systemd/user/inference-watchdog.service",
    "/usr/share/bash-completion/completions/inference-watchdog",
    "/usr/share/fish/vendor_completions.d/inference-watchdog.fish",
    "/usr/share/inference-watchdog/host/reader.sh",
    "/usr/share/man/man1/inference-watchdog.1.gz",
)
SCRIPTS = sorted((ROOT / "packaging").glob("linux/*/p*"))
INSIDE = ("rules/15-pcie.yaml", "host/reader.sh", "units/inference-watchdog.service")
"""What the program needs besides its modules."""


def said(*words: object) -> str:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def python_minor(text: str) -> int:
    found = re.search(r"/opt/inference-watchdog/lib/python3\.(\d+)/site-packages/watchdog/__init__\.py", text)
    assert found
    return int(found[1])


def test_the_rpm_holds_what_it_should_with_the_right_modes(packages: Packages) -> None:
    require("rpm", packages="rpm")
    listed = said(
        "rpm", "-qp", "--nosignature", "--qf", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]", packages.rpm
    )
    rows = {line.split(maxsplit=2)[2]: line.split(maxsplit=2)[:2] for line in listed.splitlines()}
    assert set(FILES) <= set(rows)
    minor = python_minor(listed)
    assert {f"/opt/inference-watchdog/lib/python3.{minor}/site-packages/watchdog/{name}" for name in INSIDE} <= set(
        rows
    )
    assert {user for _, user in rows.values()} == {"root"}
    assert rows["/etc/inference-watchdog/credentials"] == ["drwx------", "root"]
    assert rows["/etc/inference-watchdog/environment"] == ["-rw-------", "root"]
    writable = [name for name, (mode, _) in rows.items() if mode[0] != "l" and "w" in mode[4:]]
    assert writable == [], "root alone may change them"
    assert "/usr/share/zsh/site-functions/_inference-watchdog" in rows


def test_the_rpm_needs_the_python_it_was_built_with_and_keeps_what_was_changed(packages: Packages) -> None:
    require("rpm", packages="rpm")
    minor = python_minor(said("rpm", "-qpl", "--nosignature", packages.rpm))
    needs = said("rpm", "-qp", "--requires", "--nosignature", packages.rpm).splitlines()
    assert f"python(abi) = 3.{minor}" in needs
    assert any(line.startswith("glibc >= 2.") for line in needs)
    kept = set(said("rpm", "-qpc", "--nosignature", packages.rpm).split())
    assert {f"/etc/inference-watchdog/{name}" for name in ("config.yaml", "environment", "known_hosts")} == kept
    scripts = said("rpm", "-qp", "--scripts", "--nosignature", packages.rpm)
    assert "was NOT restarted" in scripts
    assert "disable --now" in scripts


def test_the_deb_needs_the_python_it_was_built_with_and_keeps_what_was_changed(packages: Packages) -> None:
    listed = said("dpkg-deb", "--contents", packages.deb)
    minor = python_minor(listed)
    needs = said("dpkg-deb", "--field", packages.deb, "Depends")
    assert f"python3 (>= 3.{minor}), python3 (<< 3.{minor + 1})" in needs
    assert re.search(r"libc6 \(>= 2\.\d+\)", needs)
    kept = said("dpkg-deb", "--info", packages.deb, "conffiles").split()
    assert sorted(kept) == [f"/etc/inference-watchdog/{name}" for name in ("config.yaml", "environment", "known_hosts")]
    owners = {line.split()[1] for line in listed.splitlines()}
    assert owners == {"root/root"}
    for name in FILES:
        assert re.search(rf" \.{re.escape(name)}( -> |$)", listed, re.MULTILINE), name


def test_no_package_names_the_place_where_it_was_built(packages: Packages, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", str(packages.deb), str(tmp_path)], check=True)
    strange = []
    for path in tmp_path.rglob("*"):
        if path.is_symlink():
            target = str(path.readlink())
            if target.startswith("/") and not target.startswith(("/usr/bin/python3.", "/opt/inference-watchdog/")):
                strange.append(path)
        elif path.is_file() and re.search(rb"/tmp/|/mnt/|%b" % re.escape(str(ROOT).encode()), path.read_bytes()):
            strange.append(path)
    own = [path for path in strange if "watchdog" in path.name or "direct_url" in path.name or path.is_symlink()]
    assert own == []
    shebang = (tmp_path / "opt/inference-watchdog/bin/inference-watchdog").read_text().splitlines()[0]
    assert shebang == "#!/opt/inference-watchdog/bin/python"


def test_everything_is_compiled_so_that_the_service_need_not(packages: Packages, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", str(packages.deb), str(tmp_path)], check=True)
    (site,) = tmp_path.glob("opt/inference-watchdog/lib/python3*/site-packages")
    for source in (site / "watchdog").rglob("*.py"):
        (compiled,) = (source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc")
        assert compiled.read_bytes()[4] == 0b01, "by hash, and never looked at again"


@pytest.mark.parametrize("script", SCRIPTS, ids=[f"{path.parent.name}-{path.name}" for path in SCRIPTS])
def test_the_package_scripts_are_plain_sh(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--shell=sh", str(script)], check=True)


def test_two_builds_are_identical_byte_by_byte(packages: Packages, checkout_copy: Path, tmp_path: Path) -> None:
    """In another directory, with other hash seeds and another umask."""
    (tmp_path / "work").mkdir()
    again = build(checkout_copy, tmp_path / "out", TMPDIR=str(tmp_path / "work"), PYTHONHASHSEED="7", TZ="Asia/Tokyo")
    for first, second in ((packages.deb, again.deb), (packages.rpm, again.rpm)):
        assert hashlib.sha256(first.read_bytes()).hexdigest() == hashlib.sha256(second.read_bytes()).hexdigest()
