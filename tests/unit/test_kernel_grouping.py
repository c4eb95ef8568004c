"""Kernel lines folded into occurrences: keys, counts, bursts, details, history, and what is remembered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdog.kernlog.correlation import MAX_DEVICES, NEARBY_LINES, PciBridges, PcieFollowUps
from watchdog.kernlog.grouping import MAX_LINES_SHOWN, observations
from watchdog.kernlog.lines import KernelLine, Origin
from watchdog.kernlog.matcher import Matcher
from watchdog.model import Json, Nature, Observation, Severity, Verdict
from watchdog.rulebook import load_rules

MATCHER = Matcher(load_rules())
NOW = 1_795_000_000.0

FATAL = "pcieport 0000:00:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)"
STATUS = "pcieport 0000:00:00.0:   device [10de:22ce] error status/mask=00004000/00000000"
CMPLT = "pcieport 0000:00:00.0:    [14] CmpltTO                (First)"
ACS = "pcieport 0000:80:1b.4: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Receiver ID)"
NO_MEMORY = (
    "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from x @ y.c:1"
)
XID13 = "NVRM: Xid (PCI:000f:01:00): 13, Graphics SM Global Exception on (GPC 0, TPC 1, SM 0): Multiple Warp Errors"
XID119 = "NVRM: Xid (PCI:000f:01:00): 119, Timeout after 6s of waiting for RPC response from GPU0 GSP!"


def line(message: str, *, at: float | None = NOW, origin: Origin = Origin.KERNEL, **more: bool) -> KernelLine:
    return KernelLine(message, at, None, origin, **more)  # type: ignore[arg-type]  # more holds the two flags


def fold(*lines: KernelLine, memory: Json = None, now: float = NOW) -> dict[str, Observation]:
    found, _ = observations("worker", lines, MATCHER, now, memory)
    return {one.key: one for one in found}


RECOVERED = "pcieport 0000:00:00.0: AER: device recovery successful"
NOT_RECOVERED = "pcieport 0000:00:00.0: AER: device recovery failed"


def test_an_smmu_alert_names_whose_access_was_refused() -> None:
    smmu = "arm-smmu-v3 arm-smmu-v3.4.auto: event:"
    found = fold(
        line(f"{smmu} F_TRANSLATION client: 000f:01:00.0 sid: 0x100 ssid: 0x1 iova: 0xf5a000000000 ipa: 0x0"),
        line(f"{smmu} F_TRANSLATION client: 000f:01:00.0 sid: 0x100 ssid: 0x1 iova: 0xf5a000000000 ipa: 0x0"),
        line(f"{smmu} C_BAD_STREAMID client: (unassigned sid) sid: 0x20600 ssid: 0x0"),
    )
    (one,) = found.values()
    assert one.key == "kernel_log/worker/smmu.fault/arm-smmu-v3.4.auto"
    assert one.count == 3
    assert one.summary.count("access by 000f:01:00.0") == 1
    assert "unassigned" not in one.summary


def test_one_record_becomes_one_occurrence_naming_host_device_and_lines() -> None:
    found = fold(line(FATAL), line(STATUS), line(CMPLT))
    assert list(found) == ["kernel_log/worker/pcie.aer.fatal/0000:00:00.0"]
    fatal = found["kernel_log/worker/pcie.aer.fatal/0000:00:00.0"]
    assert (fatal.verdict, fatal.nature, fatal.severity) == (Verdict.FAIL, Nature.OCCURRENCE, Severity.PAGE)
    assert fatal.labels == {"host": "worker", "kind": "pcie.aer.fatal", "device": "0000:00:00.0"}
    assert [one.text for one in fatal.evidence] == [FATAL, STATUS.strip(), CMPLT.strip()]
    assert fatal.evidence[0].source == "worker kernel"
    assert fatal.count == 1
    assert fatal.subject == "worker"
    assert "0000:00:00.0" in fatal.summary
    assert "power-cycle" in fatal.advice


def test_a_completion_timeout_belongs_to_the_record_of_its_device_and_is_named_in_its_words() -> None:
    found = fold(line(FATAL), line(STATUS), line(CMPLT), line(RECOVERED, at=NOW + 3))
    (fatal,) = found.values()
    assert fatal.statement == "worker: Fatal PCIe error (0000:00:00.0), completion timeout, recovery successful"
    assert (fatal.count, len(fatal.evidence)) == (1, 4)


def test_a_completion_timeout_alone_or_of_another_device_or_much_later_pages_by_itself() -> None:
    alone = {"kernel_log/worker/pcie.cmplt_to/0000:00:00.0"}
    found = fold(line(CMPLT))
    assert set(found) == alone
    assert next(iter(found.values())).severity is Severity.PAGE
    assert len(fold(line(FATAL.replace("0000:00:00.0", "0000:05:00.0")), line(CMPLT))) == 2
    assert len(fold(line(FATAL), line(CMPLT, at=NOW + 60))) == 2
    assert set(fold(line(CMPLT), line(RECOVERED))) == alone | {"kernel_log/worker/pcie.aer.recovery/0000:00:00.0"}


def test_what_follows_a_record_folds_into_it_though_it_comes_with_the_next_batch() -> None:
    """The live stream brings lines as they are printed; a recovery takes its seconds."""
    _, memory = observations("worker", [line(FATAL)], MATCHER, NOW, None)
    stored = json.loads(json.dumps(memory))
    found, _ = observations("worker", [line(CMPLT, at=NOW + 1), line(NOT_RECOVERED, at=NOW + 2)], MATCHER, NOW, stored)
    (one,) = found
    assert one.key == "kernel_log/worker/pcie.aer.fatal/0000:00:00.0"
    assert one.statement == "worker: Fatal PCIe error (0000:00:00.0), completion timeout, recovery failed"
    assert one.severity is Severity.PAGE


PORT, NIC = "pcieport 0000:00:01.0", "mlx5_core 0000:01:00.0"
REPORTED = f"{PORT}: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0"
LOST = f"{NIC}: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)"
BRIDGE = "pci 0000:00:01.0: PCI bridge to [bus 01-02]"
CONTAINED = f"{PORT}: DPC: containment event, status:0x1f01 source:0x0100"
OF_THE_NIC = "kernel_log/worker/pcie.aer.fatal/0000:01:00.0"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("AER: device recovery failed", "recovery failed"),
        ("AER: device recovery successful", "recovery successful"),
        ("AER: Root Port link has been reset (0)", "recovery tried"),
    ],
)
@pytest.mark.parametrize("before", [(REPORTED,), (REPORTED, LOST), (BRIDGE, LOST)], ids=len)
def test_a_port_that_recovers_speaks_for_the_device_below_it(before: tuple[str, ...], said: str, words: str) -> None:
    """By the port that reported the error, or by the buses behind it; in one batch, and line by line."""
    ends = line(f"{PORT}: {said}", at=NOW + 4)
    (one,) = fold(*map(line, before), ends).values()
    assert (one.key, one.count > 0) == (OF_THE_NIC, True)
    assert one.summary.endswith(f", {words}")
    memory: Json = None
    for text in before:
        _, memory = observations("worker", [line(text)], MATCHER, NOW, memory)
        memory = json.loads(json.dumps(memory))
    (later,) = fold(ends, memory=memory).values()
    assert later.key == OF_THE_NIC
    assert later.summary.endswith(f", {words}")


def test_a_recovery_of_another_port_or_much_later_stands_for_itself() -> None:
    other = line("pcieport 0000:00:02.0: AER: device recovery failed", at=NOW + 2)
    late = line(f"{PORT}: AER: device recovery failed", at=NOW + 60)
    assert len(fold(line(BRIDGE), line(REPORTED), line(LOST), other)) == 2
    assert len(fold(line(BRIDGE), line(REPORTED), line(LOST), late)) == 2
    elsewhere = line("pcieport 0002:00:01.0: AER: device recovery failed", at=NOW + 2)
    assert len(fold(line(BRIDGE), line(LOST), elsewhere)) == 2, "the same bus of another domain"


@pytest.mark.parametrize(
    "first", [CONTAINED, f"{PORT}: DPC: containment event, status:0x000d, ERR_FATAL received from 0000:01:00.0"]
)
def test_a_containment_and_the_record_of_what_lies_behind_it_are_one(first: str) -> None:
    (one,) = fold(line(BRIDGE), line(first), line(LOST, at=NOW + 0.1)).values()
    assert one.key == "kernel_log/worker/pcie.dpc/0000:00:01.0"
    (other,) = fold(line(BRIDGE), line(LOST), line(first, at=NOW + 0.1)).values()
    assert other.key == OF_THE_NIC
    assert other.summary.endswith("cut off by its port")


def test_two_devices_that_fail_in_the_same_second_are_two() -> None:
    second = LOST.replace("0000:01:00.0", "0002:01:00.0")
    assert len(fold(line(BRIDGE), line(LOST), line(second))) == 2


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_names_of_ports_and_devices_are_survived(port: str, device: str) -> None:
    bridges = PciBridges({port: [0, 255]})
    bridges.note(f"pci {port}: PCI bridge to [bus {device}]")
    assert bridges.is_above(port, device) in {True, False}
    assert PciBridges({port: [device], device: "x"}).to_json() == {}


def test_repeats_fold_into_one_occurrence_with_count_first_and_last() -> None:
    found = fold(*(line(ACS, at=NOW + second) for second in range(600)))
    (one,) = found.values()
    assert one.count == 600
    assert (one.measurements["first_at"], one.measurements["last_at"]) == (NOW, NOW + 599)
    assert len(one.evidence) == MAX_LINES_SHOWN
    assert "600 lines" in one.statement


def test_a_new_device_and_a_new_kind_get_keys_of_their_own() -> None:
    other = FATAL.replace("0000:00:00.0", "0002:00:00.0")
    assert len(fold(line(FATAL), line(other), line(XID13))) == 3


def test_a_port_that_names_the_culprit_folds_with_the_culprits_own_line() -> None:
    found = fold(
        line("pcieport 0000:00:1d.0: AER: Corrected error received: 0000:07:00.0"),
        line("alx 0000:07:00.0: AER: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)"),
        line("alx 0000:07:00.0: AER:    [ 6] BadTLP"),
    )
    (one,) = found.values()
    assert one.labels["device"] == "0000:07:00.0"
    assert (one.count, len(one.evidence)) == (2, 3)


def test_an_old_kernels_requester_id_becomes_an_address() -> None:
    (one,) = fold(line("pcieport 0000:00:1c.5: AER: Corrected error received: id=00e5")).values()
    assert one.labels["device"] == "0000:00:1c.5"


def test_details_without_their_record_say_nothing() -> None:
    assert fold(line(STATUS), line("arm-smmu-v3 arm-smmu-v3.0.auto: 0x00000180 00000010")) == {}


def test_the_graver_line_gives_an_occurrence_its_severity() -> None:
    (one,) = fold(line(XID13), line(XID119), line(XID13)).values()
    assert one.severity is Severity.PAGE
    assert one.count == 3


def test_gpu_memory_complaints_alone_warn_with_their_count_however_many_come() -> None:
    memory: Json = None
    for second in range(25):
        found, memory = observations("worker", [line(NO_MEMORY, at=NOW + second)] * 3, MATCHER, NOW + second, memory)
        assert [(one.severity, one.count) for one in found] == [(Severity.WARN, 3)]


MODULE_ERROR = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x12345)"


def test_corrected_memory_errors_warn_alone_and_page_as_a_storm_over_several_scans() -> None:
    memory: Json = None
    severities = []
    for second in range(25):
        found, memory = observations("worker", [line(MODULE_ERROR, at=NOW + second)] * 5, MATCHER, NOW + second, memory)
        memory = json.loads(json.dumps(memory))
        severities.append(found[0].severity)
    assert severities == [Severity.WARN] * 19 + [Severity.PAGE] * 6


def test_the_same_number_of_corrected_errors_over_a_day_never_pages() -> None:
    memory: Json = None
    for step in range(60):
        at = NOW + step * 1500
        found, memory = observations("worker", [line(MODULE_ERROR, at=at)] * 3, MATCHER, at, memory)
        assert found[0].severity is Severity.WARN


def test_a_flood_of_corrected_errors_pages() -> None:
    corrected = "pcieport 0000:80:1b.4: AER: Correctable error message received from 0000:80:1b.4"
    (one,) = fold(*(line(corrected, at=NOW + number / 10) for number in range(600))).values()
    assert one.severity is Severity.PAGE


def test_suppressed_repeats_make_the_count_a_lower_bound_and_nothing_else() -> None:
    found = fold(line(ACS), line("mlx5_cmd_out_err: 353031 callbacks suppressed"))
    (one,) = found.values()
    assert "at least 1 line" in one.statement


def test_lost_lines_are_an_occurrence_of_their_own_with_their_number() -> None:
    (one,) = fold(line("Missed 4741 kernel messages")).values()
    assert (one.key, one.severity, one.count) == ("kernel_log/worker/log.missed/-", Severity.WARN, 4741)


def test_old_lines_at_first_contact_are_told_once_as_history() -> None:
    old = [line(FATAL, at=NOW - 7200, history=True), line(XID13, at=NOW - 9000, history=True)]
    found = fold(*old, line(ACS, history=True, at=NOW - 60))
    assert list(found) == ["kernel_log/worker/pcie.aer.nonfatal/0000:80:1b.4", "kernel_log/worker/log.history/-"]
    history = found["kernel_log/worker/log.history/-"]
    assert (history.severity, history.count) == (Severity.INFO, 2)
    assert history.evidence[0].text == FATAL


def test_the_previous_boots_history_does_not_page_however_young() -> None:
    (one,) = fold(line(FATAL, at=NOW - 60, history=True, post_mortem=True)).values()
    assert one.severity is Severity.INFO


def test_a_line_from_before_the_reboot_pages_and_says_so() -> None:
    (one,) = fold(line(FATAL, post_mortem=True)).values()
    assert one.severity is Severity.PAGE
    assert one.statement.endswith("before the reboot")
    assert one.evidence[0].text == f"before the reboot: {FATAL}"


def test_a_nic_that_recovered_says_so() -> None:
    head = "mlx5_core 0000:01:00.0: "
    found = fold(
        line(
            head
            + "mlx5_pci_err_detected Device state = 1 health sensors: 0 pci_status: 1. Enter, pci channel state = 2"
        ),
        line(head + "mlx5_pci_slot_reset Device state = 2 pci_status: 1. Exit, err = 0, result = 5, recovered"),
    )
    (one,) = found.values()
    assert one.severity is Severity.PAGE
    assert one.statement.endswith("last line: The NIC came back after a PCIe error")


def test_a_lost_gpu_told_in_three_lines_gets_its_address_in_every_form() -> None:
    parts = [
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]
    for lines in ([line(part) for part in parts], [line("\n".join(parts))]):
        (one,) = fold(*lines).values()
        assert one.key == "kernel_log/worker/gpu.fell_off/0000:b3:00.0"


def test_programs_lines_are_passed_over() -> None:
    assert fold(line(FATAL, origin=Origin.USERSPACE)) == {}


def test_many_devices_of_one_kind_become_one_occurrence_beyond_a_limit() -> None:
    lines = [line(f"NETDEV WATCHDOG: veth{number} (veth): transmit queue 0 timed out") for number in range(200)]
    found = fold(*lines)
    assert len(found) == MAX_DEVICES + 1
    assert found["kernel_log/worker/net.tx_timeout/(many)"].count == 200 - MAX_DEVICES


def test_many_devices_that_come_batch_by_batch_become_one_occurrence_too_for_an_hour() -> None:
    memory: Json = None
    keys = set()
    for batch in range(150):
        lines = [
            line(f"NETDEV WATCHDOG: veth{batch}x{number} (veth): transmit queue 0 timed out") for number in range(10)
        ]
        found, memory = observations("worker", lines, MATCHER, NOW + batch / 6, json.loads(json.dumps(memory)))
        keys |= {one.key for one in found}
    assert len(keys) == MAX_DEVICES + 1
    again = line("NETDEV WATCHDOG: veth0x1 (veth): transmit queue 0 timed out")
    assert list(fold(again, memory=memory, now=NOW + 30)) == ["kernel_log/worker/net.tx_timeout/veth0x1"]
    new = line("NETDEV WATCHDOG: eth7 (veth): transmit queue 0 timed out", at=NOW + 4000)
    assert list(fold(new, memory=memory, now=NOW + 4000)) == ["kernel_log/worker/net.tx_timeout/eth7"]


def test_evidence_holds_no_control_characters_and_no_endless_line() -> None:
    (one,) = fold(line(FATAL + "\x1b[2J\x07\n" + "x" * 9000)).values()
    assert all(char.isprintable() for char in one.evidence[0].text)
    assert len(one.evidence[0].text) <= 400


def test_memory_stays_small_whatever_the_devices_are_called() -> None:
    memory: Json = None
    for batch in range(20):
        lines = [line(f"EDAC MC{batch}{number}: 1 CE memory read error") for number in range(100)]
        _, memory = observations("worker", lines, MATCHER, NOW, memory)
    assert len(json.dumps(memory)) < 20_000


def test_a_detail_far_above_lends_its_device_to_no_record() -> None:
    detail, *record = (
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    between = [line(f"usb 1-1: filler {number}") for number in range(NEARBY_LINES)]
    lines = [line(detail), *between, *(line(part) for part in record)]
    assert list(fold(*lines)) == ["kernel_log/worker/gpu.fell_off/-"]
    del lines[1:3]  # the detail stands exactly `NEARBY_LINES` above the record now
    assert list(fold(*lines)) == ["kernel_log/worker/gpu.fell_off/0000:b3:00.0"]


MEMORIES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["bursts", "pcie", "devices", "a", "1"]), inner, max_size=3)
    ),
)


@pytest.mark.parametrize(
    "row",
    [
        None,
        7,
        "pcie.aer.fatal",
        {"pcie.aer.fatal": NOW},
        [],
        ["pcie.aer.fatal"],
        ["pcie.aer.fatal", NOW],
        ["pcie.aer.fatal", NOW, "a summary", "and more"],
        ["no such kind", NOW, "a summary"],
        [["pcie.aer.fatal"], NOW, "a summary"],
        [{}, NOW, "a summary"],
        ["pcie.aer.fatal", "soon", "a summary"],
        ["pcie.aer.fatal", None, "a summary"],
        ["pcie.aer.fatal", 10**400, "a summary"],
    ],
)
def test_a_remembered_record_that_is_damaged_counts_as_nothing(row: Json) -> None:
    assert PcieFollowUps({"0000:00:00.0": row}).to_json() == {}
    assert set(fold(line(CMPLT), memory={"pcie": {"0000:00:00.0": row}})) == {
        "kernel_log/worker/pcie.cmplt_to/0000:00:00.0"
    }


@settings(max_examples=60, deadline=None)
@given(MEMORIES)
def test_any_memory_is_survived(memory: Json) -> None:
    found, after = observations("worker", [line(NO_MEMORY)], MATCHER, NOW, memory)
    assert len(found) == 1
    json.dumps(after)
