"""Which device a kernel line is about: PCI address, GPU, NVMe controller, disk, network interface, SMMU."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from watchdog.kernlog.rules import Subject

_PCI = re.compile(
    r"(?<![0-9a-fA-F])([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?"
    r"(?![0-9a-fA-F.]|:[0-9a-fA-F]{2}:)"
)
_PCI_SHORT = re.compile(r"(?<![0-9a-fA-F:.])([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])(?![0-9a-fA-F.])")
_SOURCE = re.compile(
    r"(?:received(?: from)?:? |of Agent |from |by )([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)
_OLD_SOURCE = re.compile(r"(?:received: id=|Requester ID |id=)([0-9a-fA-F]{4})(?![0-9a-fA-F])")
_MLX5_IB = re.compile(r"\b(mlx5_(?:bond_)?\d{1,3})\b")
_GPU_INDEX = re.compile(r"\bGPU ?(\d{1,3})\b")
_SWITCH = re.compile(r"\b(nvidia-nvswitch\d{1,3})\b")
_NVME = re.compile(r"\b(nvme\d{1,4})(?:c\d+)?(?:n\d+)?(?:p\d+)?\b")
_DISK = re.compile(
    r"\b(?:dev |device |logical block |\()?"
    r"(nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}(?:p\d{1,4})?|(?:sd|vd|xvd|hd)[a-z]{1,3}\d{0,3}|dm-\d{1,4}|md\d{1,4}(?:p\d{1,3})?"
    r"|mmcblk\d{1,3}(?:p\d{1,3}|rpmb|boot\d)?|loop\d{1,4}|zram\d{1,3}|pmem\d{1,3}|nbd\d{1,3}|sr\d{1,2}|rbd\d{1,4}"
    r"|ata\d{1,3}(?:\.\d{2})?)(?![\w-])"
)
_MOUNT = re.compile(r"(?:XFS|EXT[234]-fs|BTRFS|F2FS-fs)[a-z :]*\((?:device )?([\w.-]{1,32})\)")
_NETDEV_WATCHDOG = re.compile(r"NETDEV WATCHDOG: ([\w.@-]{1,16}) \(")
_NETDEV = re.compile(r"[0-9a-fA-F]{2}\.[0-7] ([a-z][\w.@-]{1,15}):|^([a-z][\w.@-]{1,15}): |for ([a-z][\w.@-]{1,15}) to")
_SMMU = re.compile(r"\b(arm-smmu-v3\.\d{1,3}\.auto|arm-smmu\.\d{1,3}\.auto|[0-9a-f]{4,16}\.(?:smmu[\w-]{0,8}|iommu))\b")
_MEMORY = re.compile(r"\bEDAC (?:[\w#]{1,16} )?(MC\d{1,3}|[A-Z]{2,8}\d{0,3})\b")
_EEH = re.compile(r"\b(PHB#[0-9a-fA-F]{1,6}-PE#[0-9a-fA-F]{1,6})\b")


def _address(match: re.Match[str]) -> str:
    """`dddd:bb:dd.f` in small letters; a GPU's address without a function gets `.0`."""
    domain, bus, slot, function = match.groups()
    if len(domain) == 8 and domain.startswith("0000"):
        domain = domain[4:]
    return f"{domain}:{bus}:{slot}.{function or 0}".lower()


def _pci(message: str) -> str | None:
    if match := _PCI.search(message):
        return _address(match)
    if match := _PCI_SHORT.search(message):
        return f"0000:{match[1]}:{match[2]}.{match[3]}".lower()
    return match[1] if (match := _MLX5_IB.search(message)) else None


def _source(message: str) -> str | None:
    """The device an error came from, as a root port names it; else the device that reports it."""
    if match := _SOURCE.search(message):
        return _pci(match[1])
    if "received: id=" in message and (match := _OLD_SOURCE.search(message)):
        requester, port = int(match[1], 16), _PCI.search(message)
        domain = port[1].lower() if port else "0000"
        return f"{domain}:{requester >> 8:02x}:{requester >> 3 & 31:02x}.{requester & 7}"
    return _pci(message)


def _gpu(message: str) -> str | None:
    if found := _pci(message):
        return found
    if match := _SWITCH.search(message):
        return match[1]
    return f"GPU{match[1]}" if (match := _GPU_INDEX.search(message)) else None


def _first(*patterns: re.Pattern[str]) -> Callable[[str], str | None]:
    """The first group that any of `patterns`, tried in order, finds."""

    def find(message: str) -> str | None:
        for pattern in patterns:
            if match := pattern.search(message):
                return next((group for group in match.groups() if group), None)
        return None

    return find


def _smmu(message: str) -> str | None:
    return match[1] if (match := _SMMU.search(message)) else _pci(message)


def _netdev(message: str) -> str | None:
    if match := _NETDEV_WATCHDOG.search(message):
        return match[1]
    if match := _PCI.search(message):
        return _address(match)
    return _first(_NETDEV)(message)


_FINDERS: Mapping[Subject, Callable[[str], str | None]] = {
    Subject.PCI: _pci,
    Subject.SOURCE: _source,
    Subject.GPU: _gpu,
    Subject.NVME: _first(_NVME),
    Subject.DISK: _first(_MOUNT, _DISK),
    Subject.NETDEV: _netdev,
    Subject.SMMU: _smmu,
    Subject.MEMORY: _first(_MEMORY),
    Subject.EEH: _first(_EEH),
}

MAX_MESSAGE_CHARS = 4096
"""Devices stand near the start of a line; no line makes the search longer than this."""


def find_device(message: str, subject: Subject) -> str | None:
    """The device that `message` is about, as `subject` says where it stands; None if it names none."""
    finder = _FINDERS.get(subject)
    return finder(message[:MAX_MESSAGE_CHARS]) if finder else None
