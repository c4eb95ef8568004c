"""What costs memory is imported by those who connect, and by nobody else."""

from __future__ import annotations

import subprocess
import sys


def test_importing_checks_and_ssh_does_not_import_asyncssh() -> None:
    code = (
        "import sys, watchdog.cli, watchdog.ssh, watchdog.checks.kernel_log;"
        "print([name for name in sys.modules if name.split('.')[0] in ('asyncssh', 'apprise', 'cryptography')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
