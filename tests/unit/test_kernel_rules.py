"""Every packaged rule against its own sample lines, and all of them against the labelled corpora."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.support.kernel_corpus import (
    Excerpt,
    Labelled,
    copied_excerpts,
    copied_lines,
    in_place_excerpts,
    in_place_lines,
)
from watchdog.errors import RuleError
from watchdog.kernlog.file_scan import LogScan
from watchdog.kernlog.lines import Origin, parse_line
from watchdog.kernlog.matcher import Matcher, check_rules
from watchdog.kernlog.rules import Rule
from watchdog.rulebook import load_rules as rules_in_force
from watchdog.rulebook import packaged_rules

RULES = packaged_rules()
MATCHER = Matcher(rules_in_force())


def label_of(message: str) -> str:
    """What the rules say of one message, in the corpus's words."""
    finding = MATCHER.classify(message)
    if finding is None or finding.detail:
        return "ignore"
    return finding.severity.value if finding.severity.value in ("page", "warn") else "ignore"


def scored(lines: Iterable[Labelled]) -> list[Labelled]:
    return [line for line in lines if line.role not in ("detail", "injected", "userspace")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_takes_its_own_samples_and_leaves_the_others(rule: Rule) -> None:
    for sample in rule.matches:
        finding = MATCHER.classify(sample)
        assert (finding.rule if finding else None) == (rule.id if rule.severity else None), sample
    for sample in rule.ignores:
        finding = MATCHER.classify(sample)
        assert finding is None or finding.rule != rule.id, sample


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_that_speaks_has_a_sample_a_source_and_says_what_to_do(rule: Rule) -> None:
    if rule.severity is None or rule.detail:
        return
    assert rule.matches
    assert rule.source
    assert rule.summary[0].isupper()
    assert not rule.summary.endswith(".")
    assert rule.advice or rule.kind == "log.suppressed"


def test_every_packaged_pattern_compiles() -> None:
    check_rules(RULES, "packaged")
    broken = replace(RULES[0], id="broken", pattern="(")
    with pytest.raises(RuleError, match=r"own\.yaml: rule broken"):
        check_rules([*RULES[:3], broken], "own.yaml")


@pytest.mark.parametrize("where", [copied_lines, in_place_lines])
def test_every_hard_lock_precursor_of_the_corpus_pages(where: object) -> None:
    assert callable(where)
    missed = [line.line for line in scored(where()) if line.core and label_of(line.line) != "page"]
    assert missed == []


@pytest.mark.parametrize("where", [copied_lines, in_place_lines])
def test_nothing_in_the_corpus_pages_that_should_not(where: object) -> None:
    assert callable(where)
    woken = [line.line for line in scored(where()) if label_of(line.line) == "page" and "page" not in line.accepted]
    assert woken == []


@pytest.mark.parametrize("where", [copied_lines, in_place_lines])
def test_every_line_of_the_corpus_gets_an_accepted_label_and_its_kind(where: object) -> None:
    assert callable(where)
    wrong = []
    for line in scored(where()):
        finding = MATCHER.classify(line.line)
        kind = finding.kind if finding and not finding.detail else "none"
        if label_of(line.line) not in line.accepted or kind != line.kind:
            wrong.append((label_of(line.line), kind, line))
    assert wrong == []


@pytest.mark.parametrize("where", [copied_lines, in_place_lines])
def test_words_of_programs_are_never_findings(where: object) -> None:
    assert callable(where)
    for labelled in where():
        if labelled.role != "userspace":
            continue
        line = parse_line(labelled.line.encode())
        assert line.origin is Origin.USERSPACE or MATCHER.classify(line.message) is None, labelled.line


@pytest.mark.parametrize("where", [copied_lines, in_place_lines])
def test_continuation_lines_never_speak_alone(where: object) -> None:
    assert callable(where)
    for labelled in where():
        if labelled.role == "detail":
            finding = MATCHER.classify(labelled.line)
            assert finding is None or finding.detail, labelled.line


@pytest.mark.parametrize("where", [copied_excerpts, in_place_excerpts])
def test_each_excerpt_gives_its_kinds_its_worst_label_and_nothing_forbidden(where: object) -> None:
    assert callable(where)
    excerpts: list[Excerpt] = where()
    assert excerpts
    for excerpt in excerpts:
        scan = LogScan(MATCHER)
        found = [*scan.feed(excerpt.data), *scan.finish()]
        kinds = {line.finding.kind for line in found if line.finding}
        levels = {line.severity.value for line in found if line.severity}
        assert set(excerpt.expected_kinds) <= kinds, excerpt.name
        assert not levels & set(excerpt.must_not), excerpt.name
        assert ("page" in levels) == (excerpt.worst == "page"), excerpt.name
        if excerpt.worst == "warn":
            assert "warn" in levels, excerpt.name


LOOK_ALIKES = (
    "acpi PNP0A08:00: _OSC: OS supports [ExtendedConfig ASPM ClockPM Segments MSI EDR HPX-Type3]",
    "acpi PNP0A08:00: _OSC: platform does not support [SHPCHotplug AER]",
    "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR DPC]",
    "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
    "pcieport 0000:00:01.0: DPC: enabled with IRQ 30",
    "pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigge",
    "pcieport 0000:00:1d.0: PME: Signaling with IRQ 123",
    "pcieport 0000:00:1d.0: pciehp: Slot #11 AttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug+ Surprise+ Interlock-",
    "pcieport 0000:00:1d.0: pciehp: Slot(11): Card present",
    "pcieport 0000:00:1d.0: pciehp: Slot(11): Link Up",
    "iTCO_wdt iTCO_wdt: initialized. heartbeat=30 sec (nowayout=0)",
    "watchdog: watchdog0: watchdog did not stop!",
    "softdog: initialized. soft_noboot=0 soft_margin=60 sec soft_panic=0 (nowayout=0)",
    "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
    "NMI watchdog: Perf NMI watchdog permanently disabled",
    "watchdog: Delayed init of the lockup detector failed: -19",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    "EXT4-fs (nvme0n1p2): re-mounted 00000000-0000-0000-0000-000000000000 r/w. Quota mode: none.",
    "EDAC MC: Ver: 3.0.0",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:64:0a.0 (INTERRUPT)",
    "EDAC amd64: Node 0: DRAM ECC disabled.",
    "EDAC igen6: v2.5.1",
    "#PF: supervisor read access in kernel mode",
    "#PF: error_code(0x0000) - not-present page",
    "lkdtm: Performing direct entry HARDLOCKUP",
    "ODEBUG: Out of memory. ODEBUG disabled",
    "nvme nvme0: 16/0/0 default/read/poll queues",
    "nvme nvme0: Shutdown timeout set to 10 seconds",
    "nvme nvme0: allocated 64 MiB host memory buffer.",
    "nvme nvme0: missing or invalid SUBNQN field.",
    "amdgpu 0000:03:00.0: amdgpu: RAS: optional ras ta ucode is not available",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
    "mce: [Hardware Error]: In-kernel MCE decoding enabled.",
    "MCE: In-kernel MCE decoding enabled.",
    '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
    "Kernel command line: BOOT_IMAGE=/vmlinuz root=UUID=0 ro pci=noaer panic=10 softlockup_panic=1 nmi_watchdog=1",
    "Command line: BOOT_IMAGE=/vmlinuz oops=panic iommu=pt",
    "arm-smmu-v3 arm-smmu-v3.0.auto: ias 48-bit, oas 48-bit (features 0x001c1eff)",
    "arm-smmu-v3 arm-smmu-v3.0.auto: allocated 65536 entries for cmdq",
    "arm-smmu-v3 arm-smmu-v3.0.auto: allocated 32768 entries for evtq",
    "arm-smmu-v3 arm-smmu-v3.0.auto: msi_domain absent - falling back to wired irqs",
    "arm-smmu-v3 arm-smmu-v3.0.auto: 2-level strtab only covers 25/32 bits of SID",
    "arm-smmu-v3 arm-smmu-v3.0.auto: IDR0.COHACC overridden by FW configuration (false)",
    "pci 0000:01:00.0: Adding to iommu group 12",
    "DMAR: IOMMU enabled",
    "DMAR-IR: Enabled IRQ remapping in x2apic mode",
    "AMD-Vi: Interrupt remapping enabled",
    "pci 0000:00:00.2: AMD-Vi: IOMMU performance counters supported",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build  (builder@host)",
    "NVRM: GPU at PCI:000f:01:00: GPU-00000000-0000-0000-0000-000000000000",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 235",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "mlx5_core 0000:01:00.0: Port module event: module 0, Cable unplugged",
    "mlx5_core 0000:01:00.0: MLX5E: StrdRq(1) RqSz(8) StrdSz(2048) RxCqeCmprss(0 enhanced)",
    "mlx5_core 0000:01:00.0 enp1s0f0np0: renamed from eth0",
    "mlx5_core 0004:01:00.1: mlx5_wait_for_pages:786:(pid 1618): Skipping wait for vf pages stage",
    "cx7-pcie-hotplug MTKP0001:00: Cable removal",
    "rcu: Hierarchical RCU implementation.",
    "rcu: INFO: Stall ended before state dump start",
    "rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.",
    "workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
    "perf: interrupt took too long (2513 > 2500), lowering kernel.perf_event_max_sample_rate to 79500",
    "INFO: NMI handler (perf_event_nmi_handler) took too long to run: 1.203 msecs",
    "hrtimer: interrupt took 5123456 ns",
    "ACPI Error: AE_NOT_FOUND, While resolving a named reference package element - \\_SB_.PC00",
    "ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PCI0.LPCB.HEC.DPTF.FCHG], AE_NOT_FOUND",
    "ERST: Error Record Serialization Table (ERST) support is initialized.",
    "HEST: Table parsing has been initialized.",
    "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC.",
    "BERT: Boot Error Record Table support is disabled. Enable it by using bert_enable as kernel parameter.",
    "RAS: Correctable Errors collector initialized.",
    "pstore: Registered efi_pstore as persistent store backend",
    "cfg80211: Timeout while waiting for CRDA to reply, restoring regulatory settings",
    "systemd[1]: Started Error reporting for the kernel, watchdog and panic handler.",
    'audit: type=1400 audit(1.1:1): apparmor="DENIED" operation="open" profile="x" comm="nvidia-smi" name="BUG:"',
    "Modules linked in: mlx5_ib mlx5_core nvidia(O) lockd aer_inject",
    "  mlx5_cmd_exec+0x20/0x50 [mlx5_core]",
    " ? watchdog_timer_fn+0x1b8/0x220",
    "CPU: 3 PID: 0 Comm: swapper/3 Tainted: P           OE      6.14.0-1013-nvidia",
    "thermal_sys: Registered thermal governor 'step_wise'",
    "Memory: 125829120K/131072000K available (error reserve)",
    "x86/fpu: Enabled xstate features 0x7, context size is 832 bytes",
    "Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on",
    "printk: console [tty0] enabled",
)


@pytest.mark.parametrize("message", LOOK_ALIKES)
def test_a_benign_look_alike_neither_pages_nor_warns(message: str) -> None:
    assert label_of(message) == "ignore", MATCHER.classify(message)


def test_no_colour_of_words_alone_makes_a_corrected_timeout_an_alarm() -> None:
    assert label_of("pcieport 0000:00:1c.0:    [12] Timeout") == "ignore"
    assert label_of("pcieport 0000:00:1c.0: AER: Corrected error received: 0000:02:00.0") == "warn"


PRECURSORS = (
    (
        "pcie.aer.fatal",
        "pcieport 0000:00:1c.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:01:00.0",
    ),
    ("pcie.aer.fatal", "mlx5_core 0000:01:00.0: CXL Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer"),
    (
        "pcie.aer.fatal",
        "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Unaccessible, id=0008()",
    ),
    ("pcie.aer.nonfatal", "igb 0000:09:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), id=0900(Requester ID)"),
    ("pcie.aer.uncorrectable", "nvme 0000:2a:00.0: aer_status: 0x00100000, aer_mask: 0x00000000"),
    ("pcie.aer.uncorrectable", "mlx5_core 0000:01:00.0: AER: aer_uncor_severity: 0x004ef030"),
    ("pcie.cmplt_to", "mlx5_core 0000:01:00.0:    [14] CmpltTO"),
    ("pcie.cmplt_to", "pcieport 0000:00:02.0:    [14] Completion Timeout     (First)"),
    ("pcie.dpc", "pcieport 0000:16:02.0: DPC: containment event, status:0x1f01 source:0x0000"),
    ("pcie.dpc", "pcieport 0000:16:02.0: DPC: unmasked uncorrectable error detected"),
    ("pcie.dpc", "pcieport 0000:16:02.0: DPC: RP PIO error detected"),
    ("pcie.dpc", "pcieport 0000:16:02.0: DPC: ERR_NONFATAL detected"),
    ("pcie.dpc", "pcieport 0000:16:02.0: DPC: containment event, status:0x1f07: RP PIO error detected"),
    ("smmu.timeout", "arm-smmu-v3 arm-smmu-v3.2.auto: CMDQ error (cons 0x0300a5e5): ATC invalidate timeout"),
    ("smmu.timeout", "arm-smmu-v3 2b400000.iommu: CMDQ error (cons 0x02000000): Abort on command fetch"),
    (
        "smmu.timeout",
        "arm-smmu-v3 15000000.smmu: CMD_SYNC timeout at 0x00000001 [hwprod 0x00000002, hwcons 0x00000001]",
    ),
    ("smmu.error", "arm-smmu-v3 arm-smmu-v3.3.auto: PRIQ overflow detected -- requests lost"),
    ("smmu.error", "arm-smmu-v3 arm-smmu-v3.3.auto: EVTQ write aborted -- events may have been lost"),
    (
        "smmu.fault",
        "arm-smmu-v3 arm-smmu-v3.5.auto: event: C_BAD_STREAMID client: (unassigned sid) sid: 0x20600 ssid: 0x0",
    ),
    ("smmu.fault", "arm-smmu 5000000.iommu: Blocked unknown Stream ID 0x140; boot with arm-smmu.disable_bypass=0"),
    ("iommu.timeout", "iommu ivhd0: AMD-Vi: Completion-Wait loop timed out"),
    ("iommu.timeout", "DMAR: VT-d detected Invalidation Queue Error: Reason f"),
    (
        "mlx5.cmd_timeout",
        "mlx5_core 0000:01:00.0: wait_func:1062: 2ERR_QP(0x507) timeout. Will cause a leak of a command resource",
    ),
    (
        "mlx5.cmd_timeout",
        "mlx5_core 0000:01:00.0: cmd_work_handler:1042: cmd[0]: QUERY_PAGES(0x107) canceled on out of queue timeout.",
    ),
    (
        "mlx5.health",
        "mlx5_core 0000:01:00.0: poll_health:739:(pid 0): device's health compromised - reached miss count",
    ),
    ("mlx5.health", "mlx5_core 0000:01:00.0: print_health_info:506:(pid 0): synd 0x1: firmware internal error"),
    (
        "mlx5.health",
        "mlx5_core 0000:01:00.0: mlx5_function_setup:1160:(pid 8): Firmware over 120000 MS in pre-initializing state",
    ),
    ("mlx5.health", "mlx5_core 0000:04:00.0: mlx5_enter_error_state:125:(pid 411): start"),
    (
        "mlx5.pci_err",
        "mlx5_core 0000:01:00.1: mlx5_pci_err_detected Device state = 1 pci_status: 1. Exit, result = 3, need reset",
    ),
    (
        "mlx5.tx_timeout",
        "mlx5_core 0000:01:00.0 enp1s0f0np0: NETDEV WATCHDOG: CPU: 12: transmit queue 5 timed out 5432 ms",
    ),
    ("mlx5.tx_timeout", "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out 5184 ms"),
    ("lockup", "watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [irq/105-aerdrv:1246]"),
    ("lockup", "NMI watchdog: Watchdog detected hard LOCKUP on cpu 0dModules linked in: mlx5_ib"),
    ("lockup", "rcu: INFO: rcu_tasks detected stalls on tasks:"),
    ("lockup", "INFO: rcu_sched self-detected stall on CPU { 3}  (t=60000 jiffies g=1 c=0 q=2)"),
    ("gpu.fell_off", "NVRM: GPU at PCI:0000:03:00.0 has fallen off the bus."),
    ("gpu.fell_off", "NVRM: GPU at 000f:01:00.0: GPU has fallen off the bus."),
    ("hw.fatal", "{1}[Hardware Error]: event severity: fatal"),
    ("hw.fatal", "{3}event severity: fatal"),
    ("serror", "SError Interrupt on CPU19, code 0xbe000411 -- SError"),
    ("serror", "Bad mode in Error handler detected on CPU1, code 0xbf000002 -- SError"),
)


@pytest.mark.parametrize(("kind", "message"), PRECURSORS)
def test_a_precursor_pages_in_every_wording_the_kernels_use(kind: str, message: str) -> None:
    assert label_of(message) == "page"
    finding = MATCHER.classify(message)
    assert finding is not None
    assert finding.kind == kind


MILD = (
    "mlx5_core 0000:01:00.0: mlx5_pci_slot_reset Device state = 2 pci_status: 1. Exit, err = 0, result = 5, recovered",
    "mlx5_core 0000:08:00.0: wait_func_handle_exec_timeout:1083: cmd[4]: QUERY_HCA(0x100) recovered after timeout",
    "pcieport 0000:00:1c.5: AER: Correctable error message received from 0000:00:1c.5",
    "igb 0000:09:00.0: AER: aer_status: 0x00001000, aer_mask: 0x00002000",
    "NVRM: Xid (PCI:0009:01:00): 145, RLW_REMAP  Nonfatal XC0 i0 Link 00 (0x4 0x0 0x0 0x0 0x0 0x0)",
    "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    "NVRM: Xid (PCI:000f:01:00): 109, pid=2702, name=python3, errorString CTX SWITCH TIMEOUT, Info 0x1c00d",
    "traps: python3[4242] general protection fault ip:7f11c5c8f0a1 sp:7ffd2d0b9e40 error:0 in libc.so.6[7f11c5+195000]",
    "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
    "{1}[Hardware Error]: event severity: corrected",
    "BERT: Error records from previous boot:",
    "DMAR: [DMA Read NO_PASID] Request device [01:00.0] fault addr 0xff0f0000 [fault reason 0x06] PTE Read access",
    "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
)


@pytest.mark.parametrize("message", MILD)
def test_a_mild_relative_of_a_precursor_warns_and_does_not_page(message: str) -> None:
    assert label_of(message) == "warn", MATCHER.classify(message)
