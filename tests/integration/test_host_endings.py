"""How a machine's end is told: what was seen of it before, and what of it answers now. Through the real board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.alerting_path import Station, configuration, observed, receiver
from tests.support.diagnosis_cases import scanned
from watchdog.checks.host_log import order_numbers, ordered_end, reading_condition, reboot
from watchdog.config import HostSettings
from watchdog.journal.boot import BootEnd, Order
from watchdog.model import Nature, Observation, Severity, Verdict
from watchdog.reasons import HostReason
from watchdog.ssh.errors import HostError, Stage

HOST = HostSettings(name="worker", address="192.0.2.11", user="monitor", known_hosts="/dev/null")
CMPLT = "mlx5_core 0000:01:00.0: [14] CmpltTO (First)"
GONE = HostError(
    HostReason.TIMEOUT, "192.0.2.11:22 did not answer a TCP connection within 30 s", stage=Stage.CONNECTING
)
SILENT = HostError(
    HostReason.SILENT,
    "192.0.2.11:22 accepts connections, but its SSH server sent nothing for 30 s",
    stage=Stage.GREETING,
)


def fatal(kind: str = "pcie.aer.fatal") -> Observation:
    return observed(
        Verdict.FAIL, f"kernel_log/worker/{kind}/0000:01:00.0", reason=kind, nature=Nature.OCCURRENCE, subject="worker",
        summary=kind, labels={"host": "worker", "kind": kind, "device": "0000:01:00.0"}, unit="line",
    )  # fmt: skip


async def _evidence(station: Station, before: str) -> dict[str, float]:
    """What was seen within the minute before the machine was gone; what the scans remember of it."""
    now = station.clock.wall()
    if before == "fatal":
        await station.look(fatal())
    elif before == "stuck":
        await station.look(fatal("lockup"))
    elif before in {"shutdown", "restart"}:
        order = Order(now, before == "restart")
        await station.look(ordered_end(HOST, order, now))
        return order_numbers(order)
    return {}


async def _away(station: Station, error: HostError, api: str, known: dict[str, float], times: int = 3) -> None:
    for _ in range(times):
        now = station.clock.wall()
        condition = reading_condition(HOST, error, now, 30.0, 0, "journal")
        await station.look(replace(condition, measurements={**condition.measurements, **known}))
        if api == "up":
            await station.ok()
        elif api == "down":
            await station.fail(reason="unreachable", summary="it cannot be reached", measurements={})
        await station.pass_time(120)


def _told(station: Station) -> list[tuple[str, str]]:
    return [(text.title, text.body) for _, text in station.sinks["mail"].accepted]


@pytest.mark.parametrize("api", ["up", "down"])
@pytest.mark.parametrize("state", ["silent", "gone"])
@pytest.mark.parametrize("before", ["fatal", "stuck", "shutdown", "restart", "nothing"])
async def test_what_is_said_of_a_machine_that_no_longer_answers(
    tmp_path: Path, state: str, before: str, api: str
) -> None:
    expected = {
        "fatal": "has locked up",
        "stuck": "has locked up",
        "shutdown": "was shut down on purpose",
        "restart": "restarts on purpose",
        "nothing": "cause not seen",
    }[before]
    if api == "up":
        expected = "probably only"  # text still comes from that machine: its SSH alone
    async with Station(tmp_path, configuration(receiver("mail"))) as station:
        await station.ok()
        await station.look(scanned("worker"))
        await station.pass_time(60)
        known = await _evidence(station, before)
        await station.pass_time(30, step_s=30)
        await _away(station, SILENT if state == "silent" else GONE, api, known)
        told = [(title, body) for title, body in _told(station) if "FIRING" in title]
        assert told, "it is told"
        assert any(expected in body for _, body in told), told
        paged = [
            one
            for one in station.ingest.open_incidents
            if one.severity is Severity.PAGE and one.nature is Nature.CONDITION
        ]
        meant = before in {"shutdown", "restart"} and api == "down"
        assert bool(paged) is not meant
        assert not any("on purpose" in body for _, body in told if before not in {"shutdown", "restart"})


async def test_a_machine_that_does_not_come_back_from_a_restart_in_time_is_a_page(tmp_path: Path) -> None:
    async with Station(tmp_path, configuration(receiver("mail"))) as station:
        await station.look(scanned("worker"))
        known = await _evidence(station, "restart")
        await station.pass_time(30, step_s=30)
        await _away(station, GONE, "down", known, times=5)
        assert not [one for one in station.ingest.open_incidents if one.severity is Severity.PAGE]
        await _away(station, GONE, "down", known, times=4)
        assert [one for one in station.ingest.open_incidents if one.severity is Severity.PAGE]
        assert any("has not come back from a restart" in body for _, body in _told(station))


def _ended(station: Station, *, clean: bool) -> Observation:
    now = station.clock.wall()
    lines = ((now - 300, CMPLT.replace("0000:01", "0000:01")), (now - 300, CMPLT.replace("0000:01", "0002:01")))
    ending = BootEnd(
        boot="a" * 32, next_boot="b" * 32, clean=clean, gone=False, tail=lines, firmware=(), restarted_at=now - 60
    )
    return reboot(HOST, ending, (), now)


# As recorded on machines that ended so: a live line before a hard lock, only silence before a power cut, no text of the
# panic itself, logind's word before an ordered end.
@pytest.mark.parametrize(
    ("story", "before", "clean", "first", "restart_is"),
    [
        ("hard lock", "fatal", False, "has locked up", Severity.PAGE),
        ("panic", "stuck", False, "has locked up or crashed", Severity.PAGE),
        ("power cut", "nothing", False, "cause not seen", Severity.WARN),
        ("poweroff", "shutdown", True, "was shut down on purpose", Severity.INFO),
        ("reboot", "restart", True, "restarts on purpose", Severity.INFO),
    ],
)
async def test_each_kind_of_end_gives_the_right_first_alert_and_the_right_end(
    tmp_path: Path, story: str, before: str, clean: bool, first: str, restart_is: Severity
) -> None:
    async with Station(tmp_path, configuration(receiver("mail", min_severity=Severity.INFO))) as station:
        mail = station.sinks["mail"]
        await station.ok()
        await station.look(scanned("worker"))
        await station.pass_time(60)
        known = await _evidence(station, before)
        await station.pass_time(30, step_s=30)
        await _away(station, GONE, "down", known)
        assert any(first in body for title, body in _told(station) if "FIRING" in title), story
        await station.look(_ended(station, clean=clean), scanned("worker"))
        (restarted,) = [one for one in station.ingest.open_incidents if one.reason == "host.rebooted"]
        assert restarted.severity is restart_is
        lines = "\n".join(fact.text for fact in restarted.evidence)
        assert "0000:01:00.0" in lines
        assert "0002:01:00.0" in lines, "two root ports are two"
        if restart_is is Severity.PAGE:
            body = next(text.body for _, text in mail.accepted if "restarted" in text.title)
            others = {one.id for one in station.ingest.open_incidents if one.severity is Severity.PAGE} - {restarted.id}
            assert others
            assert set(restarted.related) == others
            assert all(one in body for one in others)
            assert "before that: " in body
            assert "from then on: " in body
        await station.look(scanned("worker"))
        for _ in range(2):
            await station.ok()
            await station.pass_time(120)
        ended = [text.title for _, text in mail.accepted if text.title.startswith("RESOLVED")]
        by_line = before in {"fatal", "stuck"}  # told under the kernel line, which ends as quiet
        assert any("worker" in title for title in ended) is not by_line
        assert any("deepseek" in title for title in ended)
