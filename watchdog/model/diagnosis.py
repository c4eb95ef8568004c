"""What most likely lies behind an incident, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watchdog.model.observation import Evidence


class Confidence(StrEnum):
    """How far the evidence goes. Nothing is ever called certain."""

    LIKELY = "likely"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The signature that fits: its `name`, a few words for a title (`short`), one plain sentence, and what it rests on.

    `evidence` is what came from elsewhere than the failing check (hosts, kernel lines); `look_at` is what to look at.
    """

    name: str
    confidence: Confidence
    short: str
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    look_at: str = ""
