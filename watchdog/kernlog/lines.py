"""One line of a kernel log, in any of the forms tools print it: its message, its time, and who wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
