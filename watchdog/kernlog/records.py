"""Joining lines that belong together: continuation lines to the record they continue, and devices named nearby."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from watchdog.kernlog.matcher import Finding

RECORD_LINES = 40
"""A continuation line further than this from its record's first line is taken for a stray one."""

NEARBY_LINES = 4
"""How near a detail must stand that lends its device to the record it announces."""


@dataclass(frozen=True, slots=True)
class _Place:
    number: int
    finding: Finding


class Records:
    """Remembers the last findings of one log, so that a detail takes the kind of its record."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._heads: deque[_Place] = deque(maxlen=32)
        self._details: deque[_Place] = deque(maxlen=8)

    def join(self, number: int, finding: Finding) -> Finding:
        """`finding`, which stands on line `number`, with kind, severity and device as its surroundings show them.

        A detail takes them from the nearest record above it; a record that names no device takes the one of a detail
        right above it (the three lines of "fallen off the bus").
        """
        if finding.detail:
            self._details.append(_Place(number, finding))
            return self._of_record(number, finding)
        if finding.device is None:
            finding = replace(finding, device=self._announced(number, finding))
        self._heads.append(_Place(number, finding))
        return finding

    def _of_record(self, number: int, detail: Finding) -> Finding:
        family = detail.kind.partition(".")[0]
        for place in reversed(self._heads):
            head = place.finding
            if number - place.number > RECORD_LINES:
                break
            same_device = detail.device is None or head.device is None or detail.device == head.device
            if head.kind.partition(".")[0] == family and same_device:
                return replace(detail, kind=head.kind, severity=head.severity, device=head.device or detail.device)
        return detail

    def _announced(self, number: int, head: Finding) -> str | None:
        for place in reversed(self._details):
            if number - place.number > NEARBY_LINES:
                return None
            if place.finding.kind == head.kind and place.finding.device:
                return place.finding.device
        return None
