"""`${env:NAME}`, `${file:/path}` and `${credential:NAME}` in values. Messages name the source, never the value."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.loading.files import named, read_regular
from watchdog.loading.records import SettingError

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
