"""Our own SSH key: made new, or taken from a file; and the line that lets it in."""

from __future__ import annotations

from pathlib import Path

from watchdog.config import HostSettings, Secret
from watchdog.ssh.failure import Stage
from watchdog.ssh.login import options

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
    (key,) = options(holder, Stage())["client_keys"]
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
