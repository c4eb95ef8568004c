"""Folding classified kernel lines into occurrences: one per host, kind and device."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.kernlog.lines import KernelLine
from watchdog.kernlog.matcher import Matcher
from watchdog.model import Json, Observation


def observations(
    host: str, lines: Sequence[KernelLine], matcher: Matcher, now: float, memory: Json | None
) -> tuple[tuple[Observation, ...], Json]:
    """One observation per host, kind and device found in `lines`, and what to remember for the next call.

    `now` is Unix seconds; `memory` is what the previous call returned, None at the first.
    """
    raise NotImplementedError
