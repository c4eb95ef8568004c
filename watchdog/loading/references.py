"""Files a configuration names, and `${env:…}`, `${file:…}`, `${credential:…}` in values; messages tell no value."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.loading.problems import Place, Problems, SettingError, shown

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


REFERENCE = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)(?P<end>\}?)")
"""`$${` is a literal `${`; anything else that starts with `${` is a reference and must be a good one."""

KINDS = {"env": "${env:NAME}", "file": "${file:/path}", "credential": "${credential:NAME}"}
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
CREDENTIAL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}")
MAX_SECRET_BYTES = 64 * 1024
LINE_BREAK_OR_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, repr=False)
class Expanded:
    """A text with its references filled in, or why some could not be.

    `is_literal`: it had none, so all of it stands in the file.
    """

    text: str
    is_literal: bool
    faults: tuple[SettingError, ...] = ()


@dataclass(frozen=True, slots=True)
class References:
    """Where references are looked up: the environment, and the folder of the configuration for relative paths."""

    environ: Mapping[str, str]
    folder: Path
    filled_in: set[str] = field(default_factory=set)
    """The values that were filled into secrets so far."""

    def expand(self, text: str, *, secret: bool, lines: bool = False) -> Expanded:
        """Fill in the references of `text`.

        In a setting that is not a secret only `${env:…}` is allowed, as its value may appear in logs.
        `lines` allows line breaks in the values (private keys).
        """
        parts: list[str] = []
        faults: list[SettingError] = []
        end, is_literal = 0, True
        for found in REFERENCE.finditer(text):
            parts.append(text[end : found.start()])
            end = found.end()
            if found["body"] is None:
                parts.append("${")
                continue
            is_literal = False
            try:
                value = self._value(found["body"], found["end"], secret=secret, lines=lines)
            except SettingError as fault:
                faults.append(fault.with_traceback(None))  # its frames hold the values
                continue
            parts.append(value)
            if secret:
                self.filled_in.add(value)
        parts.append(text[end:])
        return Expanded("".join(parts), is_literal, tuple(faults))

    def path(self, text: str) -> Path:
        """A file path as written in the configuration: `~` and paths relative to the configuration are filled in."""
        return self.folder / os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises where there is no home

    def _value(self, body: str, end: str, *, secret: bool, lines: bool) -> str:
        kind, colon, name = body.partition(":")
        if not end:
            raise SettingError("`${` without a closing `}`", "write $${ for a literal ${")
        if kind not in KINDS or not colon:
            hint = f"write {', '.join(KINDS.values())}, or $${{ for a literal ${{"
            raise SettingError("an unknown kind of reference", hint, typo=(kind, KINDS.keys()) if colon else None)
        if kind != "env" and not secret:
            raise SettingError(
                f"${{{kind}:…}} is for secrets, but this setting may appear in logs and alerts",
                "write the value itself, or ${env:NAME}",
            )
        read = {"env": self._environment, "file": self._file, "credential": self._credential}[kind]
        where, value = read(name)
        value = value.rstrip("\r\n")
        if not value.strip():
            raise SettingError(f"{where} is empty")
        if (CONTROL_BUT_LINES if lines else LINE_BREAK_OR_CONTROL).search(value):
            raise SettingError(f"{where} contains a line break or a control character", "a secret is one line of text")
        return value

    def _environment(self, name: str) -> tuple[str, str]:
        if ENV_NAME.fullmatch(name) is None:
            raise SettingError("${env:…} without a valid variable name", "write it like ${env:PHONE_URL}")
        where = f"environment variable {name}"
        value = self.environ.get(name)
        if value is None:
            hint = "set it, or use ${file:/path}"
            raise SettingError(f"{where} is not set", hint, typo=(name, self.environ.keys()))
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise SettingError(f"{where} is not valid UTF-8")
        return where, value

    def _file(self, name: str) -> tuple[str, str]:
        if not name.strip():
            raise SettingError("${file:…} without a path", "write it like ${file:/etc/inference-watchdog/phone.url}")
        path = self.path(name)
        return f"file {named(path)}", _secret_text(path, private=True)

    def _credential(self, name: str) -> tuple[str, str]:
        if CREDENTIAL_NAME.fullmatch(name) is None:
            raise SettingError("${credential:…} without a valid name", "write it like ${credential:phone_url}")
        folder = self.environ.get("CREDENTIALS_DIRECTORY")
        # Run by hand as root: the files that the unit hands over (see units/) are read themselves.
        source = self.folder / "credentials" / name.removeprefix("secret_")
        if not folder and os.path.lexists(source):
            return f"credential {name}", _secret_text(source, private=True)
        if not folder:
            raise SettingError(
                f"credential {name}: $CREDENTIALS_DIRECTORY is not set",
                f"systemd sets it with LoadCredential={name}:/path in the unit; elsewhere use ${{file:/path}}",
            )
        path = Path(folder) / name
        # systemd's own files: readable by the unit's user alone, whatever their mode bits say (they carry an ACL).
        return f"credential {name}", _secret_text(path, private=False)


def _secret_text(path: Path, *, private: bool) -> str:
    data, _ = read_regular(path, MAX_SECRET_BYTES, private=private)
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    raise SettingError(f"file {named(path)} is not UTF-8 text")
