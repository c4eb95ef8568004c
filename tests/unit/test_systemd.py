"""What systemd is told, over a real socket; and when it is told nothing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.clock import ManualClock
from watchdog.systemd import FIRST_PASS_PATIENCE_S, FailedStarts, ServiceManager


class Ear:
    """A datagram socket that stands where systemd listens."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return messages


class Checks:
    """A scheduler's progress, as told by the test."""

    def __init__(self) -> None:
        self.waiting: tuple[str, ...] = ("generation/a",)
        self.late: tuple[str, ...] = ()
        self.last_completed_at: dict[str, float] = {}

    def unfinished(self) -> tuple[str, ...]:
        return self.waiting

    def overdue(self, now: float) -> tuple[str, ...]:
        return self.late


@pytest.fixture(params=["path", "abstract"])
def ear(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ear, str]]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@inference-watchdog-test-{os.getpid()}"
    ear = Ear(address)
    yield ear, address
    ear.socket.close()


def manager(address: str, clock: ManualClock | None = None, **environ: str) -> ServiceManager:
    return ServiceManager(clock or ManualClock(), {"NOTIFY_SOCKET": address, **environ})


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_reload_is_announced_with_its_time_and_ended(ear: tuple[Ear, str]) -> None:
    ear_, address = ear
    service = manager(address)
    service.ready("Watching.")
    service.reloading()
    service.reloaded("Reload refused.")
    service.stopping()
    assert ear_.heard() == [
        "READY=1\nSTATUS=Watching.",
        "RELOADING=1\nMONOTONIC_USEC=1000000000",
        "READY=1\nSTATUS=Reload refused.",
        "STOPPING=1\nSTATUS=Stopping.",
    ]


def test_a_reload_during_the_start_does_not_say_ready_too_early(ear: tuple[Ear, str]) -> None:
    ear_, address = ear
    service = manager(address)
    service.reloading()
    service.reloaded("Watching.")
    assert ear_.heard() == []


async def test_ready_comes_after_the_first_pass_and_the_watchdog_is_fed_while_there_is_progress(
    ear: tuple[Ear, str],
) -> None:
    ear_, address = ear
    clock, checks = ManualClock(), Checks()
    service = manager(address, clock, WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid()))
    assert service.keep_alive_s == pytest.approx(10)
    task = asyncio.create_task(service.attend(checks, lambda: "Watching."))
    await clock.advance(20)
    assert ear_.heard() == []
    checks.waiting = ()
    await clock.advance(1)
    assert ear_.heard() == ["READY=1\nSTATUS=Watching.", "WATCHDOG=1"]
    await clock.advance(20)
    assert ear_.heard() == ["WATCHDOG=1"] * 2
    checks.late = ("generation/a",)
    await clock.advance(60)
    assert ear_.heard() == [], "stuck checks starve the watchdog"
    checks.late = ()
    await clock.advance(10)
    assert ear_.heard() == ["WATCHDOG=1"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_hung_server_does_not_hold_up_the_boot(ear: tuple[Ear, str]) -> None:
    ear_, address = ear
    clock = ManualClock()
    task = asyncio.create_task(manager(address, clock).attend(Checks(), lambda: "Watching."))
    await clock.advance(FIRST_PASS_PATIENCE_S + 1)
    await task
    assert ear_.heard() == ["READY=1\nSTATUS=Watching."]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
    ],
    ids=["unset", "zero", "no number", "meant for another process"],
)
def test_no_watchdog_is_fed_where_none_watches_us(environ: dict[str, str]) -> None:
    assert ServiceManager(ManualClock(), environ).keep_alive_s is None


def test_a_service_manager_that_does_not_listen_stops_nothing(tmp_path: Path) -> None:
    address = str(tmp_path / "nobody")
    service = manager(address)
    with capture_logs() as logs:
        service.ready("Watching.")
        service.reloading()
    assert [(entry["event"], entry["message"]) for entry in logs] == [
        ("service_manager_unreachable", "READY=1"),
        ("service_manager_unreachable", "RELOADING=1"),
    ]
    ear = Ear(address)
    service.reloaded("Watching again.")
    assert ear.heard() == ["READY=1\nSTATUS=Watching again."], "it speaks on when somebody listens"
    ear.socket.close()


def test_without_a_service_manager_nobody_is_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("watchdog.systemd.socket.socket", lambda *kinds: opened.append(kinds))
    service = ServiceManager(ManualClock(), {})
    with capture_logs() as logs:
        service.ready("Watching.")
        service.reloading()
        service.reloaded("Watching.")
        service.stopping()
    assert (opened, logs) == ([], [])


def test_the_third_failed_start_is_told_once_an_hour_until_a_good_one(tmp_path: Path) -> None:
    starts = FailedStarts(tmp_path)
    now = 1_795_000_000.0
    for _ in range(2):
        starts.note("exit-code (exited 1)")
        assert starts.due(now) is None
    starts.note("watchdog (killed ABRT)")
    assert starts.due(now) == (3, "watchdog (killed ABRT)")
    starts.mark_notified(now)
    starts.note("exit-code (exited 1)")
    assert starts.due(now + 3599) is None
    assert starts.due(now + 3601) == (4, "exit-code (exited 1)")
    assert starts.due(now - 10) == (4, "exit-code (exited 1)"), "a clock set back does not silence it"
    starts.clear()
    starts.note("exit-code (exited 1)")
    assert starts.due(now + 9999) is None


def test_without_a_directory_of_the_service_manager_nothing_is_counted() -> None:
    starts = FailedStarts.of_this_service({})
    for _ in range(5):
        starts.note("exit-code")
    assert starts.due(0.0) is None
    starts.clear()


def test_a_damaged_count_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "failed-starts.json").write_text('{"count": "many"')
    starts = FailedStarts.of_this_service({"RUNTIME_DIRECTORY": f"{tmp_path}:/elsewhere"})
    starts.note("exit-code")
    assert starts.due(0.0) is None
