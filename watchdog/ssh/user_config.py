"""What the user's ~/.ssh/config makes of a host, where `ssh_config: true` lets it."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

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
