"""The .deb and .rpm of this checkout, built once a session."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.journal_files import require

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
    """The same package under another version, for upgrades: an ar archive whose second member holds the version."""
    target = directory / f"inference-watchdog_{version}.deb"
    data = deb.read_bytes()
    parts, at = [data[:8]], 8
    while at < len(data):
        head, length = data[at : at + 60], int(data[at + 48 : at + 58])
        member = data[at + 60 : at + 60 + length]
        at += 60 + length + length % 2
        if head.startswith(b"control.tar.gz"):
            member = _with_version(member, version)
            head = head[:48] + b"%-10d" % len(member) + head[58:]
        parts += [head, member, b"\n" * (len(member) % 2)]
    target.write_bytes(b"".join(parts))
    return target


def _with_version(control: bytes, version: str) -> bytes:
    """The archive of control files with another `Version:`."""
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(control)) as old, tarfile.open(fileobj=made, mode="w:gz") as new:
        for member in old:
            file = old.extractfile(member)
            content = file.read() if file else b""
            if Path(member.name).name == "control":
                content = re.sub(rb"(?m)^Version: .*$", b"Version: " + version.encode(), content)
                member.size = len(content)
            new.addfile(member, io.BytesIO(content) if file else None)
    return made.getvalue()
