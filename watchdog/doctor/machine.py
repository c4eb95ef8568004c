"""This machine: does it stay awake, is its clock right, is its Python environment its own, does a service run us."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from watchdog.doctor.finding import Ask, Finding, properties

SLEEP_TARGETS = ("sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target")
MASK = f"sudo systemctl mask {' '.join(SLEEP_TARGETS)}"
NEVER_SLEEP = "sudo pmset -c sleep 0 disablesleep 1"
PMSET_SLEEP = re.compile(r"^\s*sleep\s+(\d+)", re.MULTILINE)
PMSET_DISABLED = re.compile(r"^\s*(?:SleepDisabled|disablesleep)\s+1", re.MULTILINE)
POWER_STATES = Path("/sys/power/state")
SHOWN = "LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts"
RESTARTS_WARN = 5


def examine_sleep(ask: Ask, platform: str = sys.platform, power_states: Path = POWER_STATES) -> Finding:
    """Whether this machine may go to sleep: a sleeping watchdog sees nothing."""
    return _mac_sleep(ask) if platform == "darwin" else _linux_sleep(ask, power_states)


def _mac_sleep(ask: Ask) -> Finding:
    settings = ask("pmset", "-g")
    if settings is None:
        return Finding.unseen("sleep", "this Mac", "`pmset -g` gave no answer")
    if PMSET_DISABLED.search(settings):
        return Finding.ok("sleep", "this Mac", "does not sleep")
    found = PMSET_SLEEP.search(settings)
    if found is None:
        return Finding.unseen("sleep", "this Mac", "`pmset -g` shows no sleep setting")
    if found[1] == "0":
        return Finding.ok("sleep", "this Mac", "does not sleep while it is on this power source")
    words = f"goes to sleep after {found[1]} idle minutes, and sees nothing then"
    fix = f"Run `{NEVER_SLEEP}` and keep it on mains power."
    return Finding.warn("sleep", "this Mac", words, fix=fix, reason="sleeps")


def _linux_sleep(ask: Ask, power_states: Path) -> Finding:
    name = "this machine"
    try:
        if not power_states.read_text().strip():
            return Finding.ok("sleep", name, "cannot sleep: its kernel has no sleep states")
    except OSError:
        return Finding.unseen("sleep", name, "its kernel does not show which sleep states it has (a container?)")
    states = ask("systemctl", "is-enabled", *SLEEP_TARGETS)
    if states is None or not states.strip():
        return Finding.unseen("sleep", name, "systemd is not running here")
    if states.split()[: len(SLEEP_TARGETS)] == ["masked"] * len(SLEEP_TARGETS):
        return Finding.ok("sleep", name, "does not sleep: the sleep targets are masked")
    logind = ask("busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
                 "org.freedesktop.login1.Manager", "IdleAction", "HandleLidSwitch")  # fmt: skip
    if logind and any(word in logind for word in ("suspend", "hibernate", "sleep")):
        words = f"logind may put it to sleep (IdleAction, HandleLidSwitch: {' '.join(logind.split())})"
        return Finding.warn("sleep", name, words, fix=f"Run `{MASK}`.", reason="sleeps")
    return Finding.unseen(
        "sleep", name, f"logind does not suspend it, but a desktop session could; `{MASK}` makes sure"
    )


def examine_own_clock(ask: Ask, platform: str = sys.platform) -> Finding:
    """Whether this machine's own clock is synchronized."""
    name = "this machine"
    if platform == "darwin":
        found = re.search(r"([+-][0-9.]+)\s+\+/-", ask("sntp", "-t", "3", "time.apple.com") or "")
        if found is None:
            return Finding.unseen("clock", name, "no time server answered `sntp time.apple.com`")
        if abs(float(found[1])) < 5:
            return Finding.ok("clock", name, f"is within {abs(float(found[1])):.1f} s of time.apple.com")
        return _clock_warning("sudo sntp -sS time.apple.com", f"is {found[1]} s off time.apple.com")
    shown = properties(ask("timedatectl", "show"))
    if "NTPSynchronized" not in shown:
        return Finding.unseen("clock", name, "`timedatectl` gives no answer")
    if shown["NTPSynchronized"] == "yes":
        return Finding.ok("clock", name, "is synchronized with a time server")
    return _clock_warning("sudo timedatectl set-ntp true", "is not synchronized with a time server")


def _clock_warning(command: str, words: str) -> Finding:
    return Finding.warn("clock", "this machine", words, fix=f"Run `{command}`.", reason="clock_not_kept")


def examine_python(distributions: Iterable[metadata.Distribution] | None = None) -> Finding:
    """Whether PyPI's `watchdog` shares our environment: both own the import name (docs/decisions/0002)."""
    found = metadata.distributions() if distributions is None else distributions
    names = {(one.metadata["Name"] or "").lower().replace("_", "-") for one in found}
    name = f"Python {'.'.join(str(part) for part in sys.version_info[:3])}"
    if "watchdog" not in names:
        kind = "a separate one" if sys.prefix != sys.base_prefix else "the system's (a separate one is safer)"
        return Finding.ok("python", name, f"no other package named `watchdog`; the environment is {kind}")
    return Finding.fail(
        "python",
        name,
        "PyPI's `watchdog` is installed in the same environment and overwrites our files",
        fix="Install inference-watchdog into a separate environment: "
        "`python3 -m venv ~/inference-watchdog`, then its `bin/pip install`.",
        reason="name_clash",
    )


def examine_service(ask: Ask, unit: str, label: str, platform: str = sys.platform) -> Finding:
    """The state of systemd's `unit`, of the system's manager or the user's, or of launchd's `label`."""
    return _launchd(ask, label) if platform == "darwin" else _systemd(ask, unit)


def _systemd(ask: Ask, unit: str) -> Finding:
    answered = False
    for scope in ((), ("--user",)):
        shown = properties(ask("systemctl", *scope, "show", "--property", SHOWN, unit))
        answered = answered or "LoadState" in shown
        if shown.get("LoadState") == "loaded":
            return _unit(unit, shown, user=bool(scope))
    if not answered:
        return Finding.unseen("service", unit, "systemd is not running here")
    return _not_installed(unit)


def _unit(unit: str, shown: dict[str, str], *, user: bool) -> Finding:
    state, enabled = shown.get("ActiveState", ""), shown.get("UnitFileState", "")
    restarts = int(shown["NRestarts"]) if shown.get("NRestarts", "").isdigit() else 0
    systemctl = "systemctl --user" if user else "sudo systemctl"
    journal = f"journalctl{' --user' if user else ''} -u {unit}"
    if state != "active":
        words = f"is {state or 'unknown'} ({shown.get('SubState', '?')}, last result: {shown.get('Result', '?')})"
        fix = f"See why: `{journal} -n 20`; then `{systemctl} restart {unit}`."
        return Finding.fail("service", unit, words, fix=fix, reason="not_running")
    if not enabled.startswith("enabled"):
        words = f"is running, but is {enabled or 'not enabled'}: it will not start at boot"
        return Finding.warn("service", unit, words, fix=f"Run `{systemctl} enable {unit}`.", reason="not_enabled")
    if restarts >= RESTARTS_WARN:
        words = f"is running, but was restarted {restarts} times"
        return Finding.warn("service", unit, words, fix=f"See why: `{journal} -n 50`.", reason="restarts")
    return Finding.ok("service", unit, "is running, and starts at boot")


def _launchd(ask: Ask, label: str) -> Finding:
    shown = ask("launchctl", "print", f"system/{label}")
    if shown is None:
        return Finding.unseen("service", label, "`launchctl` gives no answer")
    if not shown.strip():
        return _not_installed(label)
    state = re.search(r"^\s*state = (.+)$", shown, re.MULTILINE)
    if state is not None and state[1].strip() == "running":
        return Finding.ok("service", label, "is running, and starts at boot")
    code = re.search(r"^\s*last exit code = (.+)$", shown, re.MULTILINE)
    words = f"is {state[1].strip() if state else 'not running'} (last exit code: {code[1].strip() if code else '?'})"
    fix = f"See its log, then `sudo launchctl kickstart -k system/{label}`."
    return Finding.fail("service", label, words, fix=fix, reason="not_running")


def _not_installed(name: str) -> Finding:
    words = "no service manager runs the daemon: it ends with this session, and nothing restarts it"
    fix = "Run `inference-watchdog service install` (with sudo for a system service)."
    return Finding.warn("service", name, words, fix=fix, reason="not_installed")
