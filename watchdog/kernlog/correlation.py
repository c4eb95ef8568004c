"""Joining kernel lines that belong together: continuation lines, PCIe follow-up lines, and bursts of mild lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from watchdog.kernlog.devices import find_device
from watchdog.kernlog.matcher import Finding
from watchdog.kernlog.rules import Burst, Subject
from watchdog.model import Json, Severity

RECORD_LINES = 40
"""A continuation line further than this from its record's first line is taken for a stray one."""

NEARBY_LINES = 4
"""How near a detail must stand that lends its device to the record it announces."""


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    finding: Finding


class RecordJoiner:
    """Remembers the last findings of one log, so that a detail takes the kind of its record."""

    def __init__(self) -> None:
        self._heads: deque[_Numbered] = deque(maxlen=32)
        self._details: deque[_Numbered] = deque(maxlen=8)

    def join(self, number: int, finding: Finding) -> Finding:
        """`finding`, which stands on line `number`, with kind, severity and device as its surroundings show them.

        A detail takes them from the nearest record above it; a record that names no device takes the one of a detail
        right above it (the three lines of "fallen off the bus").
        """
        if finding.detail:
            self._details.append(_Numbered(number, finding))
            return self._of_record(number, finding)
        if finding.device is None:
            finding = replace(finding, device=self._announced(number, finding))
        self._heads.append(_Numbered(number, finding))
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


_SMMU_CLIENT = re.compile(r"\bevent: \w+ client: ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]|[\w.:-]{1,40}) ")


def smmu_client(message: str) -> str:
    """The device whose access an SMMU refused, as newer kernels name it; "" if the line names none."""
    match = _SMMU_CLIENT.search(message)
    return match[1] if match else ""


_BRIDGE = re.compile(
    r"([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): PCI bridge to \[bus ([0-9a-f]{2})(?:-([0-9a-f]{2}))?\]"
)
MAX_BRIDGES = 256


class PciBridges:
    """Which buses lie behind which port, as the kernel prints it at boot. Kept as JSON: `{port: [first, last]}`."""

    def __init__(self, stored: Json = None) -> None:
        """Go on from what `to_json` returned before; anything unreadable counts as nothing."""
        self._buses: dict[str, tuple[int, int]] = {}
        for port, row in stored.items() if isinstance(stored, Mapping) else ():
            match row:
                case [int(first), int(last)] if len(self._buses) < MAX_BRIDGES:
                    self._buses[str(port)] = (first, last)

    def note(self, message: str) -> None:
        """Take in any line; only those that tell of a bridge matter."""
        match = _BRIDGE.search(message) if "PCI bridge to [bus" in message else None
        if match is not None and (match[1] in self._buses or len(self._buses) < MAX_BRIDGES):
            self._buses[match[1]] = (int(match[2], 16), int(match[3] or match[2], 16))

    def is_above(self, port: str, device: str) -> bool:
        """Whether `device` lies behind `port`; False where that is not known."""
        buses, (domain, _, rest) = self._buses.get(port), device.partition(":")
        try:
            bus = int(rest.partition(":")[0], 16)
            return buses is not None and port.startswith(f"{domain}:") and buses[0] <= bus <= buses[1]
        except ValueError:
            return False

    def to_json(self) -> Json:
        """What the next batch needs, as JSON."""
        return {port: list(buses) for port, buses in self._buses.items()}


PCIE_RECORDS = frozenset({"pcie.aer.fatal", "pcie.aer.nonfatal", "pcie.aer.uncorrectable", "pcie.dpc"})
DPC = "pcie.dpc"
PCIE_FOLLOW_UPS = frozenset({"pcie.cmplt_to", "pcie.aer.recovery"})
FOLLOW_UP_S = 10.0
"""Recovery of a device waits up to some seconds for its link."""
MAX_RECORDS = 32
_WORDS = {
    "pcie.cmplt_to": "completion timeout",
    "pcie.aer.recovery.failed": "recovery failed",
    "pcie.aer.recovered": "recovery successful",
    "pcie.aer.recovery": "recovery tried",
    "pcie.dpc": "cut off by its port",
}


@dataclass(frozen=True, slots=True)
class _PcieRecord:
    """One error record. `other` is the other end that its lines name: the port above, or the device below. Or ""."""

    kind: str
    at: float
    summary: str
    other: str = ""


class PcieFollowUps:
    """The newest record of each device, kept between batches as JSON: `{device: [kind, at, summary, other]}`.

    One error speaks with several voices: the device that met it, the port above it that reports, contains and recovers.
    """

    def __init__(self, stored: Json = None, bridges: PciBridges | None = None) -> None:
        """Go on from what `to_json` returned before; anything unreadable counts as nothing."""
        self._bridges = bridges or PciBridges()
        self._records: dict[str, _PcieRecord] = {}
        for device, row in stored.items() if isinstance(stored, Mapping) else ():
            match row:
                case [str(kind), float(at), summary] if kind in PCIE_RECORDS:  # as earlier versions kept it
                    self._records[str(device)] = _PcieRecord(kind, at, str(summary))
                case [str(kind), float(at), summary, str(other)] if kind in PCIE_RECORDS:
                    if not other or find_device(other, Subject.PCI) == other:
                        self._records[str(device)] = _PcieRecord(kind, at, str(summary), other)

    def join(self, finding: Finding, at: float, message: str = "") -> tuple[Finding, str]:
        """`finding` of a line printed at `at`, with kind, device and summary of the record it belongs to, and what it
        adds. The words are "" for everything that stands for itself.
        """
        device = finding.device
        if device is None:
            return finding, ""
        begins = finding.kind in PCIE_RECORDS and not finding.detail
        found = self._record_of(finding, device, at) if begins or finding.kind in PCIE_FOLLOW_UPS else None
        if begins and found is None:
            self._note(finding, device, at, message)
        if found is None:
            return finding, ""
        where, record = found
        words = "" if finding.detail else _WORDS.get(finding.rule) or finding.summary
        return replace(finding, kind=record.kind, summary=record.summary, device=where), words

    def _record_of(self, finding: Finding, device: str, at: float) -> tuple[str, _PcieRecord] | None:
        """The newest record, and its device, that `finding` belongs to; records join only around a containment."""
        near = [
            (where, record)
            for where, record in self._records.items()
            if -1.0 <= at - record.at <= FOLLOW_UP_S
            and self._is_one(where, record, device)
            and (finding.kind in PCIE_FOLLOW_UPS or (finding.kind == DPC) is not (record.kind == DPC))
        ]
        return max(near, key=lambda pair: pair[1].at, default=None)

    def _is_one(self, where: str, record: _PcieRecord, device: str) -> bool:
        if device in {where, record.other}:
            return True
        return self._bridges.is_above(device, where) or (record.kind == DPC and self._bridges.is_above(where, device))

    def _note(self, finding: Finding, device: str, at: float, message: str) -> None:
        before = self._records.pop(device, None)
        named = (find_device(message, Subject.PCI), find_device(message, Subject.SOURCE))
        other = next((one for one in named if one is not None and one != device), "")
        if not other and before is not None and at - before.at <= FOLLOW_UP_S:
            other = before.other
        self._records[device] = _PcieRecord(finding.kind, at, finding.summary, other)
        while len(self._records) > MAX_RECORDS:
            self._records.pop(next(iter(self._records)))

    def to_json(self) -> Json:
        """What the next batch needs, as JSON."""
        return {device: [one.kind, one.at, one.summary, one.other] for device, one in self._records.items()}


BUCKETS = 20
"""A window is counted in this many steps, so what is remembered stays small however many lines come."""

MAX_COUNTED = 100
"""So many pairs of rule and device are counted at once; the one longest without a line is forgotten first."""


class Bursts:
    """Counts lines per rule and device over a sliding window: many of a mild kind are not mild.

    Kept between runs as JSON: `{"rule device": {"step": count}}`.
    """

    def __init__(self, memory: Json = None) -> None:
        """Go on from what `to_json` returned before; anything unreadable counts as nothing."""
        self._counts: dict[str, dict[int, int]] = {}
        if isinstance(memory, Mapping):
            for name, steps in memory.items():
                if isinstance(steps, Mapping):
                    self._counts[str(name)] = {
                        int(step): int(count)
                        for step, count in steps.items()
                        if str(step).lstrip("-").isdigit() and isinstance(count, int)
                    }

    def severity(self, finding: Finding, bursts: tuple[Burst, ...], at: float) -> Severity:
        """Count one line at `at` (seconds, any epoch); its severity, or a burst's whose window holds enough of them."""
        if not bursts or finding.detail:
            return finding.severity
        name = f"{finding.rule} {finding.device or '-'}"
        step_s = bursts[0].window_s / BUCKETS
        step = int(at // step_s)
        counts = self._counts.pop(name, {})
        counts = {seen: count for seen, count in counts.items() if abs(step - seen) < BUCKETS}
        counts[step] = counts.get(step, 0) + 1
        self._counts[name] = counts
        while len(self._counts) > MAX_COUNTED:
            self._counts.pop(next(iter(self._counts)))
        in_window = sum(counts.values())
        raised = [burst.severity for burst in bursts if in_window >= burst.count]
        return max(finding.severity, *raised, key=lambda severity: severity.rank) if raised else finding.severity

    def to_json(self) -> Json:
        """What the next run needs, as JSON."""
        return {name: {str(step): count for step, count in steps.items()} for name, steps in self._counts.items()}


MAX_DEVICES = 40
"""Device names are partly chosen by others: so many of one kind are told apart within an hour."""
_TOLD_APART_S = 3600.0


class KnownDevices:
    """The devices of each kind seen within the last hour, kept between batches as JSON: `{kind: {device: at}}`."""

    def __init__(self, stored: Json | None) -> None:
        kinds = stored.items() if isinstance(stored, Mapping) else ()
        self._kinds: dict[str, dict[str, float]] = {
            str(kind): {str(device): float(at) for device, at in devices.items() if isinstance(at, int | float)}
            for kind, devices in kinds
            if isinstance(devices, Mapping)
        }

    def admits(self, kind: str, device: str, now: float) -> bool:
        """Whether `device` is told of by its own name, or as one of many."""
        known = self._kinds.setdefault(kind, {})
        if device not in known:
            for name in [name for name, at in known.items() if not 0 <= now - at < _TOLD_APART_S]:
                del known[name]
            if len(known) >= MAX_DEVICES:
                return False
        known[device] = now
        return True

    def to_json(self) -> Json:
        return {kind: dict(devices) for kind, devices in self._kinds.items() if devices}
