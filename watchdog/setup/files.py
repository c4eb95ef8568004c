"""Where an installation keeps its files. They are written atomically, with their mode, and never over others."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from watchdog.errors import WatchdogError

PRIVATE, PUBLIC = 0o600, 0o644


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one installation, all beside its configuration.

    `credentials`: secrets go to a folder from which systemd passes them to the service, whose account cannot read ours.
    """

    config: Path
    credentials: bool = False

    @property
    def folder(self) -> Path:
        return self.config.parent

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def key(self) -> Path:
        return (self.folder / "credentials" if self.credentials else self.folder) / "id_ed25519"

    def secret(self, name: str) -> tuple[Path, str]:
        """The file of the secret `name`, and how the configuration refers to it."""
        if self.credentials:
            return self.folder / "credentials" / name, f"${{credential:secret_{name}}}"
        return self.folder / name, f"${{file:{name}}}"


def write(path: Path, text: str, mode: int, *, replace: bool = False) -> None:
    """Write `text` to `path` with `mode`, atomically; a new folder is closed to others.

    Raises WatchdogError when the file exists and `replace` is false, or when it cannot be written.
    """
    _make_folder(path.parent)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), mode)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.replace(path)
            else:
                os.link(temporary, path)  # fails if it exists, also when it appeared just now
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise WatchdogError(f"{path} already exists and was not changed") from None
    except OSError as error:
        raise WatchdogError(f"{path} cannot be written: {(error.strerror or 'error').lower()}") from None


def append_line(path: Path, line: str) -> None:
    """Append one line to a file that others may read. Raises WatchdogError."""
    before = read(path)
    gap = "" if not before or before.endswith(b"\n") else "\n"
    _make_folder(path.parent)
    try:
        with path.open("a", encoding="utf-8") as file:
            if not before:
                os.fchmod(file.fileno(), PUBLIC)
            file.write(f"{gap}{line}\n")
    except OSError as error:
        raise WatchdogError(f"{path} cannot be written: {(error.strerror or 'error').lower()}") from None


def read(path: Path) -> bytes:
    """The bytes of `path`; none when it does not exist or cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _make_folder(folder: Path) -> None:
    """Create `folder`; a system-wide one stays open, as the service's account must read it. Raises WatchdogError."""
    if folder.is_dir():
        return
    open_to_all = folder.is_relative_to("/etc") and folder.name != "credentials"
    try:
        folder.mkdir(mode=0o755 if open_to_all else 0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WatchdogError(f"{folder} cannot be written: {(error.strerror or 'error').lower()}") from None
