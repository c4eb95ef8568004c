"""Every way a host cannot be read has its own name, in plain words, with what to do; none of them is "ok"."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.support.kernel_log_checks import check, condition, fatal, fatals, found, scan
from tests.support.memory_growth import growth
from tests.support.scripted_ssh_hosts import END, HEADER, HELLO, Answered, raw_server, scripted, settings, ssh_host
from tests.support.sshd import PASSPHRASE, RealHost, free_port, real_host
from watchdog.config import HostSettings, Secret
from watchdog.model import Observation, Severity, Verdict


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A directory with a key of ours and an empty known_hosts."""
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(tmp_path / "id")
    (tmp_path / "known_hosts").write_text("")
    return tmp_path


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    """A real machine with one kernel line."""
    with real_host(tmp_path / "lab") as machine:
        journal = machine.journal(wall_us=int((time.time() - 100) * 1e6))
        journal.kernel(machine.boot, 1_000_000, "Linux version 6.17")
        machine.plant(journal)
        yield machine


async def told(host: HostSettings, **options: HostSettings) -> Observation:
    """The condition of one scan, which must be no pass, and must say something to do."""
    observation = condition(await scan(check(host, **options)))
    assert observation.verdict is not Verdict.PASS
    assert observation.statement.startswith("lab: ")
    assert observation.advice
    return observation


async def test_a_closed_port(keys: Path) -> None:
    observation = await told(settings(keys, free_port()))
    assert observation.reason == "refused"
    assert observation.severity is Severity.PAGE


async def test_a_port_that_accepts_and_never_speaks_is_the_signature_of_a_frozen_machine(keys: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_server(silent) as port:
        started = time.monotonic()
        observation = await told(settings(keys, port, timeout_s=1.0))
        assert time.monotonic() - started < 2.5
    assert observation.reason == "silent"
    assert "sent nothing" in observation.summary
    assert observation.severity is Severity.PAGE


async def test_a_jump_host_that_hangs_says_nothing_about_the_host_behind_it(keys: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_server(silent) as port:
        behind = replace(settings(keys, free_port(), timeout_s=1.0), jump=f"monitor@127.0.0.1:{port}")
        observation = await told(behind)
    assert (observation.verdict, observation.reason) == (Verdict.UNKNOWN, "jump")
    assert f"127.0.0.1:{port} accepts connections" in observation.summary


async def test_a_server_that_greets_and_then_hangs(keys: Path) -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")
        await asyncio.sleep(60)

    async with raw_server(greets) as port:
        observation = await told(settings(keys, port, timeout_s=1.0))
    assert observation.reason == "silent"
    assert "sent its SSH version" in observation.summary


async def test_a_tcp_connection_that_is_never_answered(keys: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        full = [socket.socket() for _ in range(4)]
        for one in full:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        observation = await told(settings(keys, listener.getsockname()[1], timeout_s=1.0))
        for one in full:
            one.close()
    assert observation.reason == "timeout"
    assert "did not answer a TCP connection" in observation.summary


async def test_a_server_that_hangs_up(keys: Path) -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_server(hangs_up) as port:
        assert (await told(settings(keys, port))).reason == "reset"


async def test_a_web_server_on_the_port(keys: Path) -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with raw_server(web) as port:
        assert (await told(settings(keys, port))).reason in {"reset", "not_ssh"}


async def test_endless_junk_instead_of_a_greeting(keys: Path) -> None:
    async def junk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"A" * 200 + b"\r\n")
            await writer.drain()

    async with raw_server(junk) as port:
        assert (await told(settings(keys, port, timeout_s=3.0))).reason == "not_ssh"


@pytest.mark.parametrize(
    "version",
    [
        b"SSH-2.0-\x1b[31m<b>@everyone\xed\xa0\x80\xff",
        b"SSH-2.0-\xff\xfe",
        b"SSH-2.0-" + b"9" * 4200,
        b"SSH-9.9-x",
        b"SSH-",
    ],
    ids=["colours", "no text", "thousands of digits", "another version", "none"],
)
async def test_a_version_of_any_bytes_is_a_host_that_does_not_speak_ssh(keys: Path, version: bytes) -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(version + b"\r\n" + bytes(range(256)) * 40)
        await writer.drain()

    async with raw_server(greets) as port:
        observation = await told(settings(keys, port, timeout_s=2.0))
    assert observation.reason in {"not_ssh", "reset", "silent", "timeout"}
    assert observation.summary.isprintable()


async def test_a_name_that_does_not_exist(keys: Path) -> None:
    observation = await told(replace(settings(keys, 22), address="no-such-host.invalid"))
    assert observation.reason == "dns"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"known_hosts": "/nonexistent/known_hosts"}, "known_hosts file"),
        ({"identity_file": "/nonexistent/id"}, "key file"),
        ({"identity_file": None}, "no key to log in with"),
        ({"identity_file": None, "identity": Secret("no key at all")}, "no private key"),
        ({"identity_file": None, "agent": True}, "SSH_AUTH_SOCK"),
        ({"known_hosts": "/etc"}, "known_hosts file"),
    ],
)
async def test_our_own_mistakes_are_called_configuration(
    keys: Path, changes: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    observation = await told(replace(settings(keys, 22), **changes))  # type: ignore[arg-type]  # fields by name
    assert observation.reason == "config"
    assert words in observation.summary
    assert "no key at all" not in repr(observation)


@pytest.mark.real
class TestRealServer:
    """Against OpenSSH's own server."""

    async def test_five_failures_have_five_different_messages(self, host: RealHost) -> None:
        told_by = {"key_refused": await told(host.settings(identity_file=str(host.host_key)))}
        told_by["no_permission"] = await told(host.settings(user="plain"))
        host.trust(host.key)
        told_by["host_key_changed"] = await told(host.settings())
        host.trust(None)
        told_by["host_key_unknown"] = await told(host.settings())
        host.trust(host.host_key)
        os.kill(host.pid, signal.SIGSTOP)
        try:
            from watchdog.config import KernelLogSettings

            told_by["silent"] = await told(host.settings(kernel_log=KernelLogSettings(timeout_s=1.0)))
        finally:
            os.kill(host.pid, signal.SIGCONT)
        assert [observation.reason for observation in told_by.values()] == list(told_by)
        assert len({observation.summary for observation in told_by.values()}) == 5
        assert len({observation.advice for observation in told_by.values()}) == 5
        assert "SHA256:" in told_by["host_key_changed"].summary
        assert "ssh-keyscan" in told_by["host_key_unknown"].advice

    async def test_an_unknown_user_is_refused_like_a_wrong_key(self, host: RealHost) -> None:
        assert (await told(host.settings(user="nobody-here"))).reason == "key_refused"

    async def test_an_encrypted_key_needs_its_passphrase(self, host: RealHost) -> None:
        locked = str(host.locked_key)
        without = await told(host.settings(identity_file=locked))
        wrong = await told(host.settings(identity_file=locked, passphrase=Secret("wrong horse")))
        assert (without.reason, wrong.reason) == ("config", "config")
        assert "protected by a passphrase" in without.summary
        assert "does not open" in wrong.summary
        assert "horse" not in repr(wrong)
        right = await scan(check(host.settings(identity_file=locked, passphrase=Secret(PASSPHRASE))))
        assert condition(right).reason == "ok"

    async def test_a_key_given_as_text_works(self, host: RealHost) -> None:
        text = Secret(host.key.read_text())
        assert condition(await scan(check(host.settings(identity_file=None, identity=text)))).reason == "ok"

    async def test_a_key_in_an_agent_works(self, host: RealHost, monkeypatch: pytest.MonkeyPatch) -> None:
        path = host.root / "agent"
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
            while subprocess.run(["ssh-add", "-l"], check=False, capture_output=True).returncode == 2:  # not there yet
                await asyncio.sleep(0.02)
            subprocess.run(["ssh-add", "-q", str(host.key)], check=True, capture_output=True)
            with_agent = host.settings(identity_file=None, agent=True)
            assert condition(await scan(check(with_agent))).reason == "ok"
            subprocess.run(["ssh-add", "-q", "-D"], check=True, capture_output=True)
            assert (await told(with_agent)).reason == "key_refused"
        finally:
            agent.terminate()
            agent.wait()

    async def test_the_users_own_ssh_configuration_is_not_read(
        self, host: RealHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".ssh").mkdir()
        touched = tmp_path / "touched"
        (tmp_path / ".ssh/config").write_text(f'Match exec "touch {touched}"\n  Port 1\n')
        monkeypatch.setenv("HOME", str(tmp_path))
        assert condition(await scan(check(host.settings()))).reason == "ok"
        assert not touched.exists()

    async def test_the_users_own_ssh_configuration_is_read_when_asked_for(
        self, host: RealHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".ssh").mkdir()
        lines = f"Host box\n  HostName 127.0.0.1\n  Port {host.port}\n  IdentityFile {host.key}\n"
        (tmp_path / ".ssh/config").write_text(lines)
        monkeypatch.setenv("HOME", str(tmp_path))
        by_name = host.settings(address="box", port=22, ssh_config=True, identity_file=None)
        assert condition(await scan(check(by_name))).reason == "ok"

    async def test_through_a_jump_host(self, host: RealHost) -> None:
        jump = f"watch@127.0.0.1:{host.port}"
        assert condition(await scan(check(host.settings(jump=jump)))).reason == "ok"
        named = host.settings(name="door")
        assert condition(await scan(check(host.settings(jump="door"), jump=named))).reason == "ok"

    async def test_a_jump_host_that_fails_says_nothing_about_the_host(self, host: RealHost) -> None:
        observation = await told(host.settings(jump=f"watch@127.0.0.1:{free_port()}"))
        assert (observation.verdict, observation.reason) == (Verdict.UNKNOWN, "jump")

    async def test_a_host_that_is_down_behind_a_good_jump_host(self, host: RealHost) -> None:
        behind = host.settings(port=free_port(), jump=f"watch@127.0.0.1:{host.port}")
        observation = await told(behind)
        assert observation.verdict is Verdict.FAIL
        assert observation.reason in {"refused", "host_key_unknown"}

    async def test_a_session_process_that_is_killed_while_it_answers(self, host: RealHost) -> None:
        (host.root / "lab/home/.bashrc").write_text("kill -9 $PPID\n")
        observation = await told(host.settings())
        assert observation.reason == "truncated"

    async def test_a_command_that_hangs_ends_at_the_one_deadline(self, host: RealHost) -> None:
        from watchdog.config import KernelLogSettings

        (host.root / "lab/home/.bashrc").write_text("sleep 30\n")
        started = time.monotonic()
        observation = await told(host.settings(kernel_log=KernelLogSettings(timeout_s=1.5)))
        assert time.monotonic() - started < 3
        assert observation.reason == "timeout"
        assert "`hello` did not finish" in observation.summary


async def test_a_server_that_opens_no_session(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    with real_host(tmp_path / "lab/host", "MaxSessions 0") as machine:
        assert (await told(machine.settings())).reason == "command_failed"


RECORD = (
    b'{"__CURSOR":"s=1;i=1;b=2","_BOOT_ID":"' + b"a" * 32 + b'","__REALTIME_TIMESTAMP":"1795000000000000",'
    b'"__MONOTONIC_TIMESTAMP":"8000000","_SOURCE_MONOTONIC_TIMESTAMP":"8000000","_TRANSPORT":"kernel",'
    b'"SYSLOG_FACILITY":"0","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"' + fatal(1).encode() + b'"}\n'
)
GOOD = HEADER + RECORD + END


@pytest.mark.parametrize(
    ("journal", "reason"),
    [
        (Answered(GOOD), "ok"),
        (Answered(HEADER + RECORD), "truncated"),
        (Answered(HEADER + RECORD, status=None), "truncated"),
        (Answered(GOOD, status=None), "truncated"),
        (Answered(GOOD, status=1), "truncated"),
        (Answered(b"", status=0), "command_failed"),
        (Answered(RECORD + END), "command_failed"),
        (Answered(GOOD, stderr=b"Journal file x is truncated, ignoring file.\n"), "corrupt"),
        (Answered(GOOD, stderr=b"something\n"), "stderr"),
        (Answered(HEADER + RECORD + b"not json\n" + END), "corrupt"),
        (Answered(HEADER + b"x" * (2 << 20) + b"\n" + RECORD + END), "corrupt"),
        (Answered(HEADER + RECORD + b"INFERENCE-WATCHDOG-READER END rc=70 why=journalctl-124\n", status=70), "timeout"),
        (
            Answered(HEADER + RECORD + b"INFERENCE-WATCHDOG-READER END rc=70 why=journalctl-1\n", status=70),
            "command_failed",
        ),
        (Answered(b"sh: not found\n", status=127), "command_failed"),
    ],
)
async def test_only_a_whole_answer_is_a_good_one(tmp_path: Path, journal: Answered, reason: str) -> None:
    async with ssh_host(tmp_path, scripted({"hello": Answered(HELLO), "journal": journal})) as host:
        result = await scan(check(host))
    assert condition(result).reason == reason
    if RECORD in journal.stdout and HEADER in journal.stdout:
        assert found(result) == fatals(1), "a line that came is told, whatever became of the rest"


@pytest.mark.parametrize(
    ("word", "lines", "reason"),
    [
        ("hello", "y\n" * 100_000, "truncated"),
        ("journal", "y\n" * 100_000, "corrupt"),
        ("journal", "x" * 4_000_000 + "\n", "truncated"),
    ],
    ids=["greeting", "short lines", "long lines"],
)
async def test_a_flood_of_bytes_is_cut_off_without_being_held(
    tmp_path: Path, word: str, lines: str, reason: str
) -> None:
    flood = tmp_path / "lab/lab/flood"
    with real_host(tmp_path / "lab", "ForceCommand /run/lab/flood") as host:
        (tmp_path / "lab/lab/lines").write_text(lines)
        flood.write_text(
            '#!/bin/sh\nrequest=$(printf %s "${SSH_ORIGINAL_COMMAND##*-- }" | tr -d "\'")\n'
            f'case $request in "read1 {word}"*) ;; *) exec /run/lab/reader "$request" ;; esac\n'
            f"printf '%s' '{HEADER.decode()}'\n"
            "while cat /run/lab/lines; do :; done\n"
        )
        flood.chmod(0o755)
        result, grown = await growth(scan(check(host.settings())))
    assert condition(result).reason == reason
    assert grown < 24, "up to 64 MiB are sent"


async def test_an_unread_error_stream_does_not_stall_the_answer(tmp_path: Path) -> None:
    async def complains(process: asyncssh.SSHServerProcess[bytes]) -> None:
        for _ in range(64):
            process.stderr.write(b"e" * 131072)
            await process.stderr.drain()
        process.stdout.write(HELLO if "hello" in (process.command or "") else GOOD)
        process.exit(0)

    async with ssh_host(tmp_path, complains) as host:
        observation = condition(await scan(check(host)))
    assert observation.reason == "stderr"
    assert len(observation.summary) < 400
