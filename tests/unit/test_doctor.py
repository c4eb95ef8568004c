"""What the doctor makes of answers: each bad one has a fix, and what cannot be seen is said to be unseen."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest

from watchdog.checks.examination import Examined
from watchdog.config import Config, HostSettings, ReceiverSettings, Secret
from watchdog.doctor import Finding, Grade
from watchdog.doctor.examinations import examine_own
from watchdog.doctor.finding import Ask, ask_machine, properties
from watchdog.doctor.hosts import HostLook, examine_key, host_findings
from watchdog.doctor.machine import SLEEP_TARGETS, examine_own_clock, examine_python, examine_service, examine_sleep
from watchdog.doctor.state import examine_daemon, examine_receivers, examine_state, read_state
from watchdog.journal.frame import Hello
from watchdog.reasons import HostReason
from watchdog.ssh import HostError
from watchdog.store import ReceiverView, Snapshot

UNIT, LABEL = "inference-watchdog.service", "org.inference-watchdog.daemon"
NOW = 1_795_000_000.0


def answers(**said: str) -> Ask:
    """A machine whose tools say these words; those that are not named do not exist."""
    return lambda *words: said.get(words[0])


def good(finding: Finding) -> Finding:
    """Every finding obeys the contract: no pass without sight goes unmarked, no fault goes without a fix."""
    assert finding.words
    assert finding.fix or finding.grade is Grade.PASS
    assert finding.seen or "cannot tell" in finding.words
    return finding


def test_a_mac_that_falls_asleep_is_a_warning_with_the_command() -> None:
    found = good(
        examine_sleep(answers(pmset=" sleep                10 (sleep prevented by x)\n displaysleep 5\n"), "darwin")
    )
    assert found.grade is Grade.WARN
    assert "10 idle minutes" in found.words
    assert "pmset -c sleep 0" in found.fix


@pytest.mark.parametrize("text", [" sleep                0\n", " SleepDisabled\t\t1\n sleep 10\n"])
def test_a_mac_that_never_sleeps_passes(text: str) -> None:
    assert good(examine_sleep(answers(pmset=text), "darwin")).grade is Grade.PASS


def test_a_mac_that_does_not_say_is_unseen() -> None:
    assert not good(examine_sleep(answers(), "darwin")).seen
    assert not good(examine_sleep(answers(pmset="nonsense"), "darwin")).seen


def _states(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "state"
    path.write_text(text)
    return path


def test_masked_sleep_targets_pass_and_an_idle_action_warns(tmp_path: Path) -> None:
    states = _states(tmp_path, "freeze mem disk\n")
    masked = "masked\n" * len(SLEEP_TARGETS)
    assert good(examine_sleep(answers(systemctl=masked), "linux", states)).seen
    static = "static\n" * len(SLEEP_TARGETS)
    warned = good(examine_sleep(answers(systemctl=static, busctl='s "suspend"\ns "suspend"\n'), "linux", states))
    assert warned.grade is Grade.WARN
    assert "systemctl mask sleep.target" in warned.fix
    unsure = good(examine_sleep(answers(systemctl=static, busctl='s "ignore"\ns "ignore"\n'), "linux", states))
    assert (unsure.grade, unsure.seen) == (Grade.PASS, False)


def test_a_kernel_without_sleep_states_cannot_sleep_and_no_systemd_is_unseen(tmp_path: Path) -> None:
    assert good(examine_sleep(answers(), "linux", _states(tmp_path, "\n"))).seen
    assert not good(examine_sleep(answers(), "linux", _states(tmp_path, "mem\n"))).seen
    assert not good(examine_sleep(answers(), "linux", tmp_path / "missing")).seen


def test_our_own_clock_is_kept_not_kept_or_unseen() -> None:
    assert good(examine_own_clock(answers(timedatectl="NTP=yes\nNTPSynchronized=yes\n"), "linux")).seen
    loose = good(examine_own_clock(answers(timedatectl="NTP=no\nNTPSynchronized=no\n"), "linux"))
    assert (loose.grade, loose.reason) == (Grade.WARN, "clock_not_kept")
    assert not good(examine_own_clock(answers(), "linux")).seen
    assert good(examine_own_clock(answers(sntp="+0.0123 +/- 0.01 time.apple.com"), "darwin")).grade is Grade.PASS
    assert good(examine_own_clock(answers(sntp="+612.5 +/- 0.01 time.apple.com"), "darwin")).grade is Grade.WARN


@dataclass
class Named:
    """A distribution by name."""

    name: str

    @property
    def metadata(self) -> Message:
        """Its name, as importlib.metadata gives it."""
        message = Message()
        message["Name"] = self.name
        return message


def test_another_distribution_named_watchdog_is_a_failure_with_the_way_out() -> None:
    clash: list[metadata.Distribution] = [Named("aiohttp"), Named("Watchdog")]  # type: ignore[list-item]  # by name only
    found = good(examine_python(clash))
    assert (found.grade, found.reason) == (Grade.FAIL, "name_clash")
    assert "python3 -m venv" in found.fix
    assert good(examine_python()).grade is Grade.PASS


def unit(**changes: str) -> Ask:
    """systemd as it speaks of our unit."""
    shown = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "UnitFileState": "enabled",
             "Result": "success", "NRestarts": "0", **changes}  # fmt: skip
    return answers(systemctl="".join(f"{name}={value}\n" for name, value in shown.items()))


@pytest.mark.parametrize(
    ("changes", "grade", "fix"),
    [
        ({}, Grade.PASS, ""),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}, Grade.FAIL, f"journalctl -u {UNIT}"),
        ({"UnitFileState": "disabled"}, Grade.WARN, f"systemctl enable {UNIT}"),
        ({"NRestarts": "9"}, Grade.WARN, f"journalctl -u {UNIT}"),
        ({"LoadState": "not-found", "ActiveState": "inactive"}, Grade.WARN, "service install"),
    ],
)
def test_a_unit_is_judged_by_what_systemd_says(changes: dict[str, str], grade: Grade, fix: str) -> None:
    found = good(examine_service(unit(**changes), UNIT, LABEL, "linux"))
    assert found.grade is grade
    assert fix in found.fix


def test_without_systemd_the_service_is_unseen_not_well() -> None:
    assert not good(examine_service(answers(), UNIT, LABEL, "linux")).seen


def test_launchd_runs_it_or_says_why_not() -> None:
    running = answers(launchctl="system/x = {\n\tstate = running\n}\n")
    assert good(examine_service(running, UNIT, LABEL, "darwin")).grade is Grade.PASS
    dead = answers(launchctl="system/x = {\n\tstate = not running\n\tlast exit code = 64\n}\n")
    found = good(examine_service(dead, UNIT, LABEL, "darwin"))
    assert found.grade is Grade.FAIL
    assert "64" in found.words
    assert good(examine_service(answers(launchctl=""), UNIT, LABEL, "darwin")).reason == "not_installed"
    assert not good(examine_service(answers(), UNIT, LABEL, "darwin")).seen


def host(name: str = "head") -> HostSettings:
    """A host in the configuration."""
    return HostSettings(name=name, address="192.0.2.10", user="monitor", agent=True, known_hosts="known_hosts")


def seen(offset_s: float, trouble: HostError | None = None) -> Examined:
    """A login that showed this clock."""
    hello = Hello("a" * 32, NOW + offset_s, 1.0, 1000, frozenset({"monitor"}), "systemd 252", ("a" * 32,))
    return Examined(hello, offset_s, 0.6, 20, "journal", forced_command=False, trouble=trouble)


def clocks(*offsets_s: float) -> list[Finding]:
    """The findings about the clocks of hosts that are so far off."""
    looks = [HostLook(host(f"h{number}"), seen(offset), None) for number, offset in enumerate(offsets_s)]
    return [good(found) for found in host_findings(looks) if found.area == "clock"]


@pytest.mark.parametrize(
    ("offset_s", "grade"),
    [
        (0.4, Grade.PASS),
        (-4.0, Grade.PASS),
        (9.0, Grade.WARN),
        (-59.0, Grade.WARN),
        (600.0, Grade.FAIL),
        (-86400.0, Grade.FAIL),
    ],
)
def test_a_clock_is_judged_by_how_far_it_is_off(offset_s: float, grade: Grade) -> None:
    (found,) = clocks(offset_s)
    assert found.grade is grade
    if grade is not Grade.PASS:
        assert ("ahead of" if offset_s > 0 else "behind") in found.words
        assert "on h0" in found.fix


def test_when_all_hosts_agree_with_each_other_our_own_clock_is_the_wrong_one() -> None:
    found = clocks(600.0, 601.0)
    assert all("Run here, as all hosts agree" in one.fix for one in found)
    assert all("Run here" not in one.fix for one in clocks(600.0, 0.0))


def test_a_host_without_a_login_has_its_reason_and_an_unseen_clock() -> None:
    trouble = HostError(HostReason.SILENT, "its port is silent", "Look at its console.")
    login, clock = [good(found) for found in host_findings([HostLook(host(), None, trouble)])]
    assert (login.grade, login.reason, login.fix) == (Grade.FAIL, "silent", "Look at its console.")
    assert not clock.seen


def test_a_login_that_may_not_read_is_a_failed_permission() -> None:
    trouble = HostError(HostReason.NO_PERMISSION, "may not read", "Run there: x")
    found = host_findings([HostLook(host(), seen(0.0, trouble), trouble)])
    assert [(one.area, one.grade.value) for one in found] == [
        ("host", "pass"),
        ("permission", "fail"),
        ("clock", "pass"),
    ]


def test_a_key_of_an_agent_is_unseen_and_a_missing_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("")
    settings = HostSettings(name="h", address="192.0.2.1", user="u", known_hosts=str(known), agent=True)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    assert not good(examine_key(settings)).seen
    monkeypatch.delenv("SSH_AUTH_SOCK")
    assert good(examine_key(settings)).grade is Grade.FAIL


def snapshot(*receivers: ReceiverView, latest_at: float | None = None) -> Snapshot:
    """A state that holds these receivers."""
    return Snapshot(at=NOW, latest_at=latest_at, keys=(), open_incidents=(), receivers=receivers, silences=(), blind=())


PHONE = ReceiverSettings(name="phone", url=Secret("json://127.0.0.1:9/hook"))


@pytest.mark.parametrize(
    ("state", "grade", "sure"),
    [
        (None, Grade.WARN, False),
        (snapshot(ReceiverView("phone", 0, None, None, 0, "")), Grade.WARN, False),
        (snapshot(ReceiverView("phone", 0, NOW - 60, None, 0, "")), Grade.PASS, True),
        (snapshot(ReceiverView("phone", 0, NOW - 40 * 86400, None, 0, "")), Grade.WARN, True),
        (snapshot(ReceiverView("phone", 0, NOW - 60, None, 0, "", PHONE.address_hash)), Grade.PASS, True),
        (snapshot(ReceiverView("phone", 0, NOW - 60, None, 0, "", "another")), Grade.WARN, False),
        (snapshot(ReceiverView("phone", 2, NOW - 60, NOW - 5, 3, "HTTP 500")), Grade.FAIL, True),
    ],
)
def test_a_receiver_is_proven_by_a_delivery_alone(state: Snapshot | None, grade: Grade, sure: bool) -> None:
    (found,) = examine_receivers([PHONE], state, NOW)
    assert (good(found).grade, found.seen) == (grade, sure)
    if grade is not Grade.PASS:
        assert "test-alert phone" in found.fix


def test_a_daemon_is_seen_by_what_it_writes() -> None:
    assert good(examine_daemon(snapshot(latest_at=NOW - 5), NOW)).grade is Grade.PASS
    assert good(examine_daemon(snapshot(latest_at=NOW - 5000), NOW)).grade is Grade.WARN
    assert good(examine_daemon(None, NOW)).grade is Grade.WARN


def test_a_state_directory_that_is_not_there_yet_will_be_made(tmp_path: Path) -> None:
    (found,) = examine_state(tmp_path / "a" / "b")
    assert (good(found).grade, f"will be created in {tmp_path}" in found.words) == (Grade.PASS, True)
    assert read_state(tmp_path / "a" / "b", NOW) == (None, [])


def test_a_state_that_cannot_be_read_is_a_failure_and_no_guess_about_the_receivers(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + b"no database at all " * 400)
    config = Config(receivers=(ReceiverSettings(name="phone", url=Secret("json://127.0.0.1:9")),))
    found = {finding.area: finding for finding in examine_own(config, tmp_path) if finding.grade is Grade.FAIL}
    assert set(found) == {"state"}
    assert "is damaged" in found["state"].words
    assert good(found["state"]).reason == "unreadable"
    assert not [finding for finding in examine_own(config, tmp_path) if finding.area in {"receiver", "daemon"}]


def test_a_state_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.write_text("")
    (found,) = examine_state(place)
    assert (good(found).grade, found.reason) == (Grade.FAIL, "not_writable")


def test_a_disk_without_room_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchdog.doctor.state.ROOM_FAIL_BYTES", 1 << 62)
    monkeypatch.setattr("watchdog.doctor.state.ROOM_WARN_BYTES", 1 << 62)
    (found,) = examine_state(tmp_path)
    assert (good(found).grade, found.reason) == (Grade.FAIL, "disk_full")


def test_asking_a_tool_that_does_not_exist_gives_no_answer() -> None:
    assert ask_machine("no-such-tool-at-all", "--version") is None
    assert ask_machine("true") == ""
    assert properties("A=1\nB=x=y\nnoise\n") == {"A": "1", "B": "x=y"}
