"""Keys and known_hosts files that can never log in are told by their text alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import asyncssh
import pytest

from watchdog.errors import ConfigError
from watchdog.loading import Loaded, load
from watchdog.loading.host_checks import host_patterns, is_encrypted, may_mean
from watchdog.ssh.login import opens

KEY = asyncssh.generate_private_key("ssh-ed25519")
RSA = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
PUBLIC = KEY.export_public_key().decode().strip()
FORMS = ("openssh", "pkcs8-pem")


def loaded(tmp_path: Path, key: bytes, known_hosts: str, more: str = "") -> Loaded:
    """A configuration of one host, read with its key and its known_hosts."""
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "known_hosts").write_text(known_hosts)
    config = tmp_path / "config.yaml"
    config.write_text(
        "servers: [{name: a, base_url: 'http://127.0.0.1:9/v1'}]\n"
        "receivers: [{name: phone, url: 'json://127.0.0.1:9'}]\n"
        f"hosts: [{{name: head, address: 192.0.2.10, user: m, identity_file: key, known_hosts: known_hosts{more}}}]\n"
    )
    config.chmod(0o600)
    return load(config, check_urls=lambda urls: [None] * len(urls), opens=opens)


@pytest.mark.parametrize("form", FORMS)
def test_an_encrypted_key_is_known_by_its_text_and_a_plain_one_too(form: str) -> None:
    assert is_encrypted(RSA.export_private_key(form, passphrase="secret"))
    assert not is_encrypted(RSA.export_private_key(form))


def test_old_pem_with_a_passphrase_is_encrypted_and_garbage_is_not() -> None:
    assert is_encrypted(RSA.export_private_key("pkcs1-pem", passphrase="secret"))
    assert not is_encrypted(b"-----BEGIN OPENSSH PRIVATE KEY-----\n!!!\n-----END OPENSSH PRIVATE KEY-----\n")


def test_an_encrypted_key_without_a_passphrase_must_not_be_started_with(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config.yaml:3:\d+: hosts\[0\].identity_file: is encrypted"):
        loaded(tmp_path, KEY.export_private_key(passphrase="secret"), f"192.0.2.10 {PUBLIC}\n")


def test_a_wrong_passphrase_is_an_error_at_its_place_and_the_right_one_none(tmp_path: Path) -> None:
    key, known = KEY.export_private_key(passphrase="secret"), f"192.0.2.10 {PUBLIC}\n"
    (tmp_path / "word").write_text("wrong\n")
    (tmp_path / "word").chmod(0o600)
    with pytest.raises(ConfigError, match=r"hosts\[0\].passphrase: does not decrypt the key"):
        loaded(tmp_path, key, known, more=", passphrase: '${file:word}'")
    (tmp_path / "word").write_text("secret\n")
    assert loaded(tmp_path, key, known, more=", passphrase: '${file:word}'").warnings == ()


@pytest.mark.parametrize(
    ("known_hosts", "words"),
    [
        ("this is no known_hosts file\n", "has no line in known_hosts format"),
        (f"192.0.2.77 {PUBLIC}\n", "contains no key of '192.0.2.10'"),
        (f"@revoked 192.0.2.10 {PUBLIC}\n", "has no line in known_hosts format"),
        ("# only a comment\n", "contains no host key"),
        (f"192.0.2.10 {PUBLIC}\n", None),
        (f"a.example,192.0.2.10 {PUBLIC} comment\n", None),
        (f"[192.0.2.10]:22 {PUBLIC}\n", None),
        (f"192.0.2.* {PUBLIC}\n", None),
        (f"@cert-authority * {PUBLIC}\n", None),
        (f"|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|USECr3SWf1JUPsms5AqfD5QfxkM= {PUBLIC}\n", None),
    ],
    # A key is made anew in each process, and parallel runs compare the names of tests.
    ids=["no-form", "other", "revoked", "comment", "plain", "names", "port", "pattern", "authority", "hashed"],
)
def test_a_known_hosts_file_without_a_key_of_the_host_is_a_warning(
    tmp_path: Path, known_hosts: str, words: str | None
) -> None:
    found = [str(one) for one in loaded(tmp_path, KEY.export_private_key(), known_hosts).warnings]
    assert (found == []) if words is None else (len(found) == 1 and words in found[0]), found


def test_a_name_may_be_known_by_its_address() -> None:
    assert may_mean(host_patterns(f"192.0.2.10 {PUBLIC}".encode()), "head.example", 22)
    assert not may_mean(host_patterns(f"other.example {PUBLIC}".encode()), "head.example", 22)
    assert may_mean(host_patterns(f"[head.example]:2222 {PUBLIC}".encode()), "head.example", 2222)


def test_loading_a_host_needs_no_ssh_library(tmp_path: Path) -> None:
    loaded(tmp_path, KEY.export_private_key(), f"192.0.2.10 {PUBLIC}\n")
    program = (
        "import sys; from watchdog.loading import load; "
        "load(sys.argv[1], check_urls=lambda urls: [None] * len(urls)); print('asyncssh' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "False\n"
