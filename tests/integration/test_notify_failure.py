"""`notify-failure` against a webhook: whatever is wrong with the configuration, somebody is told."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.cli.notify_failure import ServiceResult, failure_text
from watchdog.demo.rig import Alert, Phone
from watchdog.loading import salvage_receivers

ENDED = {"MONITOR_SERVICE_RESULT": "exit-code", "MONITOR_EXIT_CODE": "exited", "MONITOR_EXIT_STATUS": "64"}
UNIT = "inference-watchdog.service"
GOOD = "servers:\n  - {name: a, base_url: http://127.0.0.1:9/v1}\nreceivers:\n  - name: phone\n    url: URL\n"


class Station:
    """A phone, and the command in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.alerts: list[Alert] = []
        self.phone = Phone(self.alerts.append)
        self.config = folder / "config.yaml"

    def write(self, text: str) -> None:
        self.config.write_text(text.replace("URL", self.phone.url))
        self.config.chmod(0o600)

    async def run(self, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "watchdog", "notify-failure", "--config", str(self.config), *options, UNIT]
        kept = {name: value for name, value in os.environ.items() if "SERVICE_RESULT" not in name}
        return await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, check=False, env={**kept, **environ}, timeout=60
        )


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    made = Station(tmp_path)
    await made.phone.start()
    yield made
    await made.phone.stop()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("servers:", "servrs:"), "did you mean servers?"),
        (GOOD.replace("base_url", "base-url"), "base_url"),
        (GOOD + "hosts: [\n", "config.yaml:"),
        (GOOD.replace("  - {name: a", "  - {name: {a"), "config.yaml:"),
        (GOOD + "    min_severity: loud\n", "loud"),
        (GOOD + "  - name: mail\n    url: mailto://${env:NOT_SET_ANYWHERE}@x\n", "NOT_SET_ANYWHERE"),
        (GOOD + "  - name: 'open\n    url: json://127.0.0.1:1/\n", "config.yaml:"),
        ("\tservers: 1\n" + GOOD, "config.yaml:1:1"),
    ],
)
async def test_a_broken_configuration_still_tells_its_receivers(station: Station, text: str, said: str) -> None:
    station.write(text)
    done = await station.run(**ENDED)
    assert done.returncode == 0, done.stderr
    (alert,) = station.alerts
    assert alert.title.startswith("NEW inference-watchdog cannot start: ")
    assert len(alert.title) <= 80
    assert said in alert.message
    assert "ended: exit-code (exited 64)" in alert.message
    assert alert.message.splitlines()[-1].endswith("· attempt 1")
    assert station.phone.url not in done.stdout + done.stderr


async def test_with_a_good_configuration_it_tells_how_the_service_ended(station: Station) -> None:
    station.write(GOOD)
    done = await station.run(MONITOR_SERVICE_RESULT="oom-kill", MONITOR_EXIT_CODE="killed", MONITOR_EXIT_STATUS="KILL")
    assert done.returncode == 0
    (alert,) = station.alerts
    assert alert.title == "NEW inference-watchdog has failed: oom-kill (killed KILL)"
    assert UNIT in alert.message


async def test_where_nothing_can_be_read_the_fallback_hears_it(station: Station, tmp_path: Path) -> None:
    station.write("{{{{ nothing of this is yaml")
    done = await station.run(**ENDED, INFERENCE_WATCHDOG_FALLBACK_URL=station.phone.url)
    assert done.returncode == 0
    (tmp_path / "secret_fallback_url").write_text(station.phone.url + "\n")
    done = await station.run(**ENDED, CREDENTIALS_DIRECTORY=str(tmp_path))
    assert done.returncode == 0
    station.config.unlink()
    done = await station.run(**ENDED, INFERENCE_WATCHDOG_FALLBACK_URL=station.phone.url)
    assert done.returncode == 0
    assert len(station.alerts) == 3
    assert "does not exist" in station.alerts[2].message


async def test_nobody_to_tell_is_said_and_exits_2(station: Station) -> None:
    station.write("{{{{")
    done = await station.run(**ENDED)
    assert done.returncode == 2
    assert "INFERENCE_WATCHDOG_FALLBACK_URL" in done.stderr
    assert "Traceback" not in done.stderr


async def test_repeated_starts_are_counted_after_the_end_and_told_before_the_next(
    station: Station, tmp_path: Path
) -> None:
    station.write(GOOD)
    place = {"RUNTIME_DIRECTORY": str(tmp_path)}
    crash = {"SERVICE_RESULT": "signal", "EXIT_CODE": "killed", "EXIT_STATUS": "SEGV", **place}
    for ending in (
        {"SERVICE_RESULT": "success", "EXIT_CODE": "exited", "EXIT_STATUS": "0", **place},
        {"SERVICE_RESULT": "exit-code", "EXIT_CODE": "exited", "EXIT_STATUS": "64", **place},
        crash,
        crash,
    ):
        assert (await station.run("--count", **ending)).returncode == 0
        assert (await station.run("--if-repeated", **place)).returncode == 0
    assert station.alerts == [], "a wanted stop, a refused configuration, and two crashes"
    await station.run("--count", **crash)
    for _ in range(2):
        assert (await station.run("--if-repeated", **place)).returncode == 0
    (alert,) = station.alerts
    assert alert.title == "NEW inference-watchdog keeps failing: signal (killed SEGV)"
    assert "3 starts in a row" in alert.message


def test_a_long_list_of_problems_is_cut_and_counted() -> None:
    text = failure_text(UNIT, "", tuple(f"config.yaml:{n}:1: wrong" for n in range(1, 9)), 1)
    assert "- and 3 more" in text.body
    assert str(ServiceResult.from_environ({})) == ""


PIECES = st.sampled_from(
    [
        b"receivers:\n",
        b"  - name: a\n",
        b"    url: json://127.0.0.1/\n",
        b"    alertmanager: []\n",
        b"    url:\n",
        b"{",
        b"\xff",
    ]
)


@given(data=st.binary(max_size=300) | st.lists(PIECES, max_size=8).map(b"".join))
def test_salvaging_never_raises(data: bytes) -> None:
    for text in (data, b"receivers:\n  - name: a\n    url: json://127.0.0.1/\n" + data):
        found = salvage_receivers(text, "config.yaml", {})
        assert all(receiver.name and (receiver.url or receiver.alertmanager) for receiver in found)
        assert len({receiver.name for receiver in found}) == len(found)


@given(cut=st.integers(0, 400))
def test_every_complete_receiver_survives_a_file_that_breaks_off(cut: int) -> None:
    head = "receivers:\n  - name: a\n    url: json://127.0.0.1/a\n  - name: b\n    url: json://127.0.0.1/b\n"
    rest = "servers:\n  - {name: x, base_url: 'http://127.0.0.1/v1', headers: {a: \"b\"}}\nhosts: [{name: h}]\n"
    found = salvage_receivers((head + rest)[: len(head) + min(cut, len(rest))].encode(), "config.yaml", {})
    assert [receiver.name for receiver in found] == ["a", "b"]
