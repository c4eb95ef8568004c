"""`check`: runs every check once, now; nothing is stored and nobody is alerted."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING
from watchdog.cli.options import config_option
from watchdog.kinds import KERNEL_LOG, VITALS
from watchdog.reasons import ServerReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdog.config import Config
    from watchdog.model import Observation

COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow"}


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per observation, one a line.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
def command(config_file: str | None, as_json: bool, names: tuple[str, ...]) -> int:
    """Run every check once, now, and show the results.

    NAME is a server, a host, or a single check such as generation/deepseek; without one, all checks run. Nothing is
    stored, nobody is alerted, and the daemon may keep running.

    Exit code: 2 if a check that pages failed; else 3 if any is unknown; else 1 for a warning; 0 if all pass. Unknown
    vitals do not count where the same host's kernel_log has failed.
    """
    from watchdog import logs
    from watchdog.loading import load, locate

    config = load(locate(config_file)).config
    logs.configure(secrets=config.secrets, level="ERROR")
    observations = asyncio.run(_observe(config, names))
    for seen in observations:
        click.echo(json.dumps(observation_json(seen)) if as_json else _line(seen))
    return worst_exit_code(observations)


async def _observe(config: Config, names: tuple[str, ...]) -> list[Observation]:
    from watchdog.chat import ChatClient
    from watchdog.checks import build_checks
    from watchdog.clock import SystemClock

    clock = SystemClock()
    async with ChatClient() as chat:
        checks = build_checks(config, clock, chat)
        unknown = [name for name in names if not any(_matches(check.key, name) for check in checks)]
        if unknown:
            known = ", ".join(check.key for check in checks)
            raise click.UsageError(f"there is no check {', '.join(unknown)}; the checks are: {known}")
        wanted = [check for check in checks if not names or any(_matches(check.key, name) for name in names)]
        results = await asyncio.gather(*(check.run(None, clock.wall()) for check in wanted))
    return [seen for result in results for seen in result.observations]


def _matches(key: str, name: str) -> bool:
    return name in (key, key.partition("/")[2])


def worst_exit_code(observations: Sequence[Observation]) -> int:
    """The exit code for all: critical before unknown, unknown before warning.

    A host that cannot be reached fails its kernel_log and leaves its vitals unknown: that unknown adds nothing.
    """
    failed = {seen.key for seen in observations if seen.verdict.value == "fail"}
    codes = {
        exit_code(seen)
        for seen in observations
        if not (
            seen.verdict.value == "unknown"
            and VITALS.has(seen.key)
            and KERNEL_LOG.key(VITALS.target_of(seen.key)) in failed
        )
    }
    return next((code for code in (EXIT_CRITICAL, EXIT_UNKNOWN, EXIT_WARNING) if code in codes), EXIT_OK)


def exit_code(seen: Observation) -> int:
    """The monitoring-plugin exit code of one observation."""
    if seen.verdict.value == "unknown":
        return EXIT_UNKNOWN
    if seen.verdict.value == "pass":
        return EXIT_WARNING if seen.reason == ServerReason.GARBAGE else EXIT_OK
    return {"page": EXIT_CRITICAL, "warn": EXIT_WARNING, "info": EXIT_OK}[seen.severity.value]


def observation_json(seen: Observation) -> dict[str, Any]:
    return {
        "check": seen.key,
        "verdict": seen.verdict.value,
        "reason": seen.reason,
        "severity": seen.severity.value,
        "summary": seen.statement,
        "evidence": [{"at": fact.at, "source": fact.source, "text": fact.text} for fact in seen.evidence],
        "duration_s": round(seen.duration_s, 4),
    }


def _line(seen: Observation) -> str:
    verdict = click.style(f"{seen.verdict.value:8}", fg=COLOURS[seen.verdict.value])
    return f"{verdict}{seen.key:40} {seen.reason:14} {seen.duration_s:7.2f} s  {seen.statement}"
