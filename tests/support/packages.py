"""The .deb and .rpm of this checkout, built once a session."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.journals import require

ROOT = Path(__file__).parents[2]
EPOCH = "1790000000"
SYSTEM_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True, slots=True)
class Packages:
    """The two files."""

    deb: Path
    rpm: Path


def require_packaging() -> None:
    """Skip or fail unless packages can be built here."""
    require("dpkg-deb", "unshare", SYSTEM_PYTHON, packages="dpkg python3-venv")


def snapshot(directory: Path) -> Path:
    """A copy of what belongs to the checkout, without tests: somebody may be editing it while packages are built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
    return directory


def build(source: Path, output: Path, **environment: str) -> Packages:
    """Run `packaging/build` of `source`."""
    done = subprocess.run(
        [str(source / "packaging/build"), str(output)],
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHON": SYSTEM_PYTHON, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (deb,), (rpm,) = output.glob("*.deb"), output.glob("*.rpm")
    return Packages(deb, rpm)


def as_version(deb: Path, version: str, directory: Path) -> Path:
    """The same package under another version, for upgrades."""
    content, target = directory / "content", directory / f"inference-watchdog_{version}.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(content)], check=True)
    control = content / "DEBIAN/control"
    lines = [
        f"Version: {version}" if line.startswith("Version:") else line for line in control.read_text().splitlines()
    ]
    control.write_text("\n".join(lines) + "\n")
    subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "--build", str(content), str(target)], check=True, capture_output=True)
    shutil.rmtree(content)
    return target
