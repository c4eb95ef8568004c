"""What we log in with: known host keys and our own key, read at every connection, so that a change needs no restart."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.config import HostSettings, Secret
from watchdog.reasons import HostReason
from watchdog.ssh.addresses import DEFAULT_PORT
from watchdog.ssh.errors import ConnectionProgress, HostError
from watchdog.ssh.host_key import note_known_keys

if TYPE_CHECKING:
    import asyncssh

CHEAPEST_FIRST = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Ciphers asked for first, all others after them: a packet costs a sixth of what it does with chacha20, which
asyncssh puts first, and an idle stream is nothing but keepalives (python -m benchmarks.idle).
"""


def options(host: HostSettings, progress: ConnectionProgress) -> dict[str, Any]:
    """The arguments of `asyncssh.connect` for `host`. Reads files and may take half a second for an encrypted key.

    Raises HostError with reason `config` for a file or a key that cannot be used.
    """
    known_hosts = _known_hosts(host)
    note_known_keys(host, known_hosts, progress)
    given: dict[str, Any] = {
        "username": host.user,
        "known_hosts": known_hosts,
        "agent_forwarding": False,
        "password_auth": False,
        "kbdint_auth": False,
        "gss_auth": False,
        "host_based_auth": False,
        "compression_algs": ["none"],
        # One deadline around everything rules; these must only never be shorter than it.
        "connect_timeout": None,
        "login_timeout": 0,
    }
    if not host.ssh_config:
        given["config"] = None
        given["encryption_algs"] = CHEAPEST_FIRST
    if not host.ssh_config or host.port != DEFAULT_PORT:  # what is given here wins over ssh_config
        given["port"] = host.port
    if not host.agent or _has_own_key(host):  # asyncssh would offer the agent's keys first: see `AgentKeys`
        given["agent_path"] = None
    if host.agent and not os.environ.get("SSH_AUTH_SOCK"):
        raise HostError(
            HostReason.CONFIG,
            "`agent: true`, but this process has no SSH agent (SSH_AUTH_SOCK is not set)",
            "A service has none: use `identity_file` with a key of its own.",
        )
    keys = _client_keys(host)
    if keys or not host.ssh_config:
        certificate = _certificate(host)
        given["client_keys"] = [(key, certificate) for key in keys if certificate is not None] + keys
    if not keys and not host.agent and not host.ssh_config:
        raise HostError(
            HostReason.CONFIG,
            f"host {host.name} has no key to log in with",
            "Set `identity_file`, `identity` or `agent`.",
        )
    return given


def noting(pair: asyncssh.SSHKeyPair, progress: ConnectionProgress) -> asyncssh.SSHKeyPair:
    """`pair`, which notes that it was asked to sign: the host knows the key, and what fails then is something else."""
    sign = pair.sign

    def noted(data: bytes) -> bytes:
        progress.key_taken = True
        return sign(data)

    pair.sign = noted  # type: ignore[method-assign] # asyncssh tells nobody that a key was taken
    return pair


def _has_own_key(host: HostSettings) -> bool:
    return host.identity is not None or host.identity_file is not None


class AgentKeys:
    """The agent's keys for a host that has a key of its own: that one is offered before them.

    sshd ends the login after some refused keys (MaxAuthTries), so the named one must not come last.
    """

    def __init__(self, host: HostSettings) -> None:
        self._wanted = host.agent and _has_own_key(host)
        self._agent: asyncssh.SSHAgentClient | None = None

    async def take(self) -> list[asyncssh.SSHKeyPair]:
        """All of them, the first time."""
        import asyncssh  # noqa: PLC0415 - paid only by those who connect

        if not self._wanted:
            return []
        self._wanted = False
        with suppress(OSError, asyncssh.Error, ValueError):  # no agent, no keys: what was refused stays refused
            self._agent = await asyncssh.connect_agent(os.environ["SSH_AUTH_SOCK"])
            return list(await self._agent.get_keys())
        return []

    def close(self) -> None:
        """Let the agent go."""
        if self._agent is not None:
            self._agent.close()


def _known_hosts(host: HostSettings) -> bytes:
    path = Path(host.known_hosts).expanduser()
    try:
        return path.read_bytes()
    except OSError as error:
        raise HostError(
            HostReason.CONFIG,
            f"the known_hosts file {host.known_hosts} cannot be read: {(error.strerror or 'error').lower()}",
            f"Create it: `ssh-keyscan -p {host.port} {host.address} > {host.known_hosts}`, and compare it.",
        ) from None


def _client_keys(host: HostSettings) -> list[asyncssh.SSHKey]:
    """Our private key, decrypted; empty when the host is reached through an agent or the user's ssh_config."""
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    passphrase = host.passphrase.reveal() if host.passphrase else None
    name = host.identity_file or "`identity`"
    try:
        if host.identity is not None:
            return [asyncssh.import_private_key(host.identity.reveal(), passphrase)]
        if host.identity_file is not None:
            return [asyncssh.import_private_key(Path(host.identity_file).expanduser().read_bytes(), passphrase)]
    except OSError as error:
        raise HostError(
            HostReason.CONFIG,
            f"the key file {name} cannot be read: {(error.strerror or 'error').lower()}",
            "Check `identity_file` and its owner and permissions.",
        ) from None
    except asyncssh.KeyEncryptionError:
        raise HostError(
            HostReason.CONFIG, f"the passphrase does not open the key {name}", "Correct `passphrase`."
        ) from None
    except ValueError as error:  # KeyImportError; its text never holds key material
        locked = passphrase is None and "passphrase" in str(error).lower()
        problem = "is protected by a passphrase" if locked else "holds no private key that can be read"
        advice = "Set `passphrase`, or use a key without one." if locked else "Make one: `ssh-keygen -t ed25519`."
        raise HostError(HostReason.CONFIG, f"the key {name} {problem}", advice) from None
    return []


def _certificate(host: HostSettings) -> asyncssh.SSHCertificate | None:
    """The certificate beside `identity_file`, as ssh-keygen writes and ssh uses it; None if there is none."""
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    if host.identity_file is None:
        return None
    path = Path(f"{host.identity_file}-cert.pub").expanduser()
    try:
        return asyncssh.import_certificate(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise HostError(
            HostReason.CONFIG, f"the certificate {path} cannot be used", "Sign the key again, or remove this file."
        ) from None


# Our own SSH key: made new, or taken from a file; and the line that lets it in.

COMMENT = "inference-watchdog"
READER = "/usr/local/libexec/inference-watchdog-reader"
"""Where packaging/host/install.sh puts the reader."""


def new_private_key() -> str:
    """A new ed25519 key without a passphrase, in OpenSSH's form: a daemon has nobody to type one."""
    import asyncssh  # noqa: PLC0415 - paid only by those who make a key

    key = asyncssh.generate_private_key("ssh-ed25519", comment=COMMENT)
    return key.export_private_key().decode()


def public_line(path: Path, passphrase: Secret | None = None) -> str:
    """The public half of the private key in `path`, one line as in a .pub file, with our name as its comment.

    Raises HostError with reason `config` for a file that is no usable private key.
    """
    holder = HostSettings(
        name="own",
        address="localhost",
        user="own",
        identity_file=str(path),
        passphrase=passphrase,
        known_hosts="/dev/null",
    )
    (key,) = _client_keys(holder)
    return " ".join([*key.export_public_key().decode().split()[:2], COMMENT])


def opens(key: bytes, passphrase: Secret) -> bool:
    """Whether `passphrase` opens the private key. Takes about half a second for an encrypted one."""
    import asyncssh  # noqa: PLC0415 - paid only by those who have such a key

    try:
        asyncssh.import_private_key(key, passphrase.reveal())
    except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError):
        return False
    return True


def open_line(public: str) -> str:
    """The line for authorized_keys where nothing is installed on the host: no terminal, no forwarding."""
    return f"restrict {public}"


def bound_line(public: str) -> str:
    """The line for authorized_keys that binds the key to the installed reader."""
    return f'restrict,command="{READER}" {public}'
