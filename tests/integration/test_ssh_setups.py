"""Set-ups of sshd, of keys and of known_hosts, each against a real server: what a scan says of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from tests.support.kernel_log_checks import check, condition, scan
from tests.support.sshd import PASSPHRASE, RealHost, make_key, real_host
from watchdog.config import HostSettings, Secret
from watchdog.model import Observation

pytestmark = pytest.mark.real


def with_a_line(machine: RealHost) -> RealHost:
    journal = machine.journal()
    journal.kernel(machine.boot, 1_000_000, "Linux version 6.17")
    machine.plant(journal)
    return machine


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHost]:
    """One machine for everything that is changed on our side alone, or in the user's files."""
    with real_host(tmp_path_factory.mktemp("lab") / "lab") as machine:
        yield with_a_line(machine)


async def seen(host: HostSettings) -> Observation:
    return condition(await scan(check(host)))


def told(observation: Observation) -> tuple[str, str]:
    return observation.reason, observation.summary


# What sshd is configured to do: extra lines of sshd_config, the reason, and words of the summary.

SERVERS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "nothing special": ((), "ok", ""),
    "only others may log in": (("AllowUsers nobody",), "key_refused", "does not let user watch in with our key"),
    "the user may not log in": (("DenyUsers watch",), "key_refused", "does not let user watch in"),
    "only another group may": (("AllowGroups root",), "key_refused", "does not let user watch in"),
    "no keys at all": (("PubkeyAuthentication no", "PasswordAuthentication yes"), "key_refused", "does not let"),
    "keys or passwords": (("PasswordAuthentication yes",), "ok", ""),
    "a key and a password": (
        ("PasswordAuthentication yes", "AuthenticationMethods publickey,password"),
        "key_refused",
        "accepts our key for user watch, but does not let it in with the key alone",
    ),
    "two keys": (("AuthenticationMethods publickey,publickey",), "key_refused", "accepts our key"),
    "no list of keys": (("AuthorizedKeysFile none",), "key_refused", "does not let"),
    "a list of keys that is not there": (("AuthorizedKeysFile /nowhere",), "key_refused", "does not let"),
    "keys of another kind": (("PubkeyAcceptedAlgorithms rsa-sha2-512",), "key_refused", "does not let"),
    "no sessions": (("MaxSessions 0",), "command_failed", "opened no session"),
    "one session at a time": (("MaxSessions 1",), "ok", ""),
    "a forced program that ends": (("ForceCommand /bin/false",), "command_failed", "the reader did not run"),
    "a forced program that talks": (("ForceCommand echo go away",), "command_failed", "go away"),
    "sftp alone": (("ForceCommand internal-sftp",), "command_failed", "the reader did not run"),
    "no terminal": (("PermitTTY no",), "ok", ""),
    "no forwarding": (("DisableForwarding yes",), "ok", ""),
    "a banner": (("Banner /etc/passwd",), "ok", ""),
    "a root directory that is not there": (("ChrootDirectory /nowhere",), "truncated", "broke during `hello`"),
    "an unusual cipher": (("Ciphers aes256-ctr",), "ok", ""),
    "a message code of its own": (("MACs hmac-sha2-512",), "ok", ""),
    "keys renewed all the time": (("RekeyLimit 1K",), "ok", ""),
    "compression": (("Compression yes",), "ok", ""),
    "no compression": (("Compression no",), "ok", ""),
    "a login that is given no time": (("LoginGraceTime 1",), "ok", ""),
    "an end of idle sessions": (("ClientAliveInterval 1", "ClientAliveCountMax 1"), "ok", ""),
    "a rule for this address": (("Match Address 127.0.0.1", "  DenyUsers watch"), "key_refused", "does not let"),
    "a rule for another address": (("Match Address 192.0.2.1", "  DenyUsers watch"), "ok", ""),
}


@pytest.mark.parametrize("case", SERVERS)
async def test_what_sshd_is_configured_to_do(tmp_path: Path, case: str) -> None:
    lines, reason, words = SERVERS[case]
    with real_host(tmp_path / "lab", *lines) as machine:
        observation = await seen(with_a_line(machine).settings())
    assert observation.reason == reason, told(observation)
    assert words in observation.summary


async def test_no_method_in_common_is_never_called_a_cut_connection(tmp_path: Path) -> None:
    with real_host(tmp_path / "lab", "Ciphers 3des-cbc", "MACs hmac-md5") as machine:
        observation = await seen(with_a_line(machine).settings())
    assert observation.reason == "not_ssh", told(observation)
    assert "no encryption method in common" in observation.summary


# What stands before our key in authorized_keys.

KEY_OPTIONS: dict[str, tuple[str, str, str]] = {
    "nothing": ("", "ok", ""),
    "restrict": ("restrict", "ok", ""),
    "other addresses": ('from="192.0.2.0/24"', "key_refused", "does not let"),
    "our address": ('from="127.0.0.1"', "ok", ""),
    "an end that is over": ('expiry-time="20200101"', "key_refused", "does not let"),
    "an end to come": ('expiry-time="20990101"', "ok", ""),
    "another program": ('command="uptime"', "command_failed", "the reader did not run"),
    "a program that waits": ('command="cat"', "command_failed", ""),
    "the installed reader": ('restrict,command="/run/lab/reader"', "config", "refused our request"),
    "no terminal": ("no-pty", "ok", ""),
    "a variable": ('environment="LANG=de_DE.UTF-8"', "ok", ""),
    "a word that means nothing": ("nonsense", "key_refused", "does not let"),
}


@pytest.mark.parametrize("case", KEY_OPTIONS)
async def test_what_stands_before_our_key(shared: RealHost, case: str) -> None:
    before, reason, words = KEY_OPTIONS[case]
    keys = shared.root / "lab" / "authorized_keys"
    usual = keys.read_text()
    keys.write_text(f"{before} {shared.key.with_suffix('.pub').read_text()}".lstrip())
    try:
        observation = await seen(shared.settings())
    finally:
        keys.write_text(usual)
    assert observation.reason == reason, told(observation)
    assert words in observation.summary


# What the user's start-up file does before the reader runs.

START_UPS: dict[str, tuple[str, str]] = {
    "greets": ("echo welcome", "ok"),
    "greets without a line end": ("printf welcome", "ok"),
    "complains": ("echo no such file >&2", "ok"),
    "prints much": ("seq 1 20000", "ok"),
    "ends well": ("exit 0", "command_failed"),
    "ends badly": ("exit 3", "command_failed"),
    "becomes another program": ("exec true", "command_failed"),
    "sets a language": ("export LC_ALL=de_DE.UTF-8 LANG=C", "ok"),
    "hides the programs": ("export PATH=/nowhere", "command_failed"),
    "makes names of its own": ("alias journalctl=false; alias date=false", "ok"),
    "prints a reader's header": ("echo INFERENCE-WATCHDOG-READER 1 boot=x", "corrupt"),
}


@pytest.mark.parametrize("case", START_UPS)
async def test_what_the_start_up_file_does(shared: RealHost, case: str) -> None:
    text, reason = START_UPS[case]
    file = shared.root / "lab" / "home" / ".bashrc"
    file.write_text(text + "\n")
    try:
        observation = await seen(shared.settings())
    finally:
        file.unlink()
    assert observation.reason == reason, told(observation)


# What known_hosts holds. `{key}` is the machine's own key, `{other}` another one.

KNOWN: dict[str, tuple[str, str]] = {
    "the key": ("[127.0.0.1]:{port} {key}", "ok"),
    "the key without a port": ("127.0.0.1 {key}", "ok"),
    "the key of several names": ("box,[127.0.0.1]:{port},[::1]:22 {key}", "ok"),
    "a pattern": ("[127.0.0.*]:{port} {key}", "ok"),
    "a pattern that excludes it": ("!127.0.0.1,* {other}", "host_key_unknown"),
    "the key with a comment": ("# mine\n[127.0.0.1]:{port} {key} root@box\n", "ok"),
    "the key behind empty lines": ("\n\n[127.0.0.1]:{port} {key}\n\n", "ok"),
    "lines that end as on Windows": ("[127.0.0.1]:{port} {key}\r\n", "ok"),
    "another key first": ("[127.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {key}", "ok"),
    "another key alone": ("[127.0.0.1]:{port} {other}", "host_key_changed"),
    "another key of another kind": ("[127.0.0.1]:{port} {rsa}", "host_key_changed"),
    "another machine": ("[192.0.2.1]:{port} {key}", "host_key_unknown"),
    "another port": ("[127.0.0.1]:1 {key}", "host_key_unknown"),
    "nothing": ("", "host_key_unknown"),
    "a comment alone": ("# nothing yet", "host_key_unknown"),
    "the key, revoked": ("@revoked [127.0.0.1]:{port} {key}", "host_key_changed"),
    "an authority that did not sign it": ("@cert-authority [127.0.0.1]:{port} {other}", "host_key_changed"),
}


@pytest.mark.parametrize("case", KNOWN)
async def test_what_known_hosts_holds(shared: RealHost, tmp_path: Path, case: str) -> None:
    text, reason = KNOWN[case]
    known = tmp_path / "known_hosts"
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    rsa = asyncssh.generate_private_key("ssh-rsa").export_public_key().decode().strip()
    own = " ".join(shared.host_key.with_suffix(".pub").read_text().split()[:2])
    known.write_bytes(text.format(port=shared.port, key=own, other=other, rsa=rsa).encode())
    observation = await seen(shared.settings(known_hosts=str(known)))
    assert observation.reason == reason, told(observation)


async def test_a_hashed_name_is_known(shared: RealHost, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_bytes(shared.known_hosts.read_bytes())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    assert (await seen(shared.settings(known_hosts=str(known)))).reason == "ok"


# What our key is.

OTHER_USERS = {"a user that is not there": "nobody-here", "a user without our journal": "plain"}


@dataclass(frozen=True)
class OwnKey:
    """One key of ours: how it is made at a path, what it opens with, what is said."""

    make: Callable[[RealHost, Path], object]
    reason: str
    words: str = ""
    passphrase: str = ""


def copied(attribute: str) -> Callable[[RealHost, Path], object]:
    return lambda machine, path: path.write_bytes(getattr(machine, attribute).read_bytes())


KEYS: dict[str, OwnKey] = {
    "the right one": OwnKey(copied("key"), "ok"),
    "another one": OwnKey(lambda _, path: make_key(path), "key_refused", "does not let"),
    "an encrypted one with its passphrase": OwnKey(copied("locked_key"), "ok", passphrase=PASSPHRASE),
    "an encrypted one without": OwnKey(copied("locked_key"), "config", "protected by a passphrase"),
    "an encrypted one with another": OwnKey(copied("locked_key"), "config", "does not open", passphrase="wrong"),
    "a plain one with a passphrase": OwnKey(copied("key"), "ok", passphrase="needless"),
    "no file": OwnKey(lambda *_: None, "config", "no such file"),
    "an empty file": OwnKey(lambda _, path: path.touch(), "config", "holds no private key"),
    "a folder": OwnKey(lambda _, path: path.mkdir(), "config", "is a directory"),
    "the public half": OwnKey(
        lambda machine, path: path.write_bytes(machine.key.with_suffix(".pub").read_bytes()), "config", "no private key"
    ),
    "half of it": OwnKey(
        lambda machine, path: path.write_bytes(machine.key.read_bytes()[:200]), "config", "no private key"
    ),
    "text": OwnKey(lambda _, path: path.write_text("hello\n"), "config", "no private key"),
}


@pytest.mark.parametrize("case", KEYS)
async def test_what_our_key_is(shared: RealHost, tmp_path: Path, case: str) -> None:
    own = KEYS[case]
    own.make(shared, tmp_path / "id")
    passphrase = Secret(own.passphrase) if own.passphrase else None
    observation = await seen(shared.settings(identity_file=str(tmp_path / "id"), passphrase=passphrase))
    assert observation.reason == own.reason, told(observation)
    assert own.words in observation.summary


@pytest.mark.parametrize("user", ["nobody-here", "plain", "owner"])
async def test_who_logs_in(shared: RealHost, user: str) -> None:
    observation = await seen(shared.settings(user=user))
    assert observation.reason == ("key_refused" if user == "nobody-here" else "no_permission"), told(observation)


# Keys of an agent.


@contextmanager
def agent(root: Path, *keys: Path) -> Iterator[str]:
    """An ssh-agent that holds `keys`, in that order; its socket."""
    socket = root / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            os.sched_yield()
        environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", *map(str, keys)], check=True, env=environment)
        yield str(socket)
    finally:
        process.terminate()
        process.wait(timeout=10)


async def test_a_named_key_is_offered_before_those_of_the_agent(
    shared: RealHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers = [make_key(tmp_path / f"id{number}") for number in range(7)]
    with agent(tmp_path, *strangers) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert (await seen(shared.settings(agent=True))).reason == "ok"
        observation = await seen(shared.settings(agent=True, identity_file=None))
    assert observation.reason == "key_refused"
    assert "too many authentication failures" in observation.summary
    assert "Name one key" in observation.advice


async def test_a_key_of_the_agent_serves_where_the_named_one_is_refused(
    shared: RealHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = make_key(tmp_path / "stranger")
    with agent(tmp_path, shared.key) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert (await seen(shared.settings(agent=True, identity_file=str(stranger)))).reason == "ok"
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
        assert (await seen(shared.settings(agent=True, identity_file=str(stranger)))).reason == "key_refused"


async def test_a_certificate_beside_the_key_lets_it_in(tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    option = f"TrustedUserCAKeys {authority.with_suffix('.pub')}"
    with real_host(tmp_path / "lab", option) as machine:
        key = make_key(tmp_path / "signed")
        assert (await seen(with_a_line(machine).settings(identity_file=str(key)))).reason == "key_refused"
        sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "watch", "-n", "watch", str(key.with_suffix(".pub"))]
        await asyncio.to_thread(subprocess.run, sign, check=True, capture_output=True)
        assert (await seen(machine.settings(identity_file=str(key)))).reason == "ok"
