"""`doctor`: is everything right that has to be right, and what to do where it is not."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_USAGE, EXIT_WARNING
from watchdog.cli.options import chosen_state_dir, config_option, state_dir_option

if TYPE_CHECKING:
    from watchdog.doctor import Finding
    from watchdog.errors import ConfigError
    from watchdog.loading import Loaded

COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}
CODES = {"pass": EXIT_OK, "warn": EXIT_WARNING, "fail": EXIT_CRITICAL}
SYSTEM_STATE = Path("/var/lib/inference-watchdog")


@click.command()
@config_option
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per finding, one a line.")
def command(config_file: str | None, state_dir: str | None, as_json: bool) -> int:
    """Examine the whole installation: one line per finding, pass, warn or fail, with the exact fix.

    Examines servers (one real probe each), keys, hosts and their host keys, permissions, clocks, receivers, state,
    sleep settings, Python and the service; nothing is changed, no alert is sent. `pass?` marks what cannot be verified
    from here.

    Exit code: 0 all pass, 1 warning, 2 failure, 64 the configuration is not valid.
    """
    from watchdog.errors import ConfigError

    try:
        found, code = _examine(config_file, state_dir)
    except ConfigError as error:
        found, code = _broken(error), EXIT_USAGE
    for finding in found:
        click.echo(json.dumps(finding.as_json(), ensure_ascii=False) if as_json else _line(finding))
    if not as_json:
        click.echo(_sum(found))
    return code


def _examine(config_file: str | None, state_dir: str | None) -> tuple[Sequence[Finding], int]:
    from watchdog import logs
    from watchdog.cli.service import LABEL, UNIT
    from watchdog.doctor import Finding
    from watchdog.doctor.examinations import examine_own, examine_surroundings, examine_targets
    from watchdog.doctor.finding import ask_machine
    from watchdog.doctor.state import own_instance
    from watchdog.loading import locate
    from watchdog.message.redaction import Redactor

    path = locate(config_file)
    loaded = _load(path)
    config = loaded.config
    logs.configure(secrets=config.secrets, level="ERROR")
    hide = Redactor(config.secrets)
    found = [Finding.ok("config", str(path), "is valid")]
    for warning in loaded.warnings:
        name, words = f"{path}:{warning.line}", f"{warning.path}: {warning.problem}"
        found.append(Finding.warn("config", name, words, fix=warning.hint or "Look at that line.", reason="config"))
    state = _state_dir(path, state_dir, config.state_dir)
    found += asyncio.run(examine_targets(config, own_instance(state)))
    found += examine_own(config, state)
    found += examine_surroundings(ask_machine, UNIT, LABEL)
    clean = [replace(finding, words=hide(finding.words), fix=hide(finding.fix)) for finding in found]
    return clean, max(CODES[finding.grade.value] for finding in clean)


def _broken(error: ConfigError) -> list[Finding]:
    """The problems of a configuration, and what can be examined without one."""
    from watchdog.cli.service import LABEL, UNIT
    from watchdog.doctor import Finding
    from watchdog.doctor.examinations import examine_surroundings
    from watchdog.doctor.finding import ask_machine

    found = []
    for problem in error.problems:
        name = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
        words = f"{problem.path}: {problem.problem}" if problem.path else problem.problem
        fix = problem.hint or "Correct that line; docs/reference.md lists every key."
        found.append(Finding.fail("config", name, words, fix=fix, reason="config"))
    why = "servers, hosts, receivers and state are examined once the configuration is valid"
    found.append(Finding.unseen("config", "the rest", why))
    return found + examine_surroundings(ask_machine, UNIT, LABEL)


def _load(path: Path) -> Loaded:
    """The configuration as its service sees it: with the service's variables and credentials."""
    from watchdog.cli.options import service_environment
    from watchdog.loading import load

    if "CREDENTIALS_DIRECTORY" in os.environ or not os.access(path.parent / "credentials", os.R_OK | os.X_OK):
        return load(path)
    with service_environment(path.parent) as environ:
        return load(path, environ=environ)


def _state_dir(path: Path, option: str | None, configured: str | None) -> Path:
    """The state directory, for the system's configuration that of the system's service."""
    from watchdog.cli.service import SYSTEM_CONFIG

    if str(path) == SYSTEM_CONFIG and not option and not configured and "STATE_DIRECTORY" not in os.environ:
        return SYSTEM_STATE
    return chosen_state_dir(option, configured)


def _line(finding: Finding) -> str:
    grade = finding.grade.value + ("" if finding.seen else "?")
    first = (
        f"{click.style(f'{grade:6}', fg=COLOURS[finding.grade.value])}{finding.area:11}{finding.name}: {finding.words}"
    )
    return f"{first}\n{'':6}{'':11}→ {finding.fix}" if finding.fix else first


def _sum(found: Sequence[Finding]) -> str:
    fails = sum(finding.grade.value == "fail" for finding in found)
    warns = sum(finding.grade.value == "warn" for finding in found)
    unseen = sum(not finding.seen for finding in found)
    rest = f"; {unseen} marked ? cannot be verified from here" if unseen else ""
    return f"{len(found)} findings: {fails} to fix, {warns} to consider{rest}."
