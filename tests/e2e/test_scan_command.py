"""The `scan` command as a process: what it prints, its JSON, its exit codes, and its memory on a large log."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernel_corpus import copied_excerpts, copied_lines

FATAL = "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0"
WARN = "nfs: server 192.0.2.16 not responding, timed out"
BENIGN = "nfs: server 192.0.2.16 OK"
FIELDS = ["line_number", "severity", "kind", "rule", "device", "message", "summary"]


def scan(*arguments: str | Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "watchdog", "scan", *map(str, arguments)]
    return subprocess.run(
        command, input=given if given is not None else b"", capture_output=True, timeout=60, check=False
    )


def findings(result: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("lines", "code"),
    [([BENIGN], 0), ([BENIGN, WARN], 1), ([WARN, FATAL, BENIGN], 2)],
)
def test_the_exit_code_is_the_gravest_finding(lines: list[str], code: int) -> None:
    result = scan("-", given="\n".join(lines).encode())
    assert result.returncode == code
    assert result.stderr == b""


def test_json_gives_one_object_with_exactly_the_agreed_fields_per_finding() -> None:
    result = scan("--json", "-", given=f"[ 1.1] {BENIGN}\r\n[ 2.2] {FATAL}\r\n".encode())
    (found,) = findings(result)
    assert list(found) == FIELDS
    assert found["line_number"] == 2
    assert found["severity"] == "page"
    assert found["kind"] == "pcie.aer.fatal"
    assert found["device"] == "0000:01:00.0"
    assert found["message"] == FATAL


def test_all_gives_one_object_per_line() -> None:
    userspace = "Dec  6 19:25:33 host01 sudo[1]: " + FATAL
    result = scan("--json", "--all", "-", given=f"{BENIGN}\n{WARN}\n\n{userspace}\n{FATAL}".encode())
    found = findings(result)
    assert [one["line_number"] for one in found] == [1, 2, 3, 4, 5]
    assert [one["severity"] for one in found] == ["ignore", "warn", "ignore", "ignore", "page"]
    assert all(list(one) == FIELDS for one in found)
    assert found[0]["kind"] == "none"
    assert found[0]["rule"] is None


def test_a_whole_file_of_corpus_lines_is_labelled_line_by_line(tmp_path: Path) -> None:
    lines = [line for line in copied_lines() if line.role not in ("detail", "injected")]
    path = tmp_path / "kern.log"
    path.write_text("".join(line.raw + "\n" for line in lines), "utf-8")
    found = {one["line_number"]: one for one in findings(scan("--json", path))}
    for number, line in enumerate(lines, start=1):
        assert found.get(number, {}).get("severity", "ignore") in (*line.accepted, "page" if line.core else "ignore")
        assert not line.core or found[number]["severity"] == "page"


def test_excerpts_give_the_exit_code_of_their_worst_line(tmp_path: Path) -> None:
    for excerpt in copied_excerpts():
        path = tmp_path / f"{excerpt.name}.txt"
        path.write_bytes(excerpt.data)
        assert scan(path).returncode == {"ignore": 0, "warn": 1, "page": 2}[excerpt.worst], excerpt.name


def test_the_text_form_says_what_was_read_found_and_what_to_do() -> None:
    result = scan("-", given=f"{FATAL}\n{WARN}\n".encode())
    text = result.stdout.decode()
    assert "2 lines read: 1 page, 1 warn." in text
    assert "PAGE pcie.aer.fatal (0000:01:00.0): Fatal PCIe error; line 1." in text
    assert "power-cycle" in text
    assert "2 lines read, nothing found." in scan("-", given=b"[1.1] a\n[1.2] b\n").stdout.decode()


def test_standard_input_is_read_when_no_file_is_named() -> None:
    assert scan(given=FATAL.encode()).returncode == 2


@pytest.mark.parametrize("data", [b"", b"\n\n\n", b"   \n"])
def test_an_empty_input_is_no_clean_log(data: bytes) -> None:
    result = scan("-", given=data)
    assert result.returncode == 3
    assert b"is empty" in result.stderr
    assert result.stdout == b""


@pytest.mark.parametrize(
    "data",
    [
        b"Dec  6 19:25:33 host01 sshd[12]: Accepted publickey\n" * 50,
        b"-- No entries --\n",
        b"dmesg: read kernel buffer failed: Operation not permitted\n",
        b"No journal files were opened due to insufficient permissions.\n",
    ],
)
def test_an_input_without_a_kernel_line_is_no_clean_log(data: bytes) -> None:
    result = scan("-", given=data)
    assert result.returncode == 3
    assert b"no kernel line" in result.stderr


def test_binary_junk_is_no_clean_log(tmp_path: Path) -> None:
    path = tmp_path / "junk"
    path.write_bytes(bytes(range(256)) * 4000)
    result = scan(path)
    assert result.returncode == 3
    assert b"does not look like text" in result.stderr


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (gzip.compress(FATAL.encode(), mtime=0), b"zcat"),
        (bz2.compress(FATAL.encode()), b"bzcat"),
        (lzma.compress(FATAL.encode()), b"xzcat"),
        (b"LPKSHHRH" + b"\0" * 100, b"journalctl -k -o json --file"),
        (FATAL.encode("utf-16"), b"iconv"),
    ],
)
def test_a_packed_log_is_refused_with_the_command_that_unpacks_it(data: bytes, says: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kern.log.packed"
    path.write_bytes(data)
    result = scan(path)
    assert result.returncode == 3
    assert says in result.stderr


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_what_cannot_be_opened_is_unknown_and_says_why(name: str, tmp_path: Path) -> None:
    result = scan(tmp_path / name)
    assert result.returncode == 3
    assert b"cannot read it" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["--nonsense", "-"], ["a", "b"]])
def test_wrong_usage_ends_with_64(arguments: list[str]) -> None:
    result = scan(*arguments)
    assert result.returncode == 64
    assert b"Usage" in result.stderr


def test_a_bad_rule_file_ends_with_64_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("rules: [{id: x}]", "utf-8")
    result = scan("--rules", path, "-", given=b"x")
    assert result.returncode == 64
    assert b"own.yaml: rule x: 'kind' is missing" in result.stderr


def test_odd_lines_are_read_like_any_other() -> None:
    data = b"\n".join(
        [
            b"[ 1.1] bad \xff\xfe\x80 bytes " + FATAL.encode(),
            b"[ 2.2] " + b"x" * 6000 + b" " + FATAL.encode(),
            b"[ 3.3] " + b"y" * 3_000_000 + FATAL.encode(),
            b"\0\0\0",
            FATAL.encode() + b"\r",
            json.dumps({"_TRANSPORT": "kernel", "MESSAGE": list(b"\xff " + FATAL.encode())}).encode(),
        ]
    )
    result = scan("--json", "-", given=data)
    assert [one["line_number"] for one in findings(result)] == [1, 2, 5, 6]
    assert result.returncode == 2


def test_a_storm_of_corrected_memory_errors_pages_and_the_same_number_over_days_does_not() -> None:
    line = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x12345)"
    slow = "".join(f"[{second:5d}.000000] {line}\n" for second in range(0, 90_000, 600))
    assert scan("-", given=slow.encode()).returncode == 1
    fast = "".join(f"[{second:5d}.000000] {line}\n" for second in range(120))
    assert scan("-", given=fast.encode()).returncode == 2
    short = "".join(f"Aug 28 11:{second // 60:02d}:{second % 60:02d} spark kernel: {line}\n" for second in range(120))
    assert scan("-", given=short.encode()).returncode == 2


def test_gpu_memory_complaints_of_a_model_load_never_page_by_themselves() -> None:
    line = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51) returned from x @ y.c:1"
    fast = "".join(f"[{second:5d}.000000] {line}\n" for second in range(30))
    assert scan("-", given=fast.encode()).returncode == 1


def test_a_reader_that_goes_away_ends_the_scan_quietly() -> None:
    data = (FATAL + "\n").encode() * 50_000
    command = f"{sys.executable} -m watchdog scan - | head -1"
    result = subprocess.run(["sh", "-c", command], input=data, capture_output=True, timeout=60, check=False)
    assert b"Traceback" not in result.stderr
    assert result.stdout.count(b"\n") == 1


def test_progress_is_shown_on_a_terminal_only_and_never_in_the_output(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(b"[ 1.1] veth0: entered promiscuous mode\n" * 200_000 + FATAL.encode() + b"\n")
    seen, terminal = pty.openpty()
    command = [sys.executable, "-m", "watchdog", "scan", "--json", str(path)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, timeout=60, check=False)
    os.close(terminal)
    assert b"Scanning [" in os.read(seen, 100_000)
    os.close(seen)
    assert len(findings(result)) == 1
    assert scan("--json", path).stderr == b""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_memory_stays_flat_on_a_large_log(tmp_path: Path) -> None:
    """200 MB in under 60 MiB, a line of 60 MB without an end included."""
    path = tmp_path / "kern.log"
    routine = b"".join(
        b"2026-11-01T00:00:%02d.000000+00:00 host01 kernel: [%5d.000000] veth%05x: entered promiscuous mode\n"
        % (number % 60, number, number)
        for number in range(10_000)
    )
    with path.open("wb") as file:
        while file.tell() < 140_000_000:
            file.write(routine)
        file.write(b"[1.1] " + b"z" * 60_000_000 + b"\n[2.2] " + FATAL.encode())
    watched = (
        "import re, sys; from pathlib import Path; from watchdog.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1], file=sys.stderr)"
    )
    command = [sys.executable, "-c", watched, "scan", "--json", str(path)]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.returncode == 2
    assert len(findings(result)) == 1
    assert int(result.stderr) < 60 << 10


def test_a_device_without_an_end_is_said_to_be_no_log() -> None:
    result = scan("/dev/zero")
    assert result.returncode == 3
    assert result.stdout == b""
    assert result.stderr.startswith(b"Not scanned: /dev/zero began with 64 MiB of NUL bytes: that is not a log")
    assert result.stderr.count(b"\n") == 1


def test_a_rotated_log_that_begins_with_a_large_hole_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    with log.open("wb") as file:
        file.seek(80 << 20)
        file.write(b"\n" + FATAL.encode() + b"\n")
    result = scan("--json", log)
    assert result.returncode == 2
    assert [one["kind"] for one in findings(result)] == ["pcie.aer.fatal"]
