"""One line of a kernel log, in any of the forms tools print it: its message, its time, and who wrote it.

Forms: bare messages; dmesg (`[ 12.3]`, `-T`, `-d`, `-x`, ISO times, callers `[   C0]`, `[ T1772]`, raw `<4>`);
journalctl short, short-iso, short-full, short-monotonic, short-unix, export; rsyslog files; `kernel:` alone; lines
prefixed with a host (`nodeA: [12.3]`); JSON of journalctl and of `dmesg -J`; records of /dev/kmsg.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from watchdog.kernlog.prefixes import strip_prefix


class Origin(StrEnum):
    """Who wrote a line. Only `USERSPACE` lines are never classified: programs quote the kernel's words."""

    KERNEL = "kernel"
    USERSPACE = "userspace"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One kernel message without its prefix; several lines of one message are joined by `\\n`.

    `at` is Unix seconds, `monotonic_s` the kernel's own stamp, `boot` its boot id. `post_mortem`: read from a boot that
    has ended. `history`: written before this watchdog knew the host.
    """

    message: str
    at: float | None
    monotonic_s: float | None
    origin: Origin
    boot: str | None = None
    post_mortem: bool = False
    history: bool = False


MISSED_MESSAGE_ID = "e9bf28e6e834481bb6f48f548ad13606"
"""journald's own word that it lost kernel lines; not written by the kernel, and about nothing else."""

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[mK]")
_KMSG = re.compile(r"(\d{1,5}),(\d{1,20}),(\d{1,20}),[^;]{0,80};")
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_EXPORTED = re.compile(r"(?:    )?MESSAGE=")
_DMESG_JSON = re.compile(r'\s{0,40}"msg"\s?:\s?(".*")\s{0,4},?\s{0,4}$')


def parse_line(raw: bytes, *, year: int | None = None) -> KernelLine:
    """Take one line apart; never raises, whatever the bytes. Bytes that are not UTF-8 become U+FFFD.

    Times without a zone are read as UTC; times without a year give `at` only if `year` is given.
    """
    text = raw.decode("utf-8", "replace").rstrip("\r\n\0")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text.startswith(("{", "data: {", "\x1e{")) and (line := _json_line(text[text.index("{") :])):
        return line
    if text[:1].isdigit() and (match := _KMSG.match(text)):
        origin = Origin.KERNEL if int(match[1]) >> 3 == 0 else Origin.USERSPACE
        message = _ESCAPED.sub(_unescaped, text[match.end() :]) if "\\x" in text else text[match.end() :]
        return KernelLine(message, None, int(match[3]) / 1e6, origin)
    if '"msg"' in text and (match := _DMESG_JSON.match(text)):
        return _message_only(match[1])
    if match := _EXPORTED.match(text):
        return KernelLine(text[match.end() :], None, None, Origin.UNKNOWN)
    message, at, monotonic_s, kernel = strip_prefix(text, year)
    origin = Origin.UNKNOWN if kernel is None else Origin.KERNEL if kernel else Origin.USERSPACE
    return KernelLine(message, at, monotonic_s, origin)


def _unescaped(match: re.Match[str]) -> str:
    r"""Bytes that /dev/kmsg writes as `\x0a`: a line end inside a message, or a character that is not ASCII."""
    return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8", "replace")


def _message_only(quoted: str) -> KernelLine:
    """One `"msg": "…"` line of `dmesg -J`."""
    try:
        message = json.loads(quoted, strict=False)
    except ValueError:
        message = quoted[1:-1]
    return KernelLine(str(message), None, None, Origin.KERNEL)


def _json_line(text: str) -> KernelLine | None:
    """A journal entry as JSON, or None when `text` is no JSON object."""
    try:
        entry = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    if "MESSAGE" not in entry and "msg" in entry:
        return KernelLine(journal_message(entry["msg"]), None, _seconds(entry.get("time"), 1.0), Origin.KERNEL)
    boot = entry.get("_BOOT_ID")
    return KernelLine(
        journal_message(entry.get("MESSAGE")),
        _seconds(entry.get("__REALTIME_TIMESTAMP"), 1e6),
        _seconds(entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP"), 1e6),
        journal_origin(entry),
        boot=boot if isinstance(boot, str) else None,
    )


def journal_message(value: Any) -> str:
    """The text of a journal field: a string, a list of byte values, a list of strings, or null (then empty)."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    if value and all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= 255 for item in value):
        return bytes(value).decode("utf-8", "replace")
    return "\n".join(journal_message(item) for item in value if isinstance(item, str | list))


def journal_origin(entry: Mapping[str, Any]) -> Origin:
    """Who wrote a journal entry. `_TRANSPORT` is set by journald and cannot be forged; the identifier can.

    Lines that programs write to /dev/kmsg have the kernel's transport but another facility.
    """
    transport = entry.get("_TRANSPORT")
    if entry.get("MESSAGE_ID") == MISSED_MESSAGE_ID:
        return Origin.KERNEL if transport in (None, "driver") else Origin.USERSPACE
    if transport == "kernel":
        return Origin.KERNEL if entry.get("SYSLOG_FACILITY", "0") in ("0", 0) else Origin.USERSPACE
    if transport is not None:
        return Origin.USERSPACE
    identifier = entry.get("SYSLOG_IDENTIFIER")
    if identifier is None:
        return Origin.UNKNOWN
    return Origin.KERNEL if identifier == "kernel" else Origin.USERSPACE


def _seconds(value: Any, unit: float) -> float | None:
    try:
        seconds = float(value) / unit
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < 1e11 else None
