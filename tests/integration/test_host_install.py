"""Installing the reader as a forced command, on a throw-away copy of this machine's accounts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.journal_files import require

INSTALL = Path(__file__).parents[2] / "packaging" / "host" / "install.sh"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBz0000000000000000000000000000000000000000 inference-watchdog"
LINE = f'restrict,command="/usr/local/libexec/inference-watchdog-reader" {KEY}'
_NAMESPACE = """
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
mount -t tmpfs tmpfs /home
mount -t tmpfs tmpfs /usr/local
install() { sh "$script" "$@"; }
script=$1
"""


def inside(commands: str) -> subprocess.CompletedProcess[str]:
    """Run `commands` where the accounts may be changed; `install` is the install script."""
    require("unshare", "useradd", packages="util-linux passwd")
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", _NAMESPACE + commands, "sh", str(INSTALL)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.real
def test_installing_twice_gives_one_account_one_script_and_one_line() -> None:
    done = inside(f"""
        install '{KEY}'; install '{KEY}'
        cat /home/monitor/.ssh/authorized_keys
        stat -c '%U %a' /usr/local/libexec/inference-watchdog-reader /home/monitor/.ssh/authorized_keys
        id -Gn monitor; getent passwd monitor
        SSH_ORIGINAL_COMMAND='read1 nccl' /usr/local/libexec/inference-watchdog-reader
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(LINE) == 1
    assert "root 755" in done.stdout
    assert "monitor 600" in done.stdout
    assert "systemd-journal" in done.stdout
    assert "/bin/sh" in done.stdout
    assert "nccl_rc=n" in done.stdout, "nobody listens, or there is nothing to ask with"


@pytest.mark.real
def test_removing_takes_away_the_script_and_its_line_only() -> None:
    done = inside(f"""
        install '{KEY}'
        echo 'ssh-rsa AAAA other' >>/home/monitor/.ssh/authorized_keys
        install --remove
        cat /home/monitor/.ssh/authorized_keys; ls /usr/local/libexec
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ssh-rsa AAAA other"


@pytest.mark.real
@pytest.mark.parametrize("argument", ["''", "'rm -rf /'", "'ssh-ed25519 AAAA\nssh-rsa BBBB'", "-x"])
def test_what_is_no_public_key_is_refused(argument: str) -> None:
    done = inside(f"install {argument}")
    assert done.returncode != 0
    assert "install.sh:" in done.stderr


def test_the_documented_line_is_the_installed_one() -> None:
    text = INSTALL.with_name("README.md").read_text()
    assert 'restrict,command="/usr/local/libexec/inference-watchdog-reader" ssh-ed25519' in text
