"""Commands whose standard streams are full, closed, or read by nobody: the result stands, in plain words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sshd import free_port

FATAL = b"pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0\n"
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def shell(line: str, *, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `line` in a shell where $W is the program."""
    environment = {**os.environ, "W": f"{sys.executable} -m watchdog"}
    return subprocess.run(
        ["/bin/sh", "-c", line], input=given, capture_output=True, timeout=60, check=False, env=environment
    )


@needs_full
def test_a_verdict_keeps_its_exit_code_when_its_words_cannot_be_written(tmp_path: Path) -> None:
    log = tmp_path / "aer.log"
    log.write_bytes(FATAL)
    for command in (f"probe http://127.0.0.1:{free_port()}/v1 --timeout 1", f"scan {log}", f"scan --json {log}"):
        done = shell(f"$W {command} >/dev/full")
        assert done.returncode == 2, command
        assert done.stderr == b"The output could not be written: No space left on device.\n"


@needs_full
def test_a_full_standard_error_takes_nothing_from_the_result(tmp_path: Path) -> None:
    done = shell("$W scan - 2>/dev/full", given=FATAL)
    assert (done.returncode, done.stdout.count(b"pcie.aer.fatal")) == (2, 2)
    assert shell("$W scan - 2>/dev/full", given=b"").returncode == 3


@needs_full
def test_output_that_was_all_that_was_wanted_ends_with_74() -> None:
    done = shell("$W --help >/dev/full")
    assert (done.returncode, done.stderr.count(b"\n")) == (74, 1)


def test_a_closed_standard_output_is_said_in_one_line() -> None:
    done = shell("$W scan - >&-", given=FATAL)
    assert (done.returncode, done.stderr) == (2, b"The output could not be written: it is closed.\n")


def test_a_closed_standard_input_is_an_empty_one() -> None:
    done = shell("$W scan - <&-")
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    done = shell("$W replay - <&-")
    assert (done.returncode, done.stderr.count(b"\n")) == (64, 1)


def test_a_scan_that_nobody_reads_any_more_ends_quietly_with_141() -> None:
    done = shell("{ $W scan -; echo $? >&2; } | head -1", given=FATAL * 20_000)
    assert (done.stdout.count(b"\n"), done.stderr) == (1, b"141\n")


def test_a_probe_that_nobody_reads_keeps_its_verdict() -> None:
    done = shell(f"{{ sleep 1; $W probe http://127.0.0.1:{free_port()}/v1 --timeout 1; echo $? >&2; }} | true")
    assert done.stderr == b"2\n"
