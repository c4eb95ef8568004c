"""Reading the configuration and the files that it names: regular ones only, of bounded size, closed to others."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from watchdog.loading.records import Place, Problems, SettingError, shown

MAX_BYTES = 8 * 1024 * 1024


def read_setting(path: str | None, place: Place, problems: Problems, *, private: bool = False) -> bytes | None:
    """The bytes of the file that the setting at `place` names; None when not given, or after noting a problem."""
    if path is None:
        return None
    try:
        return read_regular(Path(path), MAX_BYTES, private=private)[0]
    except SettingError as found:
        problems.note(place, found)
    return None


def named(path: Path) -> str:
    """The path for a message; longer than other texts, as the end of a path matters most."""
    return shown(str(path), 400)


def too_open(status: os.stat_result, path: Path) -> SettingError | None:
    """Why the file behind `status` may not hold a secret, or None: others may not read it, nor our own group.

    The group may read files of another owner: that is how root hands a secret to a service's group (sshd's rule too).
    """
    others, group = status.st_mode & stat.S_IRWXO, status.st_mode & stat.S_IRWXG
    if others or (group and status.st_uid == os.geteuid()):
        mode, who = stat.S_IMODE(status.st_mode), "everyone on this machine" if others else "its whole group"
        return SettingError(
            f"file {named(path)} contains a secret and is readable by {who} (mode {mode:04o})", chmod(path)
        )
    return None


def chmod(path: Path) -> str:
    """The command that closes `path` to everybody but its owner."""
    return f"run: chmod 600 {shlex.quote(str(path)) if str(path).isprintable() else named(path)}"


def read_regular(path: Path, limit: int, *, private: bool = False) -> tuple[bytes, int]:
    """The bytes and the mode of a regular file of at most `limit` bytes; never waits on a pipe or a device.

    Raises SettingError with plain words when it cannot be read, or is open to others and `private` asks that it is
    not. Its text holds the path and nothing of the content.
    """
    name = named(path)
    fault: SettingError | None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            fault = _unfit(status, name, limit) or (too_open(status, path) if private else None)
            if fault is None:
                with os.fdopen(descriptor, "rb", closefd=False) as opened:
                    return opened.read(limit), status.st_mode
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        fault = unreadable(name, error)
    raise fault


def unreadable(name: str, error: OSError | ValueError) -> SettingError:
    """The words for a file that could not be opened."""
    if isinstance(error, FileNotFoundError):
        return SettingError(f"file {name} does not exist", "check the path")
    if isinstance(error, PermissionError):
        return SettingError(
            f"file {name} cannot be read by this user", "check owner and mode of the file and its folders"
        )
    return SettingError(f"file {name} cannot be read: {getattr(error, 'strerror', None) or 'not a usable path'}")


def _unfit(status: os.stat_result, name: str, limit: int) -> SettingError | None:
    if stat.S_ISDIR(status.st_mode):
        return SettingError(f"{name} is a directory, not a file", "name the file in it")
    if not stat.S_ISREG(status.st_mode):
        return SettingError(f"{name} is not a regular file")
    if status.st_size > limit:
        return SettingError(f"file {name} is larger than {limit // 1024} KiB")
    return None
