"""Whole alerts with their diagnosis, through real ingest, store and outbox: trigger, reminder, resolve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support import diagnosis_cases
from tests.support.alerting_path import KEY, Station, configuration, line_seen, observed, receiver
from tests.support.diagnosis_cases import FROZEN, GIB, gpu
from watchdog.config import ProbeSettings
from watchdog.message import BODY_LIMIT
from watchdog.model import Confidence, Evidence, Observation, Severity, Verdict
from watchdog.overview.report import incident_json
from watchdog.overview.status import Status
from watchdog.policy import NextProbe, PatienceReason
from watchdog.store import Reader
from watchdog.vitals import Bounds, Gpu


def missed(reason: str = "no_reply", numbers: Mapping[str, float] | None = None) -> Observation:
    said = f"{reason}: as told"
    return observed(Verdict.FAIL, KEY, reason=reason, summary=said, measurements=numbers or {}, duration_s=60.0)


async def look_at_hosts(station: Station, head: Observation, worker: Observation) -> None:
    await station.pass_time(5)
    await station.look(head)
    await station.look(worker)
    await station.pass_time(115)


SPINS = diagnosis_cases.vitals("head", gpu(96, 20.4))
EMPTY = diagnosis_cases.vitals("worker", gpu(0, 11))


async def test_trigger_reminder_and_resolve_carry_the_diagnosis(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        await station.ok()
        for _ in range(2):
            await station.look(missed(numbers=FROZEN))
            await look_at_hosts(station, SPINS, EMPTY)
        await station.look(missed(numbers=FROZEN))
        assert phone.kinds == ["FIRING"]
        title, body = phone.accepted[0][1].title, phone.accepted[0][1].body
        assert title == "FIRING deepseek: no text for 4 min: one rank waits for the other"
        cause = (
            "likely: one rank waits for the other: head's GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work), "
            "memory 0 %, while worker's GPU 0 0 % at 11 W"
        )
        lines = body.split("\n")
        assert lines[1] == cause
        assert [line.split(" UTC ")[1].split(":")[0] for line in lines if line.startswith("- ")] == [
            "no_reply", "head vitals", "worker vitals"]  # fmt: skip
        assert lines[-3] == "look at: the ranks' logs and the link between them"
        assert len(body) < BODY_LIMIT
        await station.pass_time(3660)
        assert phone.kinds == ["FIRING", "STILL FIRING"]
        assert cause in phone.accepted[1][1].body
        await station.ok()
        await station.ok()
        assert phone.kinds == ["FIRING", "STILL FIRING", "RESOLVED"]
        over = phone.accepted[2][1]
        assert "was: likely, one rank waits for the other: head's GPU 0" in over.body
        assert "vitals" not in over.body


async def test_the_failure_ladder_is_one_incident_whose_words_change(tmp_path: Path) -> None:
    """DSpark#87: timeout, then 500, then refused, then loading for twelve minutes, then fine."""
    words = {}
    async with Station(tmp_path) as station:
        await station.ok()
        ladder = [*["no_reply"] * 3, "engine_dead", "refused", "loading", "loading"]
        for reason in ladder:
            await station.look(missed(reason, FROZEN if reason == "no_reply" else None))
            await look_at_hosts(station, diagnosis_cases.vitals("head", at=0), diagnosis_cases.vitals("worker", at=0))
            incident = station.ingest.open_incidents[0] if station.ingest.open_incidents else None
            if incident is not None and incident.diagnosis is not None:
                words[reason] = incident.diagnosis.name
        names = {"no_reply": "frozen", "engine_dead": "engine_dead", "refused": "process_gone", "loading": "loading"}
        assert words == names
        await station.ok()
        await station.ok()
        phone = station.sinks["phone"]
        assert phone.kinds == ["FIRING", "RESOLVED"]
        over = phone.accepted[1][1].body
        assert "[no_reply → engine_dead → refused → loading]" in over
        told = phone.accepted[0][1].body.split("\n")[1].removeprefix("likely: ")
        assert f"was: likely, {told}" in over, "what the page said, not what was found later"


async def test_flapping_then_three_in_a_row_counts_the_time_since_the_last_text(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(5):
            await station.look(missed())
            await station.pass_time(120)
            await station.ok()
            await station.pass_time(120)
        for _ in range(3):
            await station.look(missed())
            await station.pass_time(120)
        await station.restart()
        titles = station.sinks["phone"].titles
        assert titles[0].startswith("FIRING deepseek: flapping, ")
        assert titles[1].startswith("FIRING deepseek: no text for 4 min: ")


async def test_the_end_names_the_diagnosis_that_fired(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        for reason in ("no_reply", "no_reply", "no_reply", "refused", "loading"):
            await station.look(missed(reason, FROZEN if reason == "no_reply" else None))
            await station.pass_time(120)
        await station.restart()
        await station.ok()
        await station.ok()
        end = station.sinks["phone"].accepted[-1][1]
        assert "was: likely, the engine hangs: over 3 probes" in end.body
        assert "[no_reply → refused → loading]" in end.body


async def test_a_gpu_that_surely_hangs_pages_though_the_engine_is_busy_for_others(tmp_path: Path) -> None:
    busy = {"engine_answered": 1.0, "engine_busy": 1.0}
    hung = Gpu(index=0, name="NVIDIA H200", util=100, memory_util=0, power_w=127)
    empty = Gpu(index=1, name="NVIDIA H200", util=0, memory_util=0, power_w=124)
    config = configuration(receiver("phone", min_severity=Severity.PAGE), receiver("mail"))
    async with Station(tmp_path, config) as station:
        for _ in range(3):
            await station.look(replace(missed("busy", busy), severity=Severity.WARN))
            await station.pass_time(120)
        assert (station.sinks["mail"].kinds, station.sinks["phone"].kinds) == (["FIRING"], [])
        await station.look(diagnosis_cases.vitals("head", hung, empty, bounds=Bounds()))
        await station.look(replace(missed("busy", busy), severity=Severity.WARN))
        assert station.sinks["phone"].titles == ["FIRING deepseek: no text for 6 min: a rank hangs"]
        await station.pass_time(120)
        await station.look(diagnosis_cases.vitals("head"))
        await station.look(replace(missed("busy", busy), severity=Severity.WARN))
        assert station.ingest.open_incidents[0].severity is Severity.PAGE


async def test_a_look_that_comes_later_changes_what_the_reminder_says(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            await station.look(missed("no_token"))
        (incident,) = station.ingest.open_incidents
        assert incident.diagnosis is not None
        assert incident.diagnosis.confidence is Confidence.CANNOT_TELL
        await station.look(SPINS)
        await station.look(diagnosis_cases.vitals("worker", gpu(96, 19.0)))
        await station.pass_time(3660)
        trigger, reminder = (text.body for _, text in station.sinks["phone"].accepted)
        assert "cannot tell: busy or hung: the HTTP reply opens" in trigger
        assert "likely: the engine hangs: the HTTP reply opens, and head's GPU 0 96 % at 20 W" in reminder


async def test_status_and_history_carry_the_diagnosis_and_all_reasons(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        for _ in range(3):
            await station.look(missed(numbers=FROZEN))
            await look_at_hosts(station, SPINS, EMPTY)
        await station.look(missed("no_token", numbers=FROZEN))
        with Reader.open(tmp_path) as reader:
            now = station.clock.wall()
            (shown,) = Status.read(reader, now).as_json()["incidents"]
            (kept,) = [incident_json(one) for one in reader.incidents(0, now)]
    for found in (shown, kept):
        assert found["diagnosis"]["sentence"].startswith("one rank waits for the other: head's GPU 0")
        assert found["diagnosis"]["confidence"] == "likely"
        assert found["diagnosis"]["look_at"] == "the ranks' logs and the link between them"
        assert found["reasons"] == ["no_reply", "no_token"]


async def test_an_incident_without_a_diagnosis_says_null(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.look(line_seen())
        with Reader.open(tmp_path) as reader:
            (shown,) = Status.read(reader, station.clock.wall()).as_json()["incidents"]
    assert shown["diagnosis"] is None
    assert isinstance(shown["reasons"], list)


async def test_a_diagnosis_survives_a_restart(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            await station.look(missed(numbers=FROZEN))
        before = station.ingest.open_incidents[0]
        await station.restart()
        after = station.ingest.open_incidents[0]
        assert before.diagnosis is not None
        assert (after.diagnosis, after.reasons) == (before.diagnosis, ("no_reply",))
        await station.ok()
        await station.ok()
        assert "was: likely, the engine hangs: over 3 probes" in station.sinks["phone"].accepted[-1][1].body


async def test_a_precursor_before_the_first_miss_is_named_with_its_line(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        raw = Evidence(station.clock.wall(), "worker kernel", "pcieport 0000:01:00.0: AER: Uncorrectable (Fatal) error")
        await station.look(line_seen(evidence=(raw,)))
        await station.pass_time(40)
        for _ in range(3):
            await station.look(missed(numbers=FROZEN))
            await station.pass_time(120)
        body = station.sinks["phone"].accepted[1][1].body
        assert (
            "likely: the PCIe link or the network card fails: worker: pcie.aer.fatal on 0000:01:00.0 40 s before"
            in body
        )
        assert body.index(raw.text) < body.index("no_reply: as told")


async def test_lines_of_a_host_whose_clock_is_off_say_so(tmp_path: Path) -> None:
    """The reading has placed them on our clock; whoever looks at the host's own log finds them 70 s later there."""
    async with Station(tmp_path) as station:
        await station.look(diagnosis_cases.vitals("worker", clock_offset_s=70.0))
        await station.look(line_seen(evidence=(Evidence(station.clock.wall(), "worker kernel", "a fatal line"),)))
        body = station.sinks["phone"].accepted[0][1].body
    assert "- 11:06:40 UTC worker kernel (its clock +70 s): a fatal line" in body


async def test_vitals_alone_alert_nobody_whatever_they_say(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(8):
            await station.look(diagnosis_cases.vitals("head", gpu(100, 12), available=GIB / 2, pressure=80))
            await station.look(diagnosis_cases.unread("worker", "silent"))
            await station.pass_time(300)
        assert station.sinks["phone"].kinds == []
        assert station.ingest.open_incidents == ()


async def test_less_memory_than_configured_three_times_is_one_warning(tmp_path: Path) -> None:
    low = replace(diagnosis_cases.vitals("head", available=GIB), verdict=Verdict.FAIL, reason="low_memory")
    async with Station(tmp_path) as station:
        for _ in range(5):
            await station.look(low)
        assert station.sinks["phone"].kinds == ["FIRING"]
        assert "1.0 GiB of 119.0 GiB memory available" in station.sinks["phone"].accepted[0][1].body


async def test_hostile_words_from_server_and_kernel_stay_harmless_in_the_whole_alert(tmp_path: Path) -> None:
    evil = (
        "\x1b[2J\u202e<script>alert(1)</script> [x](http://192.0.2.66) {host}\nincident 00000000 · attempt 1 "
        + "A" * (1 << 20)
    )
    async with Station(tmp_path) as station:
        for _ in range(3):
            bad = Evidence(station.clock.wall(), evil[:60], evil)
            await station.look(line_seen(summary=evil, evidence=(bad,)))
            await station.look(observed(Verdict.FAIL, KEY, reason="auth", summary=evil, evidence=(bad,), advice=evil))
        alerts = [text for _, text in station.sinks["phone"].accepted]
    assert len(alerts) == 2
    for text in alerts:
        lines = text.body.split("\n")
        assert len(text.body) <= BODY_LIMIT
        assert all(line.isprintable() for line in (text.title, *lines))
        assert len([line for line in lines if line.startswith("incident ")]) == 1


async def test_counters_that_stand_still_and_a_gpu_at_idle_power_prove_a_death_and_neither_alone(
    tmp_path: Path,
) -> None:
    async def patience(station: Station) -> NextProbe | None:
        coming = station.ingest.next_probe("deepseek", ProbeSettings())
        return None if coming == NextProbe(None, None, PatienceReason.UNPROVEN) else coming

    async with Station(tmp_path / "both") as station:
        await station.ok()
        await station.look(missed(numbers=FROZEN))
        assert await patience(station) is None, "counters alone never prove it: a long prompt looks the same"
        await station.pass_time(5)
        await station.look(SPINS)
        assert await patience(station) == NextProbe(15.0, 15.0, PatienceReason.PROVEN_DEAD)
    async with Station(tmp_path / "gpu") as station:
        await station.ok()
        await station.look(missed())
        await station.pass_time(5)
        await station.look(SPINS)
        assert await patience(station) is None, "a GPU alone does not either"
    async with Station(tmp_path / "busy") as station:
        await station.ok()
        await station.look(SPINS)
        await station.pass_time(5)
        await station.look(missed(numbers=FROZEN))
        assert await patience(station) is None, "what the GPU did before the failure does not count"


async def test_a_slow_server_is_one_warning_with_the_power_of_its_gpus(tmp_path: Path) -> None:
    slowed = observed(
        Verdict.FAIL, "slow/deepseek", reason="slow", severity=Severity.WARN, subject="", labels={"server": "deepseek"},
        summary="alive, but 6.0× slower than its own median of 7 days (first token after 3 s, usually 0.5 s)",
    )  # fmt: skip
    async with Station(tmp_path, configuration(receiver("mail"))) as station:
        await station.ok()
        for _ in range(3):
            await station.look(slowed)
            await look_at_hosts(station, SPINS, EMPTY)
        (told,) = [text for _, text in station.sinks["mail"].accepted]
        assert told.title == "FIRING deepseek: slower than usual (4 min)"
        assert "cannot tell: nothing known explains it" in told.body
        assert "head vitals: 24.0 GiB of 119.0 GiB memory available; GPU 0 96 % at 20 W" in told.body
