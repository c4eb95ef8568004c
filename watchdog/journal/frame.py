"""The frame of a reader's answer: noise, one header, data lines, one trailer. Without the trailer it was cut short.

Login scripts may print before the header, and a connection may die with exit status 0 behind it, so nothing counts as
read unless both ends of the frame were seen (`watchdog/host/reader.sh`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from watchdog.journal.records import LATEST_US

TAG = b"INFERENCE-WATCHDOG-READER"
_LONGEST_WORD = 1000
FULL_KIB = 512
"""With less free than this journald can no longer extend its file."""
LONGEST_LINE_BYTES = 1 << 20
"""A kernel record is at most a few KiB; JSON of bytes makes that four times longer. Anything longer is not a record."""


@dataclass(frozen=True, slots=True)
class Trailer:
    """How the reader says it ended: `rc` 0 and `why` "ok", or a refusal (64), or a failure on the host."""

    rc: int
    why: str


@dataclass(slots=True)
class Transcript:
    """Takes the bytes of one answer as they arrive and gives the complete data lines between header and trailer.

    `header` and `trailer` are None until seen. `noise` keeps the first bytes of what came before the header, for the
    person who has to find out. Total on arbitrary bytes.
    """

    header: dict[str, str] | None = None
    trailer: Trailer | None = None
    noise: bytes = b""
    overlong: int = 0
    _rest: bytearray = field(default_factory=bytearray, repr=False)
    _skipping: bool = field(default=False, repr=False)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the data lines they complete, without their newline."""
        *complete, rest = chunk.split(b"\n")
        if complete:
            if self._skipping:
                complete, self._skipping = complete[1:], False
            else:
                complete[0] = bytes(self._rest) + complete[0]
            self._rest.clear()
        if not self._skipping:
            self._rest += rest  # in place: a line may come in very small pieces
            if len(self._rest) > LONGEST_LINE_BYTES:
                self.overlong += 1
                self._skipping = True
                self._rest.clear()
        return [line for line in complete if line and self._is_data(line)]

    def _is_data(self, line: bytes) -> bool:
        """Move through the frame; true for a data line."""
        if self.trailer is not None:
            return False
        if line.startswith(TAG):
            self._mark(line)
            return False
        if self.header is None:
            if len(self.noise) < 400:
                self.noise = (self.noise + line + b"\n")[:400].lstrip(b"\n")
            return False
        return True

    def _mark(self, line: bytes) -> None:
        words = line.decode("ascii", "replace").split()
        pairs = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        if len(words) > 1 and words[1] == "END":
            rc = pairs.get("rc", "")
            known = rc.isascii() and rc.isdigit() and len(rc) <= 3
            self.trailer = Trailer(int(rc) if known else 70, pairs.get("why", "")[:_LONGEST_WORD])
        elif self.header is None and words[1:2] == ["1"]:
            self.header = {name[:_LONGEST_WORD]: value[:_LONGEST_WORD] for name, value in pairs.items()}

    @property
    def complete(self) -> bool:
        """True once header and a trailer with `rc=0` were seen."""
        return self.header is not None and self.trailer is not None and self.trailer.rc == 0


@dataclass(frozen=True, slots=True)
class Hello:
    """Who the reader is on the host, and which boots its journal shows (oldest first, as journalctl lists them).

    `now` is the host's wall clock in Unix seconds. `journalctl` is its version line, empty if there is none. `listed`:
    the list of boots was made to its end. `journald`: running, stopped (by a signal), gone or unknown. `newest_age_s`:
    the age of this boot's newest record of any kind when the reader looked; None if it shows none or does not say.
    `in_memory`: journald writes to /run, which a restart empties. `unreadable`: we may not read the file it writes to,
    as when its ACL was lost. `free_kib`: what is free where it writes, and `disk_free_kib` under /var/log/journal; None
    if unknown. `takes_beats`: a live stream ends by itself when we send it no more beats; `takes_pulse`: it brings
    vitals as well. `takes_nccl`: it knows the request `nccl`.
    """

    boot: str
    now: float
    uptime_s: float
    uid: int
    groups: frozenset[str]
    journalctl: str = ""
    boots: tuple[str, ...] = ()
    listed: bool = True
    journald: str = "unknown"
    newest_age_s: float | None = None
    in_memory: bool = False
    unreadable: bool = False
    free_kib: int | None = None
    disk_free_kib: int | None = None
    takes_beats: bool = False
    takes_pulse: bool = False
    takes_nccl: bool = False

    @property
    def disk_is_full(self) -> bool:
        """Whether journald finds no room on the disk that its files belong on."""
        return self.disk_free_kib is not None and self.disk_free_kib < FULL_KIB

    @property
    def may_read_journal(self) -> bool:
        """Whether this user sees the system journal: root, or in one of journald's groups and its file readable."""
        belongs = not self.groups.isdisjoint({"systemd-journal", "adm", "wheel"})
        return self.uid == 0 or (belongs and not self.unreadable)


_STORAGE = re.compile(r"storage=(\S+) readable=(yes|no) free_kib=(?:([0-9]{1,15})|unknown)")
_DISK_FREE = re.compile(r"disk_free_kib=([0-9]{1,15})")
_NEWEST = re.compile(r"newest_us=([0-9]{1,18}) looked=([0-9]{1,12})")


def _age_s(text: str) -> float | None:
    """How old the newest record was when the reader looked, in seconds; negative if the host's clock was set back."""
    match = _NEWEST.fullmatch(text)
    return None if match is None else int(match[2]) + 0.5 - int(match[1]) / 1e6


def parse_hello(header: dict[str, str], lines: list[bytes]) -> Hello | None:
    """The greeting in a header and its data lines; None when the header lacks what every reader sends, or lies."""
    texts = [line.decode("ascii", "replace") for line in lines]
    boots = tuple(text[5:] for text in texts if text.startswith("boot="))
    version = next((text[11:] for text in texts if text.startswith("journalctl=")), "")
    storage = next((match for text in texts if (match := _STORAGE.fullmatch(text))), None)
    try:
        return Hello(
            boot=header["boot"],
            now=_seconds(header["now"]),
            uptime_s=_seconds(header["uptime"]),
            uid=int(header["uid"]),
            groups=frozenset(header.get("groups", "").split(",")),
            journalctl=version,
            boots=boots,
            listed="boots_rc=124" not in texts and "boots_rc=137" not in texts,
            journald=next((text[9:] for text in texts if text.startswith("journald=")), "unknown"),
            newest_age_s=next((_age_s(text) for text in texts if text.startswith("newest_us=")), None),
            in_memory=storage is not None and storage[1].startswith("/run/"),
            unreadable=storage is not None and storage[2] == "no",
            free_kib=int(storage[3]) if storage is not None and storage[3] else None,
            takes_beats="can=beat" in texts,
            takes_pulse="can=pulse" in texts,
            takes_nccl="can=nccl" in texts,
            disk_free_kib=next((int(match[1]) for text in texts if (match := _DISK_FREE.fullmatch(text))), None),
        )
    except (KeyError, ValueError):
        return None


def _seconds(text: str) -> float:
    """The seconds in `text`; raises ValueError for `nan`, and for what is negative or later than 2100."""
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= LATEST_US / 1e6):
        raise ValueError(text)
    return value
