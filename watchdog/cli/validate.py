"""`validate`: every problem of the configuration at once, or the effective plan: what is checked, who is alerted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from watchdog.cli import EXIT_OK, EXIT_USAGE
from watchdog.errors import ConfigError, ConfigProblem
from watchdog.model import Severity

if TYPE_CHECKING:
    from watchdog.config import Config, EscalateSettings, MaintenanceSettings, SeatSettings, Secret
    from watchdog.loading import Loaded
    from watchdog.policy.plan import PlannedCheck

PROBLEM_FIELDS = ("file", "line", "column", "path", "problem", "hint")


@click.command()
@click.option(
    "--config", "config_file", metavar="FILE", help="Configuration file to check. [default: where `run` finds it]"
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object: file, good, errors, warnings, checks, receivers."
)
def command(config_file: str | None, as_json: bool) -> int:
    """Check the configuration and show what is checked and who is alerted.

    Shows every error with file, line and column, or the plan: each check, how often it runs, and which receivers it
    alerts. Nothing is sent and no server is asked.

    Without --config the file is $INFERENCE_WATCHDOG_CONFIG, then config.yaml in your user's configuration folder, then
    /etc/inference-watchdog/config.yaml. Exit code: 0 valid (warnings are allowed), 64 not valid.
    """
    from watchdog.loading import load, locate
    from watchdog.ssh.login import opens

    try:
        loaded = load(locate(config_file), opens=opens)
    except ConfigError as error:
        if as_json:
            errors = [problem_json(one) for one in error.problems]
            nothing: dict[str, Any] = {"warnings": [], "checks": [], "receivers": []}
            click.echo(json.dumps({"file": error.problems[0].file, "good": False, "errors": errors, **nothing}))
        else:
            click.echo(str(error), err=True)
            click.echo(f"{_counted(len(error.problems), 'problem')}; `run` would refuse to start.", err=True)
        return EXIT_USAGE
    problem = _matcher_problem(loaded)
    if problem is not None:
        if as_json:
            nothing = {"warnings": [], "checks": [], "receivers": []}
            click.echo(
                json.dumps({"file": loaded.config.file, "good": False, "errors": [problem_json(problem)], **nothing})
            )
        else:
            click.echo(str(problem), err=True)
            click.echo("1 problem; `run` would refuse to start.", err=True)
        return EXIT_USAGE
    for warning in () if as_json else loaded.warnings:
        click.echo(f"{warning.file}:{warning.line}:{warning.column}: warning: {_after_place(warning)}", err=True)
    click.echo(json.dumps(plan_json(loaded)) if as_json else plan_text(loaded.config))
    return EXIT_OK


def _matcher_problem(loaded: Loaded) -> ConfigProblem | None:
    """Why the kernel lines of the hosts could not be classified here; None if they can, or there are no hosts."""
    from watchdog.checks.matcher_trial import matcher_problem

    found = matcher_problem(loaded.config.rules) if loaded.config.hosts else None
    hint = "install inference-watchdog again, or correct `rules`"
    return None if found is None else ConfigProblem(loaded.config.file, 0, 0, "rules", found, hint)


def problem_json(problem: ConfigProblem) -> dict[str, Any]:
    """One problem as JSON; `line` and `column` count from 1, 0 means the file as a whole."""
    return {name: getattr(problem, name) for name in PROBLEM_FIELDS}


def plan_json(loaded: Loaded) -> dict[str, Any]:
    """The plan as JSON: per check its times in seconds, its thresholds, and its receivers by severity."""
    from watchdog.policy.plan import plan

    config = loaded.config
    checks = [
        {
            "check": check.key,
            "interval_s": check.interval_s,
            "timeout_s": check.timeout_s,
            "failures": check.failures,
            "successes": check.successes,
            "page_within_s": _page_within_s(check.key, config),
            "heard_by": {severity.value: list(check.hear(severity)) for severity in reversed(Severity)},
        }
        for check in plan(config)
    ]
    receivers = [
        {
            "receiver": receiver.name,
            "min_severity": receiver.min_severity.value,
            "fallback": receiver.fallback,
            "fallback_after": receiver.fallback_after,
            "sends": None if receiver.url is None else _manner(receiver.url),
            "acknowledge": receiver.acknowledge,
            "escalate": None if receiver.escalate is None else _escalation_json(receiver.escalate),
        }
        for receiver in config.receivers
    ]
    warnings = [problem_json(one) for one in loaded.warnings]
    return {
        "file": config.file,
        "good": True,
        "errors": [],
        "warnings": warnings,
        "checks": checks,
        "receivers": receivers,
    }


def _escalation_json(escalate: EscalateSettings) -> dict[str, Any]:
    return {"after_s": escalate.after_s, "every_s": escalate.every_s, "to": list(escalate.to)}


def plan_text(config: Config) -> str:
    from watchdog.loading.scalars import written_duration
    from watchdog.policy.plan import plan

    checks = plan(config)
    head = ("CHECK", "EVERY", "TIMEOUT", "ALERTS AFTER", "RESOLVES AFTER", "PAGES", "WARNINGS")
    rows = [head, *(_row(check, config) for check in checks)]
    alerting = config.alerting
    lines = [
        f"{config.file} is valid: {_counted(len(checks), 'check')}, {_counted(len(config.receivers), 'receiver')}.",
        "",
        *_table(rows),
        "",
    ]
    if config.hosts:
        lines.append("A kernel line that precedes a hard lockup alerts at once.")
    lines.append(
        f"An open incident sends a reminder after {written_duration(alerting.reminder_first_s)}, then every "
        f"{written_duration(alerting.reminder_every_s)}, until it resolves or is acknowledged."
    )
    for receiver in config.receivers:
        if receiver.url is not None:
            lines.append(f"{receiver.name}: {_manner(receiver.url)}")
        if receiver.fallback:
            tries = _counted(receiver.fallback_after, "try", "tries")
            lines.append(f"{receiver.fallback} gets what {receiver.name} did not accept after {tries}.")
        if receiver.acknowledge:
            lines.append(f"A page at {receiver.name} can be acknowledged on the phone.")
        if receiver.escalate is not None:
            lines.append(_escalation(receiver.name, receiver.escalate))
    if any(host.vitals.memory_available_min is None for host in config.hosts):
        lines.append(
            "Less than 4 GiB of available memory is a warning on machines whose GPU shares it (GB10, Jetson); "
            "elsewhere set memory_available_min."
        )
    lines += _sooner(config)
    lines += [_seat(seat) for seat in config.seats]
    lines += [_window(window) for window in config.maintenance]
    if config.web is not None and config.web.probe_on_scrape:
        lines.append("A server is probed when Prometheus asks for /probe; if it does not ask, you are told so.")
    if config.heartbeat is not None:
        lines.append(
            f"Every {written_duration(config.heartbeat.interval_s)} a heartbeat ({config.heartbeat.method}) is sent "
            "while all checks run."
        )
    return "\n".join(lines)


def _sooner(config: Config) -> list[str]:
    """How soon a failure is confirmed and when it pages, for each way in which the servers are set up."""
    from watchdog.loading.scalars import written_duration
    from watchdog.policy.plan import page_within_s

    lines = []
    for probe in dict.fromkeys(server.probe for server in config.servers if server.probe.is_sooner):
        names = ", ".join(server.name for server in config.servers if server.probe == probe)
        lines.append(
            f"{names}: a failure in the server's own words, or a dead connection, is confirmed after "
            f"{written_duration(probe.confirm_s)}; a refused port pages after {written_duration(probe.down_for_s)}, a "
            f"model that loads after {written_duration(probe.loading_for_s)}."
        )
    for probe in dict.fromkeys(server.probe for server in config.servers):
        names = ", ".join(server.name for server in config.servers if server.probe == probe)
        times = ", ".join(f"{PAGED[what]} {written_duration(round(s))}" for what, s in page_within_s(probe).items())
        lines.append(f"{names} pages at the latest after: {times}.")
    return lines


PAGED = {
    "engine_error": "the engine's own error",
    "crash": "a crash",
    "hang_proven": "a hang with one more sign",
    "hang": "a hang without",
    "loading": "a model that loads",
}
"""What is wrong with a server, as `page_within_s` tells it apart, in words."""


def _page_within_s(key: str, config: Config) -> dict[str, float] | None:
    """When a page about a server comes at the latest, by what is wrong; None for what is no server's check."""
    from watchdog.kinds import GENERATION
    from watchdog.policy.plan import page_within_s

    probe = next((server.probe for server in config.servers if GENERATION.key(server.name) == key), None)
    return None if probe is None else page_within_s(probe)


def _seat(seat: SeatSettings) -> str:
    from watchdog.loading.scalars import written_duration

    return (
        f"Seat {seat.name}: {' and '.join(seat.servers)} take turns. While one answers, the others may be off; if none "
        f"does, the one that answered last alerts, but for {written_duration(seat.swap_for_s)} after its first miss "
        "not while another one loads."
    )


def _manner(url: Secret) -> str:
    from watchdog.notify import manner_words

    return manner_words(url.reveal())


def _escalation(receiver: str, escalate: EscalateSettings) -> str:
    from watchdog.loading.scalars import written_duration

    first, every = written_duration(escalate.after_s), written_duration(escalate.every_s)
    others = f" and goes to {' and '.join(escalate.to)} as well" if escalate.to else ""
    return (
        f"A page that nobody acknowledges is repeated to {receiver} after {first}{others}; "
        f"then every {every} until somebody does or it is over."
    )


def _window(window: MaintenanceSettings) -> str:
    from watchdog.loading.scalars import written_duration
    from watchdog.overview.status import matcher_words

    quiet = f"Maintenance {window.name} silences {matcher_words(window.match)}"
    if window.begins is not None and window.ends is not None:
        return f"{quiet} from {window.begins.isoformat(' ', 'minutes')} to {window.ends.isoformat(' ', 'minutes')}."
    days = ", ".join(window.days)
    start = window.start.strftime("%H:%M") if window.start else ""
    return f"{quiet} every {days} from {start} {window.time_zone} for {written_duration(window.duration_s)}."


def _row(check: PlannedCheck, config: Config) -> tuple[str, ...]:
    from watchdog.kinds import GENERATION
    from watchdog.loading.scalars import written_duration

    scraped = config.web is not None and config.web.probe_on_scrape and GENERATION.has(check.key)

    return (
        check.key,
        "scrape" if scraped else written_duration(check.interval_s),
        written_duration(check.timeout_s),
        f"{_counted(check.failures, 'failure')} in a row",
        f"{_counted(check.successes, 'pass', 'passes')} in a row",
        ", ".join(check.hear(Severity.PAGE)) or "nobody",
        ", ".join(check.hear(Severity.WARN)) or "nobody",
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _after_place(problem: ConfigProblem) -> str:
    what = f"{problem.path}: {problem.problem}" if problem.path else problem.problem
    return what + (f" ({problem.hint})" if problem.hint else "")
