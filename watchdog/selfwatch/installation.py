"""Are the files that we run from still there: an upgrade of Python or of ourselves takes them away while we run.

What sends is loaded with the first alert (it is big), so a daemon whose files are gone would find out too late.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from watchdog.clock import Clock

LOOK_EVERY_S = 5.0
_SETTLED_LOOKS = 3
"""New files count once they stayed the same for so many looks: an installer is not killed half-way through."""
_PACKAGES = ("watchdog", "apprise")


class Files(StrEnum):
    SAME = "same"
    GONE = "gone"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class _Stamp:
    device: int
    inode: int
    modified_ns: int


class Installation:
    """The interpreter, its library, our package and apprise, as they were at the start."""

    def __init__(self, paths: Iterable[str] | None = None) -> None:
        """`paths` are the files that stand for all; None: our own."""
        self._paths = tuple(_own_paths() if paths is None else paths)
        self._first = self._newest = self._look()
        self._looks = 0

    def files(self) -> Files:
        """Look once. `REPLACED` only when all are there again and stayed the same for some looks."""
        now = self._look()
        self._looks = self._looks + 1 if now == self._newest else 1
        self._newest = now
        if now == self._first:
            return Files.SAME
        if None in now:
            return Files.GONE
        return Files.REPLACED if self._looks >= _SETTLED_LOOKS else Files.SAME

    def _look(self) -> tuple[_Stamp | None, ...]:
        return tuple(map(_stamp, self._paths))

    @property
    def problem(self) -> str | None:
        """Why nothing can be sent, None while it can: what is loaded already needs no files."""
        if None in self._newest and "apprise" not in sys.modules:
            return "the files of inference-watchdog are gone from this machine: no alert can be sent"
        return None


async def follow(installation: Installation, clock: Clock, on_replaced: Callable[[], None]) -> None:
    """Look every few seconds; `on_replaced` is called once, then this returns."""
    while True:
        await clock.sleep(LOOK_EVERY_S)
        if installation.files() is Files.REPLACED:
            on_replaced()
            return


def _own_paths() -> list[str]:
    specs = [find_spec(name) for name in _PACKAGES]
    return [sys.executable, os.__file__, *(spec.origin for spec in specs if spec is not None and spec.origin)]


def _stamp(path: str) -> _Stamp | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return _Stamp(found.st_dev, found.st_ino, found.st_mtime_ns)
