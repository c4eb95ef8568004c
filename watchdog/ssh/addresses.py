"""Where a host is reached: what ~/.ssh/config makes of it, and its addresses raced: a dead one hides no living host."""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import socket
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from watchdog.config import HostSettings, split_jump
from watchdog.reasons import HostReason
from watchdog.ssh.errors import HostError

if TYPE_CHECKING:
    from asyncssh.config import SSHClientConfig

DEFAULT_PORT = 22


@dataclass(frozen=True, slots=True)
class Target:
    """Where a connection goes. `key_name` is what known_hosts calls it; `proxy` is its ProxyJump, "" for none.

    `direct`: an ordinary TCP connection, with no proxy and no wish for an address family or an address of our own.
    """

    address: str
    port: int
    key_name: str
    proxy: str = ""
    direct: bool = True


def target(host: HostSettings) -> Target:
    """Where `host` is reached. Raises HostError with reason `config` for a file that cannot be used."""
    if not host.ssh_config or not _path().is_file():
        return Target(host.address, host.port, host.address)
    port = host.port if host.port != DEFAULT_PORT else ()
    found = _load(host.address, host.user, port)
    address = str(found.get("Hostname", host.address))
    given = int(str(found.get("Port", DEFAULT_PORT))) if port == () else host.port
    proxy = str(found.get("ProxyJump", "") or "")
    alias = str(found.get("HostKeyAlias", "") or "")
    proxy = "" if proxy.lower() == "none" else proxy
    special = proxy or any(found.get(name, None) for name in ("ProxyCommand", "AddressFamily", "BindAddress"))
    return Target(address, given, alias or address, proxy, direct=not special)


def proxy_jump(host: HostSettings) -> HostSettings | None:
    """The one machine that ~/.ssh/config goes through, to be logged in to as that file says; None for none or several.

    Its key, its user and its known_hosts are the user's own, as `ssh` would take them.
    """
    proxy = target(host).proxy
    if not proxy or "," in proxy or host.jump:
        return None
    user, address, port = split_jump(proxy)
    found = _load(address, user or (), port if port != DEFAULT_PORT else ())
    files = found.get("UserKnownHostsFile", None) or ["~/.ssh/known_hosts"]
    known = str(
        next((name for name in cast("list[str]", files) if Path(name).expanduser().is_file()), host.known_hosts)
    )
    return replace(
        host,
        name=f"{host.name}'s jump host",
        address=address,
        port=port,
        user=user or str(found.get("User", getpass.getuser())),
        jump=None,
        identity_file=None,
        identity=None,
        passphrase=None,
        agent=bool(os.environ.get("SSH_AUTH_SOCK")),
        known_hosts=known,
    )


def _load(address: str, user: object, port: object) -> SSHClientConfig:
    from asyncssh.config import SSHClientConfig  # noqa: PLC0415 - paid only by those who connect

    try:
        return cast(
            "SSHClientConfig",
            SSHClientConfig.load(None, str(_path()), False, False, False, getpass.getuser(), user, address, port),
        )
    except (OSError, ValueError) as error:
        raise unusable_error(error) from None


def _path() -> Path:
    return Path("~/.ssh/config").expanduser()


def unusable_error(error: OSError | ValueError) -> HostError:
    """~/.ssh/config, or a key or certificate that it names, cannot be used."""
    if isinstance(error, OSError):
        what = f"{error.filename} cannot be read: {(error.strerror or 'error').lower()}"
    else:
        what = f"~/.ssh/config or a key that it names cannot be used: {error}"
    return HostError(HostReason.CONFIG, what, "Correct ~/.ssh/config, or the file that it names (IdentityFile).")


# A TCP connection to whichever address of a name answers first, so that one dead address hides no living host.

BETWEEN_S = 0.25
"""An address gets this head start over the next one (RFC 8305)."""
_TELLING = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH)
"""Where every address failed, the error that says most about the host comes first."""
Address = tuple[socket.AddressFamily, Any]


async def connect_first(name: str, port: int) -> socket.socket:
    """A connected, non-blocking socket. Raises OSError once every address has failed; has no deadline of its own."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    left = alternate([(family, address) for family, _, _, _, address in found])
    trying: set[asyncio.Task[socket.socket]] = set()
    errors: list[OSError] = []
    try:
        while left or trying:
            if left:
                trying.add(asyncio.create_task(_connect(*left.pop(0))))
            done, trying = await asyncio.wait(
                trying, timeout=BETWEEN_S if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            if good := [task for task in done if task.exception() is None]:
                for late in good[1:]:
                    late.result().close()
                return good[0].result()
            errors += [error for task in done if isinstance(error := task.exception(), OSError)]
    finally:
        for task in trying:
            task.cancel()
        for end in await asyncio.gather(*trying, return_exceptions=True):
            if isinstance(end, socket.socket):
                end.close()
    raise min(errors, key=_rank)


def alternate(addresses: list[Address]) -> list[Address]:
    """The addresses in their order, families in turn, so that a whole family that is dead costs one head start."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for address in chain.from_iterable(zip_longest(first, other)) if address is not None]


def _rank(error: OSError) -> int:
    return _TELLING.index(error.errno) if error.errno in _TELLING else len(_TELLING)


async def _connect(family: socket.AddressFamily, address: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting
