"""The packaged service under a real systemd: from the installation to the purge. In this order, in one container."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.installed_package import CONFIG, STATE, UNIT, Installed
from tests.support.packages import Packages, as_version
from tests.support.systemd_container import container
from watchdog.selfwatch.local_network import LINUX_ROUTES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real,
    pytest.mark.xdist_group("packages"),
    pytest.mark.timeout(240),
    pytest.mark.alone,
]


@pytest.fixture(scope="module")
def installed(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    directory = tmp_path_factory.mktemp("container")
    with container(directory) as inside:
        station = Installed(inside, directory)
        said = station.set_up(packages.deb)
        assert "inference-watchdog service validate" in said, "the installation says what to do next"
        yield station


def ensure_running(installed: Installed) -> None:
    installed.configure()
    installed.chat("ok")
    installed.inside.run("rm", "-f", "/srv/rig/phone-down")
    if not installed.is_active():
        installed.inside.run("systemctl", "restart", UNIT)
    installed.inside.wait(installed.started_well, what="a good start")


def test_an_installation_starts_nothing_and_closes_its_secrets(installed: Installed) -> None:
    inside = installed.inside
    assert inside.run("systemctl", "is-enabled", UNIT, check=False) == "disabled"
    assert inside.run("systemctl", "is-active", UNIT, check=False) == "inactive"
    paths = [f"/etc/inference-watchdog/{name}" for name in ("credentials", "environment", "config.yaml")]
    listed = inside.run("stat", "--format=%A %U %n", *paths)
    assert [line.split()[:2] for line in listed.splitlines()] == [
        ["drwx------", "root"],
        ["-rw-------", "root"],
        ["-rw-r--r--", "root"],
    ]


def test_the_units_are_clean_and_the_sandbox_is_tight(installed: Installed) -> None:
    folder = "/usr/lib/systemd/system"
    for name in (UNIT, "inference-watchdog-failed@.service"):
        said = installed.inside.run("systemd-analyze", "verify", "--recursive-errors=yes", f"{folder}/{name}")
        assert said == ""
        installed.inside.run("systemd-analyze", "security", "--offline=true", "--threshold=13", f"{folder}/{name}")


def test_a_broken_configuration_fails_visibly_and_pages(installed: Installed) -> None:
    installed.configure(servers="servrs")
    installed.inside.run("systemctl", "reset-failed", check=False)
    said = installed.inside.run("systemctl", "enable", "--now", UNIT, check=False)
    assert "failed" in said
    installed.inside.wait(lambda: installed.inside.show(UNIT, "ActiveState") == "failed", what="the failed state")
    assert installed.inside.show(UNIT, "ExecMainStatus") == "64"
    status = installed.inside.run("systemctl", "status", "--no-pager", UNIT, check=False)
    assert "config.yaml:1:1: servrs: unknown key (did you mean servers?)" in status
    installed.inside.wait(lambda: installed.alerts("NEW inference-watchdog cannot start"), what="the page")
    ((title, text),) = installed.alerts("NEW inference-watchdog")
    assert len(title) <= 80
    assert "did you mean servers?" in text
    assert UNIT in text
    time.sleep(2)
    assert installed.inside.show(UNIT, "ActiveState") == "failed", "it waits for the correction"


def test_enabled_it_becomes_ready_only_after_the_first_pass(installed: Installed) -> None:
    installed.configure()
    installed.chat("slow")
    inside = installed.inside
    inside.run("systemctl", "reset-failed", UNIT)
    inside.run("systemctl", "enable", "--now", UNIT)
    assert installed.is_active()
    ready_us = int(inside.show(UNIT, "ActiveEnterTimestampMonotonic"))
    lines = [json.loads(line) for line in inside.run("journalctl", "-o", "json", "-u", UNIT).splitlines()]
    passed: dict[str, int] = {}
    for line in lines:
        message = str(line["MESSAGE"])
        event = json.loads(message) if message.startswith("{") else {}
        if event.get("event") == "observation":
            passed.setdefault(event["check"], int(line["__MONOTONIC_TIMESTAMP"]))
    assert {"generation/deepseek", "kernel_log/head"} <= set(passed)
    assert ready_us > max(passed["generation/deepseek"], passed["kernel_log/head"]) - 50_000, "journald stamps late"
    assert inside.show(UNIT, "StatusText") == "Watching 1 server and 1 host."


def test_under_the_sandbox_it_gets_text_and_reads_a_real_kernel_log(installed: Installed) -> None:
    ensure_running(installed)
    rows = installed.checks()
    assert rows["generation/deepseek"]["phase"] == rows["kernel_log/head"]["phase"] == "ok"
    pid = installed.main_pid()
    status = installed.inside.run("cat", f"/proc/{pid}/status")
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in status.splitlines())}
    assert fields["Uid"][0] != "0"
    assert fields["CapEff"] == ["0000000000000000"]
    assert fields["NoNewPrivs"] == ["1"]
    assert fields["Seccomp"] == ["2"]
    seen = installed.inside.run("nsenter", f"--target={pid}", "--mount", "cat", str(LINUX_ROUTES))
    assert seen.startswith("Iface"), "it must see its own routes to tell a dead network from a dead server"
    journal = installed.inside.run("journalctl", "--no-pager", "-u", UNIT)
    assert "Traceback" not in journal
    assert "/alerts" not in journal, "the receiver's URL is a secret"


def test_a_reload_keeps_the_process_and_a_bad_file_is_refused(installed: Installed) -> None:
    ensure_running(installed)
    pid = installed.main_pid()
    installed.configure(servers="servrs")
    installed.inside.run("systemctl", "reload", UNIT)
    installed.inside.wait(lambda: "refused" in installed.inside.show(UNIT, "StatusText"), what="the refusal")
    installed.configure()
    installed.inside.run("systemctl", "reload", UNIT)
    installed.inside.wait(lambda: "Watching" in installed.inside.show(UNIT, "StatusText"), what="the good reload")
    assert installed.main_pid() == pid
    assert installed.is_active()


def test_a_frozen_daemon_is_restarted_by_the_watchdog(installed: Installed) -> None:
    ensure_running(installed)
    pid, pages = installed.main_pid(), len(installed.alerts())
    installed.inside.run("kill", "-STOP", str(pid))
    installed.inside.wait(lambda: installed.main_pid() not in (0, pid) and installed.is_active(), 40, "a new process")
    assert "Watchdog timeout" in installed.inside.run("journalctl", "--no-pager", "-u", UNIT)
    installed.inside.wait(installed.started_well, what="a good start")
    assert len(installed.alerts()) == pages, "one restart that works wakes nobody"


def test_a_pending_alert_survives_kill_9_and_arrives_once(installed: Installed) -> None:
    ensure_running(installed)
    before = len(installed.alerts("FIRING"))
    installed.inside.run("touch", "/srv/rig/phone-down")
    installed.chat("500")
    installed.inside.wait(
        lambda: "firing" in (row["phase"] for row in installed.checks().values()), what="a pending alert"
    )
    pid = installed.main_pid()
    installed.inside.run("kill", "-KILL", str(pid))
    installed.inside.wait(lambda: installed.main_pid() not in (0, pid) and installed.is_active(), what="the restart")
    assert len(installed.alerts("FIRING")) == before
    installed.inside.run("rm", "/srv/rig/phone-down")
    installed.inside.wait(lambda: len(installed.alerts("FIRING")) > before, 90, "the alert after the restart")
    installed.chat("ok")
    installed.inside.wait(lambda: installed.alerts("RESOLVED deepseek"), what="the resolve")
    assert len(installed.alerts("FIRING")) == before + 1


def test_a_service_that_never_comes_up_again_pages_at_the_third_start(installed: Installed) -> None:
    """`Restart=always` alone would hide it: such a unit never enters the failed state."""
    ensure_running(installed)
    inside, drop_in = installed.inside, f"/etc/systemd/system/{UNIT}.d/crash.conf"
    inside.run("systemctl", "stop", UNIT)
    inside.write(drop_in, "[Service]\nExecStart=\nExecStart=/bin/false\n")
    inside.run("systemctl", "daemon-reload")
    inside.run("systemctl", "start", "--no-block", UNIT)
    inside.wait(lambda: installed.alerts("NEW inference-watchdog keeps failing"), what="the page")
    time.sleep(3)
    assert inside.show(UNIT, "ActiveState") in ("activating", "deactivating"), "it goes on trying"
    assert len(installed.alerts("NEW inference-watchdog keeps failing")) == 1
    inside.run("systemctl", "stop", UNIT)
    inside.run("rm", drop_in)
    inside.run("systemctl", "daemon-reload")
    ensure_running(installed)
    assert inside.run("ls", "/run/inference-watchdog/") == "", "a good start ends the count"


def test_an_upgrade_keeps_the_state_and_restarts(installed: Installed, packages: Packages, tmp_path: Path) -> None:
    ensure_running(installed)
    good_at = installed.checks()["kernel_log/head"]["last_good_at"]
    config, pid = installed.inside.run("cat", CONFIG), installed.main_pid()
    installed.install(as_version(packages.deb, "99.1-1", tmp_path))
    installed.inside.wait(lambda: installed.main_pid() not in (0, pid) and installed.is_active(), what="the restart")
    assert installed.inside.run("cat", CONFIG) == config
    assert installed.inside.run("systemctl", "is-enabled", UNIT) == "enabled"
    assert installed.checks()["kernel_log/head"]["last_good_at"] >= good_at


def test_an_upgrade_to_what_refuses_the_configuration_keeps_the_old_one_running(
    installed: Installed, packages: Packages, tmp_path: Path
) -> None:
    ensure_running(installed)
    pid = installed.main_pid()
    installed.configure(servers="servrs")
    said = installed.install(as_version(packages.deb, "99.2-1", tmp_path))
    assert "was NOT restarted" in said
    assert "did you mean servers?" in said
    assert installed.main_pid() == pid
    assert installed.is_active()


def test_service_install_writes_and_starts_a_unit_and_remove_undoes_it(installed: Installed) -> None:
    ensure_running(installed)
    inside, other, unit = installed.inside, "/etc/inference-watchdog/other.yaml", f"/etc/systemd/system/{UNIT}"
    inside.write(other, "servrs: []\n")
    said = inside.run("inference-watchdog", "service", "install", "--config", other, check=False)
    assert "did you mean servers?" in said
    inside.run("test", "!", "-e", unit)
    inside.run("cp", CONFIG, other)
    said = inside.run("inference-watchdog", "service", "install", "--config", other)
    assert f"wrote {unit}" in said
    assert inside.show(UNIT, "FragmentPath") == unit
    assert other in inside.show(UNIT, "ExecStart")
    inside.wait(installed.started_well, what="a good start")
    inside.run("inference-watchdog", "service", "remove")
    inside.run("test", "!", "-e", unit)
    assert inside.run("systemctl", "is-enabled", UNIT, check=False) == "disabled"
    assert "config.yaml" in inside.run("ls", "/etc/inference-watchdog")
    said = inside.run("inference-watchdog", "service", "remove", check=False)
    assert "nothing was removed" in said
    said = inside.run("inference-watchdog", "service", "install")
    assert "wrote" not in said, "the package brings its own unit"
    assert inside.show(UNIT, "FragmentPath") == f"/lib/systemd/system/{UNIT}"


def test_a_users_own_service_runs_in_its_sandbox(installed: Installed) -> None:
    inside, home = installed.inside, "/home/keeper"
    inside.run("useradd", "--create-home", "--home-dir", home, "--uid", "4321", "keeper")
    inside.run("install", "-d", "-o", "keeper", "-m", "700", "/run/user/4321", f"{home}/.config/inference-watchdog")
    config = f"{home}/.config/inference-watchdog/config.yaml"
    inside.write(
        config,
        "servers: [{name: a, base_url: 'http://127.0.0.1:9/v1'}]\nreceivers: [{name: p, url: 'json://127.0.0.1:9'}]\n",
    )
    inside.run("chown", "-R", "keeper:keeper", home)
    inside.run("chmod", "600", config)
    inside.run("systemctl", "start", "user@4321.service")
    bus = ("XDG_RUNTIME_DIR=/run/user/4321", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/4321/bus")
    keeper = ("setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", "env", f"HOME={home}", *bus)
    said = inside.run(*keeper, "inference-watchdog", "service", "install", "--user")
    assert f"wrote {home}/.config/systemd/user/{UNIT}" in said
    assert "smaller sandbox" not in said
    state = (*keeper, "systemctl", "--user", "is-active", UNIT)
    inside.wait(lambda: inside.run(*state, check=False) == "active", what="a good start")
    pid = inside.run(*keeper, "systemctl", "--user", "show", "--value", "-p", "MainPID", UNIT)
    assert "CapBnd:\t0000000000000000" in inside.run("cat", f"/proc/{pid}/status")
    inside.run(*keeper, "inference-watchdog", "service", "remove", "--user")
    inside.run("systemctl", "stop", "user@4321.service")
    inside.run("userdel", "--remove", "keeper", check=False)


def test_a_purge_leaves_nothing(installed: Installed) -> None:
    inside = installed.inside
    inside.run("dpkg", "--remove", "inference-watchdog")
    assert inside.run("systemctl", "is-active", UNIT, check=False) == "inactive"
    assert "config.yaml" in inside.run("ls", "/etc/inference-watchdog"), "a removal keeps configuration"
    assert "state.db" in inside.run("ls", f"/var/lib/private/{Path(STATE).name}"), "and state"
    inside.run("dpkg", "--purge", "inference-watchdog")
    own = f"/etc/systemd/system/{UNIT}.d"  # what this test wrote, not the package
    left = inside.run(
        *("find", "/etc", "/opt", "/usr", "/var", "/run", "-xdev", "-name", "*inference*watchdog*"),
        *("-not", "-path", f"{own}*", "-not", "-path", "/usr/local/*"),
        *("-not", "-path", "/var/cache/man/*"),  # man's own, for the page that `systemd-analyze verify` looked up
    )
    assert left == ""
