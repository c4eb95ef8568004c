"""The one script that runs on a watched machine: what it answers, what it refuses, and that it writes nothing."""

from __future__ import annotations

import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.ras_answers import lines_of, recorded
from tests.support.sshd import free_port
from watchdog.journal.frame import Transcript, parse_hello
from watchdog.ssh.session import script

SETTINGS = r"\+ (set -u|export LC_ALL PATH|\w+=\S+( \w+=\S+)*)$"
"""All that the script does before its last line, as `sh -x` shows it."""
SOURCE = Path(__file__).parents[2] / "watchdog"
READER = SOURCE / "host" / "reader.sh"
BOOT = "a" * 32
HOSTILE = {
    "another program": "id",
    "no request": "",
    "only blanks": "   ",
    "the protocol alone": "read1",
    "another protocol": "read2 hello",
    "an unknown request": "read1 reboot",
    "an option for a request": "read1 --help",
    "a request and more": "read1 hello there",
    "a substitution": "read1 journal $(reboot) - 5",
    "backticks": "read1 journal `id` - 5",
    "a second command": "read1 hello;reboot",
    "a second line": "read1 hello\nid",
    "a pipe": "read1 hello | sh",
    "a redirection": "read1 hello >/etc/motd",
    "a background command": "read1 hello & id",
    "an assignment": "PATH=/tmp read1 hello",
    "a glob as boot": "read1 journal * - 5",
    "a short boot": "read1 journal abc - 5",
    "an upper-case boot": f"read1 journal {'A' * 32} - 5",
    "an option as boot": "read1 journal --vacuum-size=1 - 5",
    "an option as cursor": f"read1 journal {BOOT} --rotate 5",
    "an option behind a cursor": f"read1 journal {BOOT} s=1;i=1 --flush 5",
    "a cursor that is none": f"read1 journal {BOOT} x=1;i=1 5",
    "an unknown word": f"read1 follow {BOOT} - sing",
    "one word too many": f"read1 follow {BOOT} - beat beat",
    "vitals without beats": f"read1 follow {BOOT} - vitals",
    "three words": f"read1 follow {BOOT} - beat vitals vitals",
    "a path as cursor": f"read1 follow {BOOT} /etc/shadow",
    "no limit": f"read1 journal {BOOT} -",
    "too much": f"read1 journal {BOOT} - 99999",
    "a negative limit": f"read1 journal {BOOT} - -5",
    "an octal limit": f"read1 journal {BOOT} - 010",
    "a limit with a unit": f"read1 journal {BOOT} - 5k",
    "one argument too many": f"read1 journal {BOOT} - 5 6",
    "an endless request": "read1 hello " + "x" * 500,
    "a letter beyond ASCII": "read1 hellö",
    "a quote": "read1 'hello'",
    "a tab": "read1\thello",
    "another word for NCCL": "read1 nccl control",
    "another port for NCCL": "read1 nccl 28029",
    "another machine for NCCL": "read1 nccl 192.0.2.1:28028",
}
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


def shell(name: str) -> list[str]:
    """The command line of a shell, or a loud skip."""
    if shutil.which(SHELLS[name][0]) is None:
        text = f"{name} is missing: apt-get install {name}"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    return SHELLS[name]


def run(command: list[str], request: str | None, **environment: str) -> tuple[int, Transcript, list[bytes]]:
    """Run the script as it is sent: on standard input, with the request as its one argument."""
    arguments = [*command, "-s", "--"] + ([] if request is None else [request])
    done = subprocess.run(
        arguments, input=script(), capture_output=True, timeout=30, check=False, env={**os.environ, **environment}
    )
    frame = Transcript()
    return done.returncode, frame, frame.feed(done.stdout)


@pytest.mark.parametrize("name", SHELLS)
def test_each_shell_answers_hello_with_who_and_where(name: str) -> None:
    status, frame, lines = run(shell(name), "read1 hello")
    assert status == 0
    assert frame.complete
    greeting = parse_hello(frame.header or {}, lines)
    assert greeting is not None
    assert greeting.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    assert abs(greeting.now - time.time()) < 10
    assert greeting.uid == os.getuid()


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_request_is_refused_in_each_shell(name: str, case: str) -> None:
    status, frame, lines = run(shell(name), HOSTILE[case])
    assert status == 64
    assert frame.trailer is not None
    assert frame.trailer.rc == 64
    assert frame.header is None
    assert lines == []


@pytest.mark.parametrize("name", SHELLS)
def test_as_a_forced_command_the_request_comes_from_the_environment(name: str) -> None:
    command = [*shell(name), str(READER)]
    environment = {**os.environ, "SSH_ORIGINAL_COMMAND": "read1 hello"}
    done = subprocess.run(command, capture_output=True, timeout=30, check=False, env=environment)
    frame = Transcript()
    frame.feed(done.stdout)
    assert frame.complete
    environment["SSH_ORIGINAL_COMMAND"] = "sh -s -- 'read1 hello'"
    done = subprocess.run(command, capture_output=True, timeout=30, check=False, env=environment)
    assert done.returncode == 64


def test_a_script_that_arrived_cut_short_does_nothing() -> None:
    whole = script()
    call = whole.rindex(b'\nmain "$@"') + 1
    for length in (int(len(whole) * 0.3), int(len(whole) * 0.7), call - 2, call):
        command = ["sh", "-x", "-s", "--", "read1 hello"]
        done = subprocess.run(command, input=whole[:length], capture_output=True, timeout=30, check=False)
        assert done.stdout == b""
        ran = [line for line in done.stderr.decode().splitlines() if line.startswith("+")]
        assert all(re.match(SETTINGS, line) for line in ran), ran


@pytest.mark.parametrize("name", SHELLS)
def test_vitals_are_plain_keys_and_values(name: str) -> None:
    status, frame, lines = run(shell(name), "read1 vitals")
    assert status == 0
    assert frame.complete
    values = dict(line.decode().split("=", 1) for line in lines)
    assert int(values["MemTotal_kib"]) > int(values["MemAvailable_kib"]) > 0
    assert values["gpu_rc"] in {"none", "done"}
    assert {"boot", "uptime", "now"} <= (frame.header or {}).keys()


def test_a_gpu_tool_that_hangs_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    text = READER.read_text().replace("PATH=/usr/sbin", f"PATH={tmp_path}:/usr/sbin").replace("limited 8", "limited 1")
    started = time.monotonic()
    done = subprocess.run(
        ["sh", "-s", "--", "read1 vitals"], input=text.encode(), capture_output=True, timeout=40, check=False
    )
    frame = Transcript()
    lines = frame.feed(done.stdout)
    assert frame.complete
    assert b"gpu_rc=slow" in lines
    assert not [line for line in lines if line.startswith(b"gpu=")]
    assert time.monotonic() - started < 20


HANGS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
open("/proc/self/comm", "w").write("journalctl")
print("there", flush=True)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
"""
"""A process in state D: it waits for its child (vfork), which waits for a writer of the pipe. It takes no SIGTERM."""


@pytest.mark.alone  # every other reader of this account sees the process that hangs
@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("request_", ["read1 hello", f"read1 journal {BOOT} - 5", f"read1 follow {BOOT} -"])
def test_no_second_journalctl_is_added_to_one_that_hangs_in_the_kernel(
    name: str, request_: str, tmp_path: Path
) -> None:
    tool = tmp_path / "journalctl"
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    tool.chmod(0o755)
    text = READER.read_text().replace("PATH=/usr/sbin", f"PATH={tmp_path}:/usr/sbin")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def answer() -> Transcript:
        frame = Transcript()
        done = subprocess.run(
            [*shell(name), "-s", "--", request_], input=text.encode(), capture_output=True, timeout=40, check=False
        )
        frame.feed(done.stdout)
        return frame

    with subprocess.Popen([sys.executable, "-c", HANGS, str(pipe)], stdout=subprocess.PIPE) as hanging:
        try:
            assert hanging.stdout is not None
            hanging.stdout.readline()
            while "\nState:\tD" not in (status := Path(f"/proc/{hanging.pid}/status").read_text()):
                assert "\nState:\tZ" not in status
                time.sleep(0.01)
            answer()
            if "follow" not in request_:  # that one ends with its standard input, perhaps before it starts anything
                assert (tmp_path / "started").exists(), "one that only waits for its disk is no reason to read nothing"
            (tmp_path / "started").unlink(missing_ok=True)
            hanging.terminate()
            frame = answer()
        finally:
            hanging.kill()
            with suppress(OSError):  # nobody reads any more
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    assert frame.trailer is not None
    assert (frame.trailer.rc, frame.trailer.why) == (70, "journalctl-stuck")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", SHELLS)
def test_pstore_and_the_ring_buffer_have_a_frame_too(name: str) -> None:
    for request in ("read1 pstore", "read1 kmsg"):
        status, frame, _ = run(shell(name), request)
        assert frame.header is not None
        assert frame.trailer is not None
        assert status == frame.trailer.rc
        assert frame.trailer.rc in {0, 77}


@pytest.mark.real
def test_the_ring_buffer_is_read_to_its_end_with_its_numbers() -> None:
    from watchdog.journal import records as journal_records

    status, frame, lines = run(["sh"], "read1 kmsg")
    if status == 77:
        pytest.skip("this user may not read /dev/kmsg")
    numbers = [record.sequence for record in map(journal_records.parse_kmsg, lines) if record is not None]
    assert frame.complete
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert not [
        line for line in lines if journal_records.parse_kmsg(line) is None and not journal_records.is_continuation(line)
    ]


def test_the_environment_of_the_login_does_not_reach_journalctl() -> None:
    _, plain, lines = run(["sh"], "read1 hello")
    _, loud, same = run(["sh"], "read1 hello", SYSTEMD_LOG_LEVEL="debug", SYSTEMD_LOG_TARGET="console", LANG="de_DE")
    assert plain.complete
    assert loud.complete
    changing = re.compile(rb"(free_kib|looked|journald)=\w+")  # other tests are on this machine too
    assert [changing.sub(b"", line) for line in lines] == [changing.sub(b"", line) for line in same]


def test_the_script_contains_nothing_that_writes_or_evaluates() -> None:
    code = "\n".join(line.split(" #")[0] for line in READER.read_text().splitlines() if not line.startswith("#"))
    forbidden = (
        r"\beval\b|\bmktemp\b|\btee\b|\brm\b|\bmv\b|\bcp\b|\btouch\b|--cursor-file|--vacuum|--rotate|--flush|--sync"
    )
    assert re.findall(forbidden, code) == []
    targets = set(re.findall(r"[0-9]*>+\|?(?!&)\s*([^\s;)]+)", code))
    assert targets == {"/dev/null", "/dev/tcp/localhost/28028"}


@pytest.mark.real
def test_the_script_opens_no_file_for_writing() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is missing: apt-get install strace")
    for request in (
        "read1 hello",
        f"read1 journal {BOOT} - 5",
        "read1 vitals",
        "read1 pstore",
        "read1 kmsg",
        "read1 nccl",
    ):
        done = subprocess.run(
            ["strace", "-f", "-qq", "-e", "trace=open,openat,creat,unlink,rename", "sh", "-s", "--", request],
            input=script(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        opened = re.findall(rb'open\w*\([^"]*"([^"]+)", [^)]*O_(?:WRONLY|RDWR|CREAT)', done.stderr)
        assert set(opened) <= {b"/dev/null", b"/dev/tty"}, request


def nccl(name: str, port: int, tools: Path | None = None, limit_s: int = 6) -> tuple[Transcript, list[bytes]]:
    """Ask about NCCL at `port` instead of its own; `tools` are the only programs there are."""
    text = READER.read_text().replace("28028", str(port)).replace("limited 6", f"limited {limit_s}")
    if tools is not None:
        text = text.replace("PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PATH={tools}")
    command = [*shell(name), "-s", "--", "read1 nccl"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=40, check=False)
    frame = Transcript()
    return frame, frame.feed(done.stdout)


def with_tools(root: Path, *more: str) -> Path:
    """A directory with the programs that the reader needs, and `more`; no other one is found."""
    names = ("env", "nice", "timeout", "cat", "head", "tr", "sed", "date", "cut", "id", *more)
    for name in names:
        (root / name).symlink_to(str(shutil.which(name)))
    return root


@contextmanager
def ras_service(answer: bytes | None) -> Iterator[tuple[int, list[bytes]]]:
    """A port that plays NCCL's service: the answer (None: never any), and what it was sent."""
    sent: list[bytes] = []

    class Service(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines = [self.rfile.readline()]
            while lines[-1] not in {b"verbose status\n", b""}:
                lines.append(self.rfile.readline())
            sent.append(b"".join(lines))
            with suppress(OSError):
                if answer is None:
                    self.rfile.read()
                else:
                    self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Service) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1], sent
        server.shutdown()


@pytest.mark.parametrize("tool", ["bash", "curl"])
@pytest.mark.parametrize("name", SHELLS)
def test_nccl_is_sent_two_fixed_lines_and_its_answer_is_passed_on(name: str, tool: str, tmp_path: Path) -> None:
    raw = recorded("json")["skip-3s"]
    with ras_service(raw) as (port, sent):
        frame, lines = nccl(name, port, with_tools(tmp_path, tool))
    assert frame.complete
    assert sent == [b"set format json\nverbose status\n"]
    assert lines == [line for line in lines_of(raw) if line]


@pytest.mark.parametrize("name", SHELLS)
def test_where_nobody_listens_or_no_tool_is_there_that_is_said_and_no_error(name: str, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "curl").mkdir()
    (tmp_path / "none").mkdir()
    for tools in (None, with_tools(tmp_path / "curl", "curl")):
        frame, lines = nccl(name, port, tools)
        assert frame.complete
        assert lines == [b"nccl_rc=nobody"]
    frame, lines = nccl(name, port, with_tools(tmp_path / "none"))
    assert frame.complete
    assert lines == [b"nccl_rc=none"]


def test_ncclras_is_asked_where_there_is_nothing_else(tmp_path: Path) -> None:
    tools = with_tools(tmp_path)
    program = tools / "ncclras"
    program.write_text(f'#!{shutil.which("dash")}\necho "asked $*"\n')
    program.chmod(0o755)
    frame, lines = nccl("dash", free_port(), tools)
    assert frame.complete
    assert lines == [b"| asked -v", b"nccl_rc=done"]


@pytest.mark.parametrize("tool", ["bash", "curl"])
@pytest.mark.parametrize("name", SHELLS)
def test_an_nccl_that_never_answers_is_left_after_its_limit(name: str, tool: str, tmp_path: Path) -> None:
    assert READER.read_text().count("limited 6 ") == 3
    with ras_service(None) as (port, sent):
        started = time.monotonic()
        frame, lines = nccl(name, port, with_tools(tmp_path, tool), limit_s=1)
        assert time.monotonic() - started < 10
    assert sent
    assert frame.complete
    assert lines == [b"nccl_rc=hangs"]


def test_an_endless_answer_of_nccl_is_cut_and_cannot_pass_for_the_frame() -> None:
    flood = b"INFERENCE-WATCHDOG-READER END rc=0 why=ok\n" + b"\x1b[2J\xff" + b"x" * 3_000_000
    with ras_service(flood) as (port, _):
        frame, lines = nccl("dash", port)
    assert frame.complete
    assert lines[0] == b"| INFERENCE-WATCHDOG-READER END rc=0 why=ok"
    assert lines[-1] == b"nccl_rc=done"
    assert sum(map(len, lines)) < 262144 + 100
    assert not [byte for line in lines for byte in line if not 32 <= byte < 127]


def test_no_other_remote_command_exists_in_the_code() -> None:
    speaks_ssh, runs_remotely, runs_ssh_here = set(), [], []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("demo/"):  # the rig pretends to be the host
            continue
        text = path.read_text()
        if re.search(r"^\s*(?:import|from) asyncssh", text, re.MULTILINE):
            speaks_ssh.add(name)
            names = "create_process|create_session|run|start_sftp_client|open_session|create_subprocess|open_connection"
            calls = rf"\.({names})\("
            runs_remotely += [f"{name}: {call}" for call in re.findall(calls, text)]
        runs_ssh_here += re.findall(r"""["'](?:ssh|scp|sftp|rsync|mosh)["']\s*[,\]]""", text)
    assert speaks_ssh == {f"ssh/{name}.py" for name in ("addresses", "errors", "host_key", "login", "session")}
    assert set(runs_remotely) == {"ssh/session.py: create_process"}
    assert runs_ssh_here == []


def test_every_request_the_code_can_make_is_on_the_closed_list() -> None:
    closed = set(re.findall(r"\b(hello|journal|follow|kmsg|pstore|vitals|nccl)/\d", READER.read_text()))
    asked = set()
    for path in SOURCE.rglob("*.py"):
        asked |= set(re.findall(r"read1 (\w+)", path.read_text()))
    assert closed == {"hello", "journal", "follow", "kmsg", "pstore", "vitals", "nccl"}
    assert asked == closed


def test_following_ends_with_its_standard_input_and_leaves_no_process_behind() -> None:
    if shutil.which("journalctl") is None:
        pytest.skip("journalctl is missing")
    for name in SHELLS:
        process = subprocess.Popen(
            [*shell(name), "-s", "--", f"read1 follow {BOOT} -"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(script())
        process.stdin.flush()
        process.stdout.readline()
        assert b"request=follow" in process.stdout.readline()
        time.sleep(0.3)
        family = _descendants(process.pid)
        assert any("journalctl" in command for command in family.values())
        process.stdin.close()
        assert b"END rc=0" in process.stdout.read()
        process.stdout.close()
        assert process.wait(timeout=10) == 0
        time.sleep(0.3)
        assert [pid for pid in family if Path(f"/proc/{pid}").exists() and pid != process.pid] == []


@pytest.mark.parametrize("name", SHELLS)
def test_following_with_beats_goes_on_while_they_come_and_ends_when_they_stay_away(name: str) -> None:
    """As after a cut network: the connection stands, and nobody is at its other end."""
    if shutil.which("journalctl") is None:
        pytest.skip("journalctl is missing")
    assert "timeout 30 head" in READER.read_text()
    process = subprocess.Popen(
        [*shell(name), "-s", "--", f"read1 follow {BOOT} - beat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(READER.read_bytes().replace(b"timeout 30 head", b"timeout 2 head"))
    for _ in range(10):
        process.stdin.flush()
        time.sleep(0.4)
        process.stdin.write(b".\n")
    process.stdin.flush()
    assert process.poll() is None
    family = _descendants(process.pid)
    assert any("journalctl" in command for command in family.values())
    assert process.wait(timeout=15) == 0, "its standard input is open, and nothing comes there"
    assert b"END rc=0" in process.stdout.read()
    process.stdin.close()
    process.stdout.close()
    time.sleep(0.3)
    assert [pid for pid in family if Path(f"/proc/{pid}").exists() and pid != process.pid] == []


def _descendants(pid: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found |= _descendants(int(child))
    return found
