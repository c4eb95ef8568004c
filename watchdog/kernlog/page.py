"""What a reading of a host's kernel log gives: lines, losses, and how boots ended."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.kernlog.lines import KernelLine


@dataclass(frozen=True, slots=True)
class Loss:
    """Lines that nobody will ever read: how many (None: unknown), after which stamp, and how we know."""

    boot: str
    count: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """What one page gave. `visible` counts every record shown, known or not; `stale` means another reader was quicker
    and nothing was taken; `unreadable` counts records without a text. `first_us` and `last_us`: when journald took the
    first and the last new line, in microseconds since boot; -1 without any.
    """

    lines: tuple[KernelLine, ...] = ()
    losses: tuple[Loss, ...] = ()
    visible: int = 0
    unreadable: int = 0
    first_us: int = -1
    last_us: int = -1
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How a boot ended. `clean`: it announced its shutdown. `gone`: its end cannot be read any more."""

    boot: str
    next_boot: str
    clean: bool
    gone: bool
    tail: tuple[tuple[float, str], ...]
    firmware: tuple[str, ...]
