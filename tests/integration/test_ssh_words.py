"""Set-ups of SSH whose failure was once told in words that mislead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.support.kernel_log_checks import check, condition, scan
from tests.support.scripted_ssh_hosts import BOOT, HELLO, Answered, raw_server, scripted, settings, ssh_host
from tests.support.sshd import RealHost, real_host
from watchdog.checks.reader_client import ask_hello
from watchdog.config import HostSettings
from watchdog.model import Observation, Verdict
from watchdog.reasons import HostReason
from watchdog.ssh import reading
from watchdog.ssh.addresses import Target, target
from watchdog.ssh.errors import ConnectionProgress, error_from_exception
from watchdog.ssh.host_key import scan_host_key
from watchdog.ssh.login import options


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own directory, with an empty .ssh."""
    (tmp_path / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def configure(home: Path, *lines: str) -> None:
    (home / ".ssh/config").write_text("\n".join(lines) + "\n")


def other_key() -> str:
    return asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


async def seen(host: HostSettings) -> Observation:
    return condition(await scan(check(host)))


NAMES = {
    "the HostName": (("HostName 192.0.2.7", "Port 2222"), Target("192.0.2.7", 2222, "192.0.2.7")),
    "the alias of the key": (("HostName 192.0.2.7", "HostKeyAlias rack"), Target("192.0.2.7", 22, "rack")),
    "a jump": (("ProxyJump gate",), Target("box", 22, "box", "gate", direct=False)),
    "no jump": (("ProxyJump none",), Target("box", 22, "box")),
    "nothing": ((), Target("box", 22, "box")),
}


@pytest.mark.parametrize("case", NAMES)
def test_the_users_configuration_says_under_which_name_a_host_key_is_known(home: Path, case: str) -> None:
    lines, wanted = NAMES[case]
    configure(home, "Host box", *(f"  {line}" for line in lines))
    host = replace(settings(home, 22), address="box", ssh_config=True)
    assert target(host) == wanted
    assert target(replace(host, ssh_config=False)) == Target("box", 22, "box")


@pytest.mark.parametrize(("known_as", "reason"), [("127.0.0.1", "host_key_changed"), ("elsewhere", "host_key_unknown")])
async def test_a_key_is_changed_where_the_real_name_of_an_alias_is_known(
    home: Path, known_as: str, reason: str
) -> None:
    async with ssh_host(home, scripted({})) as host:
        configure(home, "Host box", "  HostName 127.0.0.1", f"  Port {host.port}")
        (home / "known_hosts").write_text(f"[{known_as}]:{host.port} {other_key()}\n")
        assert (await seen(replace(host, address="box", port=22, ssh_config=True))).reason == reason


async def test_a_revoked_key_says_so(home: Path) -> None:
    async with ssh_host(home, scripted({})) as host:
        known = home / "known_hosts"
        known.write_text(f"@revoked {known.read_text()}{known.read_text()}")
        observation = await seen(host)
    assert observation.reason == "host_key_changed"
    assert "@revoked" in observation.summary
    assert "ssh-keyscan" not in observation.advice


async def test_a_key_file_of_the_users_configuration_that_is_missing_is_a_matter_of_configuration(home: Path) -> None:
    async with ssh_host(home, scripted({})) as host:
        configure(home, "Host *", f"  IdentityFile {home}/gone", "  CertificateFile /nowhere/cert")
        observation = await seen(replace(host, ssh_config=True, identity_file=None))
    assert observation.reason == "config"


async def test_a_configuration_of_the_user_that_makes_no_sense_is_named(home: Path) -> None:
    configure(home, "Host *", "  Port x")
    observation = await seen(replace(settings(home, 22), address="box", ssh_config=True))
    assert observation.reason == "config"
    assert "~/.ssh/config" in observation.summary


async def test_a_silent_proxy_jump_says_nothing_about_the_host_behind_it(home: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_server(silent) as port:
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(home / "id")
        (home / "known_hosts").write_text("")
        configure(home, "Host box", f"  ProxyJump me@127.0.0.1:{port}")
        behind = replace(settings(home, 22, timeout_s=1.0), address="box", ssh_config=True)
        observation = await seen(behind)
    assert (observation.verdict, observation.reason) == (Verdict.UNKNOWN, "jump")


@pytest.mark.parametrize("ssh_config", [False, True])
async def test_a_jump_host_by_its_address_is_named_in_the_labels_of_all_behind_it(home: Path, ssh_config: bool) -> None:
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(home / "id")
    (home / "known_hosts").write_text("")
    configure(home, "Host box", "  ProxyJump me@127.0.0.1:1")
    behind = replace(settings(home, 22), address="box", ssh_config=ssh_config)
    observation = await seen(behind if ssh_config else replace(behind, jump="127.0.0.1:1"))
    assert (observation.reason, observation.labels["jump"]) == ("jump", "127.0.0.1:1")


async def test_a_proxy_jump_that_leads_back_to_itself_is_a_matter_of_configuration(home: Path) -> None:
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(home / "id")
    (home / "known_hosts").write_text("")
    configure(home, "Host *", "  ProxyJump me@127.0.0.1:1")
    observation = await seen(replace(settings(home, 22), address="box", ssh_config=True))
    assert observation.reason in {"config", "jump"}
    assert "leads back" in observation.summary


@pytest.mark.parametrize("how", ["by name", "by ssh_config", "the host key alone"])
async def test_a_black_holed_first_address_costs_a_head_start(
    home: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with ExitStack() as stack:
        dead = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        waiting = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(dead.getsockname())
        async with ssh_host(home, scripted({"hello": Answered(HELLO)})) as host:
            addresses = [dead.getsockname(), ("127.0.0.1", host.port)]

            async def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
            (home / "known_hosts").write_text((home / "known_hosts").read_text().replace("127.0.0.1", "box"))
            configure(home, "Host alias", "  HostName box", f"  Port {host.port}")
            named = replace(host, address="box")
            if how == "the host key alone":
                assert (await scan_host_key(named, 3.0)).kind == "ED25519"
                return
            used = named if how == "by name" else replace(host, address="alias", port=22, ssh_config=True)
            async with reading(used, 3.0) as session:
                assert (await ask_hello(session)).boot == BOOT


def test_too_many_keys_are_no_other_protocol() -> None:
    error = asyncssh.ProtocolError("Too many authentication failures")
    host = HostSettings(name="lab", address="192.0.2.1", user="monitor", known_hosts="/dev/null")
    told = error_from_exception(host, error, ConnectionProgress(connected=True, exchanged=True))
    assert told.reason is HostReason.KEY_REFUSED
    assert "too many authentication failures" in told.summary
    assert "Name one key" in told.advice


def test_forwarding_that_is_prohibited_is_a_fault_of_the_jump_host_with_either_way_to_name_it() -> None:
    error = asyncssh.ChannelOpenError(1, "administratively prohibited")
    host = HostSettings(name="lab", address="192.0.2.1", user="monitor", known_hosts="/dev/null")
    for jump in ("gate", None):
        told = error_from_exception(replace(host, jump=jump), error, ConnectionProgress())
        assert (told.reason, told.ours) == (HostReason.JUMP, True)


def test_a_certificate_beside_the_key_is_offered_before_the_key(tmp_path: Path) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    key.write_private_key(tmp_path / "id")
    (tmp_path / "known_hosts").write_text("")
    certificate = authority.generate_user_certificate(key, "watch", principals=["monitor"])
    certificate.write_certificate(tmp_path / "id-cert.pub")
    offered = options(settings(tmp_path, 22), ConnectionProgress())["client_keys"]
    assert offered[0][1].export_certificate() == certificate.export_certificate()
    assert len(offered) == 2


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealHost]:
    """A real machine with one kernel line."""
    with real_host(tmp_path / "lab") as machine:
        journal = machine.journal()
        journal.kernel(machine.boot, 1_000_000, "Linux version 6.17")
        machine.plant(journal)
        yield machine


@pytest.mark.real
async def test_through_the_proxy_jump_of_the_users_configuration(
    real: RealHost, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (home / ".ssh/known_hosts").write_bytes(real.known_hosts.read_bytes())
    configure(
        home,
        "Host gate",
        "  HostName 127.0.0.1",
        f"  Port {real.port}",
        "  User watch",
        f"  IdentityFile {real.key}",
        "Host box",
        "  HostName 127.0.0.1",
        f"  Port {real.port}",
        "  ProxyJump gate",
    )
    assert (await seen(real.settings(address="box", port=22, ssh_config=True))).reason == "ok"
