"""Checks of hosts: an address that cannot be mistaken for an option, one login method, keys that can be used."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from watchdog.config import Secret
from watchdog.loading.problems import Problems, Record
from watchdog.loading.references import read_setting
from watchdog.loading.server_checks import check_schedule

# SSH files are examined by their text alone: importing an SSH library here would slow down every start.

_OPENSSH = re.compile(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"
_LINE = re.compile(
    r"(?:@(?P<marker>cert-authority|revoked)\s+)?(?P<hosts>\S+)\s+(?:ssh-|ecdsa-|sk-|x509v3-)\S+\s+[A-Za-z0-9+/]{8,}=*(?:\s|$)"
)


def is_encrypted(key: bytes) -> bool:
    """Whether a private key in PEM or OpenSSH form needs a passphrase."""
    if b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in key or b"Proc-Type: 4,ENCRYPTED" in key:
        return True
    found = _OPENSSH.search(key)
    try:
        body = base64.b64decode(b"".join(found[1].split())) if found else b""
    except (binascii.Error, ValueError):
        return False
    if not body.startswith(_MAGIC):
        return False
    length = int.from_bytes(body[len(_MAGIC) : len(_MAGIC) + 4], "big")
    return body[len(_MAGIC) + 4 : len(_MAGIC) + 4 + length] != b"none"


def host_patterns(known_hosts: bytes) -> tuple[str, ...]:
    """The host patterns of every line that holds a key to trust; none for a file that holds no such line."""
    found: list[str] = []
    for line in known_hosts.decode("utf-8", "replace").splitlines():
        parts = _LINE.match(line.strip())
        if parts and not line.lstrip().startswith("#") and parts["marker"] != "revoked":
            found += parts["hosts"].lower().split(",")
    return tuple(found)


def may_mean(patterns: tuple[str, ...], address: str, port: int) -> bool:
    """Whether one of `patterns` can stand for `address`. A hashed one can; so can an IP address for a name."""
    wanted = (address.lower(), f"[{address.lower()}]:{port}")
    named = not _is_ip(address)
    for pattern in patterns:
        if pattern.startswith("|") or any(fnmatchcase(one, pattern.replace("[", "[[]")) for one in wanted):
            return True
        if named and _is_ip(pattern.partition("]")[0].lstrip("[")):
            return True
    return False


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
USER = re.compile(r"[^\s\-@:/][^\s:/]{0,63}")
ADDRESS_WITH_PORT = re.compile(r"(.+):([0-9]{1,5})")
Opens = Callable[[bytes, Secret], bool]
"""Whether a passphrase opens an encrypted private key; takes an SSH library and half a second."""
LOGIN_METHODS = ("identity_file", "identity", "agent", "ssh_config")
KEY_BEGINNING = re.compile(rb"\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
PUBLIC_KEY = re.compile(rb"\s*(?:ssh-|ecdsa-|sk-)[a-z0-9@.-]+ ")


def check_hosts(root: Record, problems: Problems, opens: Opens | None = None) -> None:
    """Everything about each host alone. `opens` tries a passphrase; None leaves that to the first connection."""
    jumps = {host.get("name"): host.get("jump") for host in root.sections("hosts") if host.get("name")}
    for host in root.sections("hosts"):
        _check_address(host, problems)
        user = host.get("user")
        if user is not None and USER.fullmatch(user) is None:
            problems.error(
                host.at("user"), f"{host.quoted('user', user)} is not a valid user name", "it takes no spaces, : or /"
            )
        _check_jump(host, jumps, problems)
        _check_login(host, problems, opens)
        _check_known_hosts(host, problems)
        check_schedule(host.section("kernel_log"), "a hanging host is read", problems)
        check_schedule(host.section("vitals"), "a hanging host is examined", problems)


def is_host(text: str) -> bool:
    """Whether `text` is an IP address or a host name, and cannot be taken for an option of a command."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return len(text) <= 253 and HOST.fullmatch(text) is not None
    return True


def _check_address(host: Record, problems: Problems) -> None:
    address = host.get("address")
    if address is None or is_host(address):
        return
    place, hint = host.at("address"), "write an IP address or a host name, like 192.0.2.10"
    quoted = host.quoted("address", address)
    if address.startswith("-"):
        problems.error(place, f"{quoted} starts with a dash, so a command could mistake it for an option", hint)
        return
    with_port = ADDRESS_WITH_PORT.fullmatch(address)
    if with_port and is_host(with_port[1].strip("[]")):
        hint = f"write address: {with_port[1].strip('[]')} and port: {with_port[2]}"
    elif "@" in address and is_host(address.rpartition("@")[2]):
        hint = "put the user in `user`"
    elif address.startswith("[") and is_host(address.strip("[]")):
        hint = f"did you mean {address.strip('[]')}?"
    problems.error(place, f"{quoted} is not a valid address", host.hint("address", hint))


def _check_jump(host: Record, jumps: Mapping[str, str | None], problems: Problems) -> None:
    """`jump` is another host of this file, or [user@]address[:port]; only one hop is ever made."""
    jump = host.get("jump")
    if jump is None:
        return
    place, quoted = host.at("jump"), host.quoted("jump", jump)
    if jump == host.get("name"):
        problems.error(place, "uses itself as jump host", "name another host")
    elif jump in jumps:
        if jumps[jump] is not None:
            problems.error(
                place,
                f"{quoted} uses a jump host itself, and only one hop is supported",
                "name a host that is reached directly",
            )
    elif not _is_hop(jump):
        hint = problems.suggest(jump, jumps) or "write host, user@host or user@host:port"
        problems.error(place, f"{quoted} is not a valid jump host", host.hint("jump", hint))


def _is_hop(text: str) -> bool:
    user, at, rest = text.rpartition("@")
    if at and USER.fullmatch(user) is None:
        return False
    with_port = ADDRESS_WITH_PORT.fullmatch(rest)
    if is_host(rest) or with_port is None:
        return is_host(rest.strip("[]"))
    return is_host(with_port[1].strip("[]")) and 0 < int(with_port[2]) < 65536


def _check_login(host: Record, problems: Problems, opens: Opens | None) -> None:
    data = read_setting(host.get("identity_file"), host.at("identity_file"), problems, private=True)
    if data is not None:
        fault = _not_a_private_key(data) or _missing_passphrase(data, host)
        if fault:
            problems.error(host.at("identity_file"), *fault)
        elif host.given("passphrase"):
            _check_passphrase(data, host, problems, opens)
    identity = host.get("identity")
    if identity is not None:
        key = identity.reveal().encode()
        if KEY_BEGINNING.match(key) is None:
            problems.error(
                host.at("identity"),
                "is not a private key",
                "give ${credential:NAME} or ${file:/path}, or use identity_file",
            )
        elif _missing_passphrase(key, host):
            problems.error(host.at("identity"), *_missing_passphrase(key, host))
        elif host.given("passphrase"):
            _check_passphrase(key, host, problems, opens)
    _check_login_methods(host, problems)


def _missing_passphrase(key: bytes, host: Record) -> tuple[str, str] | tuple[()]:
    if host.given("passphrase") or not is_encrypted(key):
        return ()
    hint = "give passphrase: ${credential:NAME} or ${file:/path}, or take it off a copy with: ssh-keygen -p"
    return "is encrypted, and no passphrase is given", hint


def _check_passphrase(key: bytes, host: Record, problems: Problems, opens: Opens | None) -> None:
    passphrase = host.get("passphrase")
    if opens is not None and isinstance(passphrase, Secret) and is_encrypted(key) and not opens(key, passphrase):
        problems.error(host.at("passphrase"), "does not decrypt the key", "correct it")


def _check_login_methods(host: Record, problems: Problems) -> None:
    ways = [way for way in LOGIN_METHODS if host.given(way) and host.get(way) is not False]
    if "identity_file" in ways and "identity" in ways:
        problems.error(host.at("identity"), "identity_file is set too", "remove one of the two")
    if not ways:
        problems.error(
            host.place, "has no login method", "give identity_file, identity, agent: true or ssh_config: true"
        )
    if host.given("passphrase") and not host.given("identity_file") and not host.given("identity"):
        problems.error(host.at("passphrase"), "there is no key for it to decrypt", "give identity_file, or remove it")


def _not_a_private_key(data: bytes) -> tuple[str, str] | None:
    if KEY_BEGINNING.match(data):
        return None
    if PUBLIC_KEY.match(data):
        return "is the public half of the key", "name the file without .pub"
    return "is not a private key in OpenSSH or PEM format", "make one with: ssh-keygen -t ed25519"


def _check_known_hosts(host: Record, problems: Problems) -> None:
    data = read_setting(host.get("known_hosts"), host.at("known_hosts"), problems)
    if data is None:
        return
    patterns, address, port = host_patterns(data), host.get("address"), host.get("port") or 22
    usable = address is not None and is_host(address)
    hint = f"fill it with: ssh-keyscan -p {port} {address}" if usable else ""
    if not any(line.strip() and not line.startswith(b"#") for line in data.splitlines()):
        problem = "contains no host key, so no connection will be trusted"
    elif not patterns:
        problem = "has no line in known_hosts format (host, type, key), so no connection will be trusted"
    elif usable and host.get("ssh_config") is not True and not may_mean(patterns, address, port):
        problem = f"contains no key of {host.quoted('address', address)}, so connections to it will not be trusted"
    else:
        return
    problems.warn(host.at("known_hosts"), problem, hint)
