"""This machine: does it stay awake, is its clock kept, does its Python environment hold only what it should."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from watchdog.doctor.finding import Ask, Finding, Grade, properties

SLEEP_TARGETS = ("sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target")
MASK = f"sudo systemctl mask {' '.join(SLEEP_TARGETS)}"
NEVER_SLEEP = "sudo pmset -c sleep 0 disablesleep 1"
PMSET_SLEEP = re.compile(r"^\s*sleep\s+(\d+)", re.MULTILINE)
PMSET_DISABLED = re.compile(r"^\s*(?:SleepDisabled|disablesleep)\s+1", re.MULTILINE)
POWER_STATES = Path("/sys/power/state")


def examine_sleep(ask: Ask, platform: str = sys.platform, power_states: Path = POWER_STATES) -> Finding:
    """Whether this machine may fall asleep: a sleeping watchdog is no watchdog."""
    return _mac_sleep(ask) if platform == "darwin" else _linux_sleep(ask, power_states)


def _mac_sleep(ask: Ask) -> Finding:
    settings = ask("pmset", "-g")
    if settings is None:
        return _unseen("sleep", "this Mac", "`pmset -g` gave no answer")
    found = PMSET_SLEEP.search(settings)
    if PMSET_DISABLED.search(settings) or (found and found[1] == "0"):
        held = " while it is on this power source" if not PMSET_DISABLED.search(settings) else ""
        return _well("sleep", "this Mac", f"does not sleep{held}")
    if found is None:
        return _unseen("sleep", "this Mac", "`pmset -g` names no sleep setting")
    return Finding(
        area="sleep",
        name="this Mac",
        grade=Grade.WARN,
        words=f"falls asleep after {found[1]} idle minutes, and sees nothing then",
        fix=f"Run `{NEVER_SLEEP}` and keep it on mains power.",
        reason="sleeps",
    )


def _linux_sleep(ask: Ask, power_states: Path) -> Finding:
    name = "this machine"
    try:
        if not power_states.read_text().strip():
            return _well("sleep", name, "cannot sleep: its kernel knows no sleep state")
    except OSError:
        return _unseen("sleep", name, "its kernel does not say which sleep states it has (a container?)")
    states = ask("systemctl", "is-enabled", *SLEEP_TARGETS)
    if states is None or not states.strip():
        return _unseen("sleep", name, "no systemd answers here")
    if states.split()[: len(SLEEP_TARGETS)] == ["masked"] * len(SLEEP_TARGETS):
        return _well("sleep", name, "does not sleep: the sleep targets are masked")
    logind = ask("busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
                 "org.freedesktop.login1.Manager", "IdleAction", "HandleLidSwitch")  # fmt: skip
    if logind and any(word in logind for word in ("suspend", "hibernate", "sleep")):
        return Finding(
            area="sleep",
            name=name,
            grade=Grade.WARN,
            words=f"logind may put it to sleep (idle, lid: {' '.join(logind.split())})",
            fix=f"Run `{MASK}`.",
            reason="sleeps",
        )
    return Finding(
        area="sleep",
        name=name,
        grade=Grade.PASS,
        words=f"cannot see all: logind does not suspend it, a desktop could; `{MASK}` makes sure",
        seen=False,
        reason="unseen",
    )


def examine_own_clock(ask: Ask, platform: str = sys.platform) -> Finding:
    """Whether this machine's own clock is kept by a time server."""
    if platform == "darwin":
        answer = ask("sntp", "-t", "3", "time.apple.com")
        found = re.search(r"([+-][0-9.]+)\s+\+/-", answer or "")
        if found is None:
            return _unseen("clock", "this machine", "no time server answered `sntp time.apple.com`")
        if abs(float(found[1])) < 5:
            return _well("clock", "this machine", f"is within {abs(float(found[1])):.1f} s of time.apple.com")
        return _clock_warning("sudo sntp -sS time.apple.com", f"is {found[1]} s off time.apple.com")
    shown = properties(ask("timedatectl", "show"))
    if "NTPSynchronized" not in shown:
        return _unseen("clock", "this machine", "`timedatectl` gives no answer, so nobody says whether it is kept")
    if shown["NTPSynchronized"] == "yes":
        return _well("clock", "this machine", "is kept by a time server")
    return _clock_warning("sudo timedatectl set-ntp true", "is kept by no time server")


def _clock_warning(command: str, words: str) -> Finding:
    return Finding(
        area="clock",
        name="this machine",
        grade=Grade.WARN,
        words=words,
        fix=f"Run `{command}`.",
        reason="clock_not_kept",
    )


def examine_python(distributions: Iterable[metadata.Distribution] | None = None) -> Finding:
    """Whether PyPI's `watchdog` shares our environment: both own the import name (docs/decisions/0002)."""
    found = metadata.distributions() if distributions is None else distributions
    names = {(one.metadata["Name"] or "").lower().replace("_", "-") for one in found}
    version = ".".join(str(part) for part in sys.version_info[:3])
    if "watchdog" in names:
        return Finding(
            area="python",
            name=f"Python {version}",
            grade=Grade.FAIL,
            words="PyPI's `watchdog` is installed in the same environment and overwrites our files",
            fix=(
                "Install inference-watchdog into an environment of its own: "
                "`python3 -m venv ~/inference-watchdog`, then its `bin/pip install`."
            ),
            reason="name_clash",
        )
    apart = "of its own" if sys.prefix != sys.base_prefix else "of the system (one of its own is safer)"
    return _well("python", f"Python {version}", f"no other `watchdog` beside us; the environment is {apart}")


def _well(area: str, name: str, words: str) -> Finding:
    return Finding(area=area, name=name, grade=Grade.PASS, words=words)


def _unseen(area: str, name: str, why: str) -> Finding:
    return Finding(area=area, name=name, grade=Grade.PASS, words=f"cannot see: {why}", seen=False, reason="unseen")


# Whether a service manager runs the daemon, and how it stands with it. Read-only questions.

SHOWN = "LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts"
RESTARTS_WARN = 5


def examine_service(ask: Ask, unit: str, label: str, platform: str = sys.platform) -> Finding:
    """The state of systemd's `unit`, of the system or our own, or of launchd's `label`."""
    return _launchd(ask, label) if platform == "darwin" else _systemd(ask, unit)


def _systemd(ask: Ask, unit: str) -> Finding:
    seen = False
    for scope in ((), ("--user",)):
        shown = properties(ask("systemctl", *scope, "show", "--property", SHOWN, unit))
        seen = seen or "LoadState" in shown
        if shown.get("LoadState") == "loaded":
            return _judge_unit(unit, shown, "systemctl" + "".join(f" {word}" for word in scope))
    if not seen:
        return _service_unseen(unit, "no systemd answers here")
    return _nobody(unit)


def _judge_unit(unit: str, shown: dict[str, str], systemctl: str) -> Finding:
    state, enabled = shown.get("ActiveState", ""), shown.get("UnitFileState", "")
    restarts = int(shown["NRestarts"]) if shown.get("NRestarts", "").isdigit() else 0
    sudo = "" if "--user" in systemctl else "sudo "
    journal = "journalctl --user" if "--user" in systemctl else "journalctl"
    if state != "active":
        return Finding(
            area="service",
            name=unit,
            grade=Grade.FAIL,
            words=f"is {state or 'unknown'} ({shown.get('SubState', '?')}, last result: {shown.get('Result', '?')})",
            fix=f"See why: `{journal} -u {unit} -n 20`; then `{sudo}{systemctl} restart {unit}`.",
            reason="not_running",
        )
    if not enabled.startswith("enabled"):
        return Finding(
            area="service",
            name=unit,
            grade=Grade.WARN,
            words=f"runs, but is {enabled or 'not enabled'}: it will not start with the machine",
            fix=f"Run `{sudo}{systemctl} enable {unit}`.",
            reason="not_enabled",
        )
    if restarts >= RESTARTS_WARN:
        return Finding(
            area="service",
            name=unit,
            grade=Grade.WARN,
            words=f"runs, but was restarted {restarts} times",
            fix=f"See why: `{journal} -u {unit} -n 50`.",
            reason="restarts",
        )
    return Finding(area="service", name=unit, grade=Grade.PASS, words="runs, and starts with the machine")


def _launchd(ask: Ask, label: str) -> Finding:
    shown = ask("launchctl", "print", f"system/{label}")
    if shown is None:
        return _service_unseen(label, "`launchctl` gives no answer")
    if not shown.strip():
        return _nobody(label)
    state = re.search(r"^\s*state = (.+)$", shown, re.MULTILINE)
    if state is not None and state[1].strip() == "running":
        return Finding(area="service", name=label, grade=Grade.PASS, words="launchd runs it, and at every start")
    code = re.search(r"^\s*last exit code = (.+)$", shown, re.MULTILINE)
    return Finding(
        area="service",
        name=label,
        grade=Grade.FAIL,
        words=f"is {state[1].strip() if state else 'not running'} (last exit code: {code[1].strip() if code else '?'})",
        fix=f"Look into its log, then `sudo launchctl kickstart -k system/{label}`.",
        reason="not_running",
    )


def _nobody(name: str) -> Finding:
    return Finding(
        area="service",
        name=name,
        grade=Grade.WARN,
        words="no service manager runs the daemon: it ends with this session, and nobody restarts it",
        fix="Run `inference-watchdog service install` (with sudo for a system service).",
        reason="not_installed",
    )


def _service_unseen(name: str, why: str) -> Finding:
    return Finding(area="service", name=name, grade=Grade.PASS, words=f"cannot see: {why}", seen=False, reason="unseen")
