"""The passive look between two probes: small signs that something has died. It never proves, it only makes us ask."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.engines.metrics import EngineSample
from watchdog.engines.movement import Movement, compare


class Suspicion(StrEnum):
    """Why a probe is sent before its time."""

    REFUSED = "refused"
    SILENT = "silent"
    FAILING = "failing"
    STANDS_STILL = "stands_still"


@dataclass(frozen=True, slots=True)
class Look:
    """One passive look: a sample of the engine, or how it failed. `is_open`: the port took the connection."""

    is_open: bool
    refused: bool = False
    status: int | None = None
    sample: EngineSample | None = None


_SILENT_LOOKS = 2


class Watch:
    """Joins looks at one server. After a suspicion it is quiet until a look is good again."""

    def __init__(self) -> None:
        self._before: EngineSample | None = None
        self._silent = 0
        self.suspected: Suspicion | None = None

    def look(self, seen: Look) -> Suspicion | None:
        """What `seen` makes us suspect for the first time; None for nothing new."""
        found = self._found(seen)
        self._before = seen.sample
        self._silent = 0 if seen.is_open or seen.refused else self._silent + 1
        if found is None:
            if seen.is_open and not self._silent:
                self.suspected = None
            return None
        new, self.suspected = self.suspected is None, found
        return found if new else None

    def _found(self, seen: Look) -> Suspicion | None:
        if seen.refused:
            return Suspicion.REFUSED
        if not seen.is_open:
            return Suspicion.SILENT if self._silent + 1 >= _SILENT_LOOKS else None
        if seen.status is not None and seen.status >= 500:
            return Suspicion.FAILING
        if seen.sample is not None and compare(self._before, seen.sample).movement in (
            Movement.FROZEN,
            Movement.PARTIAL,
        ):
            return Suspicion.STANDS_STILL
        return None
