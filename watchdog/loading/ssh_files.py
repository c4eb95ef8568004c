"""What can be said of SSH files by their text alone: importing an SSH library here would slow every start.

Forms: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"; OpenSSH's PROTOCOL.key; RFC 1421 (`Proc-Type`) and RFC 5958.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from fnmatch import fnmatchcase

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
