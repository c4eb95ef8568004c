"""Whether a service manager runs the daemon, and how it stands with it. Read-only questions."""

from __future__ import annotations

import re
import sys

from watchdog.doctor.asking import Ask, properties
from watchdog.doctor.finding import Finding, Grade

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
        return _unseen(unit, "no systemd answers here")
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
        return _unseen(label, "`launchctl` gives no answer")
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


def _unseen(name: str, why: str) -> Finding:
    return Finding(area="service", name=name, grade=Grade.PASS, words=f"cannot see: {why}", seen=False, reason="unseen")
