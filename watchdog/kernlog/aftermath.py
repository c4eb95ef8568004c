"""What follows a PCIe error record about the same device within seconds belongs to it: one trouble is one alert.

The kernel prints a record (`… Uncorrected (Fatal) …`), below it the names of its error bits (`[14] CmpltTO`), and a
moment later how the recovery goes. A scan keeps these lines apart; an alert folds them. A bit without its record
(nothing of the record was read) still speaks for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watchdog.kernlog.matcher import Finding
from watchdog.model import Json

RECORDS = frozenset({"pcie.aer.fatal", "pcie.aer.nonfatal", "pcie.aer.uncorrectable", "pcie.dpc"})
AFTERMATH = frozenset({"pcie.cmplt_to", "pcie.aer.recovery"})
WITHIN_S = 10.0
"""Recovery of a device waits up to some seconds for its link."""
KEPT = 32
_WORDS = {
    "pcie.cmplt_to": "completion timeout",
    "pcie.aer.recovery.failed": "recovery failed",
    "pcie.aer.recovery": "recovery tried",
}


class Aftermath:
    """The newest record of each device, kept between batches of lines as JSON: `{device: [kind, at, summary]}`."""

    def __init__(self, stored: Json = None) -> None:
        """Go on from what `remembered` gave before; anything unreadable counts as nothing."""
        self._records: dict[str, tuple[str, float, str]] = {}
        for device, row in stored.items() if isinstance(stored, Mapping) else ():
            match row:
                case [str(kind), float(at), summary] if kind in RECORDS:
                    self._records[str(device)] = (kind, at, str(summary))

    def join(self, finding: Finding, at: float) -> tuple[Finding, str]:
        """`finding` of a line printed at `at`, with kind and summary of the record it follows, and what it adds.

        The words are "" for everything that stands for itself.
        """
        device = finding.device
        if device is None:
            return finding, ""
        if finding.kind in RECORDS and not finding.detail:
            self._records.pop(device, None)
            self._records[device] = (finding.kind, at, finding.summary)
            while len(self._records) > KEPT:
                self._records.pop(next(iter(self._records)))
        if finding.kind not in AFTERMATH or device not in self._records:
            return finding, ""
        kind, since, summary = self._records[device]
        if not -1.0 <= at - since <= WITHIN_S:
            return finding, ""
        words = "" if finding.detail else _WORDS.get(finding.rule) or finding.summary
        return replace(finding, kind=kind, summary=summary), words

    def remembered(self) -> Json:
        """What the next batch needs, as JSON."""
        return {device: list(record) for device, record in self._records.items()}
