"""The host key a machine offers, taken without logging in, for a person to compare; and what is known of it already."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from watchdog.config import HostSettings
from watchdog.reasons import HostReason
from watchdog.ssh.addresses import DEFAULT_PORT, connect_first, target
from watchdog.ssh.errors import (
    ConnectionProgress,
    HostError,
    error_from_exception,
    host_key_error,
    no_method_error,
    timeout_error,
)

if TYPE_CHECKING:
    import asyncssh


RECHECK_S = 5.0


class KeyStatus(StrEnum):
    """What a known_hosts file says about an offered key."""

    KNOWN = "known"
    NEW = "new"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class HostKey:
    """One host key: `openssh` as in a .pub file, `fingerprint` like `SHA256:…`, `bits` and `kind` as ssh-keygen has."""

    openssh: str
    fingerprint: str
    bits: int
    kind: str

    def line(self, host: HostSettings) -> str:
        """The line for known_hosts."""
        return f"{known_hosts_pattern(host)} {self.openssh}"

    def __str__(self) -> str:
        """Bits, fingerprint and kind, as `ssh-keygen -l` prints them."""
        return f"{self.bits} {self.fingerprint} ({self.kind})"


def known_hosts_pattern(host: HostSettings) -> str:
    """How known_hosts names `host`: the address, with its port where that is not 22 (sshd(8))."""
    return host.address if host.port == DEFAULT_PORT else f"[{host.address}]:{host.port}"


async def scan_host_key(host: HostSettings, timeout_s: float, known_hosts: bytes = b"") -> HostKey:
    """The key that `host` offers, of a kind that `known_hosts` already holds for it, if it offers one.

    One connection that ends before any login: sshd counts connections without a login against us (sshd_config(5),
    PerSourcePenalties). Raises HostError for a machine that gives no key.
    """
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    progress = ConnectionProgress()
    taken: list[asyncssh.SSHKey] = []

    class Taker(asyncssh.SSHClient):
        """Takes the key and trusts nothing."""

        def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
            progress.note_connected(conn)

        def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
            taken.append(key)
            return False

    kinds = [key.get_algorithm() for key in known_keys(host, known_hosts)]
    given = {"server_host_key_algs": [*dict.fromkeys(_signatures(kind) for kind in kinds)]} if kinds else {}
    try:
        async with asyncio.timeout(timeout_s):
            where = target(host)
            connection = await asyncssh.connect(
                where.address,
                where.port,
                sock=await connect_first(where.address, where.port) if where.direct else None,
                client_factory=Taker,
                username=host.user,
                known_hosts=b"",
                client_keys=None,
                agent_path=None,
                config=None,
                connect_timeout=None,
                login_timeout=0,
                **given,
            )
    except TimeoutError:
        raise timeout_error(host, progress, timeout_s) from None
    except (OSError, asyncssh.Error) as error:
        if isinstance(error, asyncssh.KeyExchangeFailed) and kinds:
            return await scan_host_key(host, timeout_s)  # it has none of the kinds we know: take whatever it offers
        if not taken:
            raise error_from_exception(host, error, progress) from None
    else:
        connection.abort()
    if not taken:
        raise HostError(HostReason.NOT_SSH, f"{known_hosts_pattern(host)} showed no host key", "Check `port`.")
    return host_key_of(taken[0])


async def why_closed(
    host: HostSettings, progress: ConnectionProgress, told: HostError, known_hosts: bytes
) -> HostError:
    """Why a host closed the connection right after the SSH versions, `told` if it stays unclear.

    sshd does so without a word when it has no host key of the kind that known_hosts holds, or shares no encryption
    method with us; so the key it offers to those who ask for any kind is looked at, on one more connection, or a few: a
    busy machine's reset may overtake its greeting.
    """
    for attempt in range(_RECHECKS):
        await asyncio.sleep(attempt * _BETWEEN_RECHECKS_S)
        try:
            offered = await scan_host_key(host, RECHECK_S)
        except HostError as error:
            if error.reason is told.reason and error.stage is told.stage:
                return no_method_error(host)
            continue
        if key_status(host, offered, known_hosts) is KeyStatus.KNOWN:
            return told
        progress.offered_key = f"{offered.openssh.split()[0]} {offered.fingerprint}"
        return host_key_error(host, progress)
    return told


_RECHECKS = 4
_BETWEEN_RECHECKS_S = 0.2


def _signatures(kind: str) -> str:
    return "rsa-sha2-512" if kind == "ssh-rsa" else kind


def host_key_of(key: asyncssh.SSHKey) -> HostKey:
    """`key` in the words of OpenSSH's own tools."""
    words = key.export_public_key().decode().split()
    algorithm = key.get_algorithm()
    kind = "ECDSA" if "ecdsa" in algorithm else algorithm.removeprefix("ssh-").partition("@")[0].upper()
    bits = int(getattr(key.pyca_key, "key_size", 256))  # Ed25519 keys know no size: they all have 256 bits
    return HostKey(" ".join(words[:2]), key.get_fingerprint(), bits, kind)


def note_known_keys(host: HostSettings, known_hosts: bytes, progress: ConnectionProgress) -> None:
    """Note on `progress` what `known_hosts` holds for `host`. Raises HostError for a malformed file."""
    keys, authorities, revoked = _matching(host, known_hosts)
    progress.known_keys = len(keys) + len(authorities)
    progress.revoked = frozenset(f"{key.get_algorithm()} {key.get_fingerprint()}" for key in revoked)


def _matching(host: HostSettings, known_hosts: bytes) -> tuple[list[asyncssh.SSHKey], ...]:
    """The host keys, the certificate authorities and the revoked keys that `known_hosts` names for `host`.

    Raises HostError with reason `config` for a malformed file.
    """
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    where = target(host)
    try:
        port = None if where.port == DEFAULT_PORT else where.port
        keys, authorities, revoked, *_ = asyncssh.match_known_hosts(known_hosts, where.key_name, "", port)
        if not keys and not authorities and port is not None:  # asyncssh then forgets what is revoked under the port
            revoked = asyncssh.match_known_hosts(known_hosts, f"[{where.key_name}]:{port}", "", None)[2]
    except ValueError as error:
        raise HostError(
            HostReason.CONFIG, f"the known_hosts file {host.known_hosts} is malformed: {error}", "Correct that line."
        ) from None
    return list(keys), list(authorities), list(revoked)


def known_keys(host: HostSettings, known_hosts: bytes) -> list[asyncssh.SSHKey]:
    """The host keys that `known_hosts` trusts for `host`. Raises HostError for a malformed file."""
    return _matching(host, known_hosts)[0]


def key_status(host: HostSettings, offered: HostKey, known_hosts: bytes) -> KeyStatus:
    """Whether `known_hosts` trusts `offered` for `host`, holds another key for it, or none."""
    known = [host_key_of(key).openssh for key in known_keys(host, known_hosts)]
    if offered.openssh in known:
        return KeyStatus.KNOWN
    return KeyStatus.CHANGED if known else KeyStatus.NEW
