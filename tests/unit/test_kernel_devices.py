"""Which device a kernel line speaks of."""

from __future__ import annotations

import pytest

from watchdog.kernlog.matcher import Matcher
from watchdog.rulebook import load_rules

MATCHER = Matcher(load_rules())


@pytest.mark.parametrize(
    ("message", "device"),
    [
        ("pcieport 0000:80:1b.4: AER: device recovery failed", "0000:80:1b.4"),
        ("pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0", "0000:01:00.0"),
        ("pcieport 0000:00:1c.0: AER: Multiple Uncorrected (Fatal) error received: id=0008", "0000:00:01.0"),
        (
            "pci 0000:00:01.0: DPC: containment event, status:0x000d, ERR_FATAL received from 0000:02:00.0",
            "0000:00:01.0",
        ),
        ("dpc 0000:10:01.0:pcie010: DPC containment event, status:0x1f00 source:0x0000", "0000:10:01.0"),
        ("nvme 10000:01:00.0: AER: can't recover (no error_detected callback)", "10000:01:00.0"),
        ("NVRM: Xid (PCI:000f:01:00): 119, Timeout after 6s of waiting for RPC response", "000f:01:00.0"),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=1, Contained error", "0000:3b:00.0"),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00.0"),
        ("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", "0000:29:00.0"),
        ("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up", "0000:06:00.0"),
        ("mlx5_core 0000:08:00.1 enp8s0f1: TX timeout detected", "0000:08:00.1"),
        ("NETDEV WATCHDOG: enp8s0f1 (mlx5_core): transmit queue 1 timed out", "enp8s0f1"),
        ("infiniband mlx5_0: create_mkey_warn:158:(pid 2163): async reg mr failed. status -121", "mlx5_0"),
        ("arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:", "arm-smmu-v3.0.auto"),
        ("arm-smmu-v3 fc900000.iommu: CMDQ timeout", "fc900000.iommu"),
        ("AMD-Vi: Event logged [IO_PAGE_FAULT device=05:00.0 domain=0x0018 address=0x0 flags=0x0020]", "0000:05:00.0"),
        (
            "DMAR: [DMA Read NO_PASID] Request device [03:00.0] fault addr 0xfe7bf000 [fault reason 0x06]",
            "0000:03:00.0",
        ),
        ("nvme nvme4: Disabling device after reset failure: -19", "nvme4"),
        ("blk_update_request: I/O error, dev nvme2n1, sector 6442712256 op 0x1:(WRITE)", "nvme2n1"),
        ("EXT4-fs (md0): Remounting filesystem read-only", "md0"),
        ("XFS (dm-3): log I/O error -5", "dm-3"),
        ("Buffer I/O error on dev dm-0, logical block 1308098575, lost async page write", "dm-0"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "MC0"),
        ("EEH: Frozen PHB#41-PE#10000 detected", "PHB#41-PE#10000"),
        ("unregister_netdevice: waiting for lo to become free. Usage count = 5", "lo"),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [x:1]", None),
        ("AMD-Vi: Completion-Wait loop timed out", None),
    ],
)
def test_the_device_of_a_line_is_found(message: str, device: str | None) -> None:
    finding = MATCHER.classify(message)
    assert finding is not None
    assert finding.device == device
