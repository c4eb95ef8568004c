"""`history`: incidents and observations of the past, filtered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.options import FiniteRange, kept_state_dir, state_dir_option
from watchdog.text import full_timestamp

if TYPE_CHECKING:
    from watchdog.model import Incident
    from watchdog.store import Point, Reader

DAY_S = 86400.0


@click.command()
@state_dir_option
@click.option("--days", type=FiniteRange(min=0.001, max=400), default=7.0, show_default=True, help="How far back.")
@click.option("--observations", is_flag=True, help="Single observations instead of incidents (kept for 30 days).")
@click.option("--severity", type=click.Choice(["info", "warn", "page"]), help="Incidents at least this severe.")
@click.option("--verdict", type=click.Choice(["pass", "fail", "unknown"]), help="Observations with this verdict.")
@click.option("--reason", help="Only this reason, for example busy or pcie.aer.fatal.")
@click.option("--incident", "incident_id", metavar="ID", help="Everything about one incident, with its messages.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many, the newest."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; `replay` reads those of --observations.")
@click.argument("target", required=False)
def history(
    *,
    state_dir: str | None,
    days: float,
    observations: bool,
    severity: str | None,
    verdict: str | None,
    reason: str | None,
    incident_id: str | None,
    limit: int,
    as_json: bool,
    target: str | None,
) -> int:
    """Show what was: incidents, oldest first, or single observations.

    TARGET is a server, a host, or the beginning of a check such as kernel_log/worker; without it, everything.

    Example: inference-watchdog history --days 30 --severity page deepseek
    """
    from watchdog.store import Reader

    now = time.time()  # noqa: TID251 - a command is an entry point
    since = now - days * DAY_S
    with Reader.open(kept_state_dir(state_dir)) as reader:
        if incident_id is not None:
            return _one(reader, incident_id, now, as_json=as_json)
        if observations or verdict is not None:
            rows = _observations(reader, target, since, now, limit, verdict, reason)
            _print([observation_json(key, point) if as_json else observation_line(key, point) for key, point in rows])
        else:
            found = [one for one in reader.incidents(since, now + 1) if _fits(one, target, severity, reason)]
            found = sorted(found, key=lambda one: one.since)[-limit:]
            _print([_incident(one, as_json=as_json) for one in found])
    return EXIT_OK


def _print(rows: Iterable[str | dict[str, Any]]) -> None:
    empty = True
    for row in rows:
        empty = False
        click.echo(row if isinstance(row, str) else json.dumps(row))
    if empty:
        click.echo("Nothing in this time fits.", err=True)


def _incident(one: Incident, *, as_json: bool) -> str | dict[str, Any]:
    from watchdog.overview.report import incident_json
    from watchdog.overview.report_render import incident_line

    return incident_json(one) if as_json else incident_line(one, None)


def _fits(one: Incident, target: str | None, severity: str | None, reason: str | None) -> bool:
    from watchdog.model import Severity

    loud = severity is None or one.severity.rank >= Severity(severity).rank
    return loud and reason in (None, one.reason) and is_about(target, one.key, one.labels.values())


def is_about(target: str | None, key: str, names: Iterable[str] = ()) -> bool:
    """Whether a key belongs to `target`: a server's or host's name, or the beginning of the key."""
    if target is None or key == target or key.startswith(target.rstrip("/") + "/"):
        return True
    return target in names or target in key.split("/")[1:2]


def _observations(
    reader: Reader, target: str | None, since: float, now: float, limit: int, verdict: str | None, reason: str | None
) -> list[tuple[str, Point]]:
    known = reader.keys()
    rows = [
        (key, point)
        for key in known
        if is_about(target, key)
        for point in reader.history(key, since, now + 1)
        if verdict in (None, point.verdict.value) and reason in (None, point.reason)
    ]
    return sorted(rows, key=lambda row: row[1].at)[-limit:]


def observation_json(key: str, point: Point) -> dict[str, Any]:
    """One observation as `replay` reads it."""
    return {
        "at": point.at,
        "check": key,
        "verdict": point.verdict.value,
        "reason": point.reason,
        "summary": point.statement,
        "duration_s": point.duration_s,
        "measurements": dict(point.measurements),
    }


def observation_line(key: str, point: Point) -> str:
    """One observation on a line."""
    colour = {"pass": "green", "fail": "red", "unknown": "yellow"}[point.verdict.value]
    verdict = click.style(f"{point.verdict.value:8}", fg=colour)
    return f"{full_timestamp(point.at)}  {verdict}{key}  {point.reason}: {point.statement} ({point.duration_s:.2f} s)"


def _one(reader: Reader, incident_id: str, now: float, *, as_json: bool) -> int:
    from watchdog.overview.report import incident_json

    one = next((found for found in reader.incidents(0.0, now + 1) if found.id == incident_id), None)
    if one is None:
        raise click.UsageError(f"there is no incident {incident_id}; `inference-watchdog history` lists them")
    sent = reader.deliveries(incident_id)
    if as_json:
        told = [
            {
                "receiver": row.receiver,
                "kind": row.kind.value,
                "state": row.state.value,
                "attempts": row.attempt,
                "created_at": row.created_at,
                "done_at": row.done_at,
                "detail": row.detail,
            }
            for row in sent
        ]
        click.echo(json.dumps({**incident_json(one), "deliveries": told}))
        return EXIT_OK
    click.echo(str(_incident(one, as_json=False)))
    click.echo(f"  {one.key}, {one.reason}, since {full_timestamp(one.since)}, alerted {full_timestamp(one.opened_at)}")
    for fact in one.evidence:
        click.echo(f"  {full_timestamp(fact.at) + ' ' if fact.at is not None else ''}{fact.source}: {fact.text}")
    if one.diagnosis is not None:
        click.echo(f"  {one.diagnosis.confidence}: {one.diagnosis.sentence}")
    if one.advice:
        click.echo(f"  do: {one.advice}")
    for row in sent:
        when = full_timestamp(row.done_at) if row.done_at is not None else "not yet"
        tries = f"{row.attempt} attempt{'s' * (row.attempt != 1)}"
        click.echo(f"  {row.kind.value} to {row.receiver}: {row.state.value}, {when}, {tries} {row.detail}".rstrip())
    return EXIT_OK


# `report`: the figures of some days, as text, JSON or one HTML file.


@click.command()
@state_dir_option
@click.option("--days", type=FiniteRange(min=0.01, max=400), default=7.0, show_default=True, help="How far back.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/api.md).")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as one HTML file with plots, which needs nothing else.",
)
def report(state_dir: str | None, days: float, as_json: bool, html_file: Path | None) -> int:
    """Show how the last days were.

    Availability with its Wilson 95 % interval, percentiles of first token and whole reply, instant-stop and busy rates,
    incidents with the time to detect and to resolve them, kernel findings per host, blind times, deliveries, and what
    the probing cost. Single observations are kept for 30 days, incidents for 400.
    """
    from importlib import metadata

    from watchdog.overview.report import report_json, report_of
    from watchdog.overview.statistics import DAY_S, span_between
    from watchdog.store import Reader

    now = time.time()  # noqa: TID251 - a command is an entry point
    with Reader.open(kept_state_dir(state_dir)) as reader:
        report = report_of(reader, span_between(now - days * DAY_S, now, None))
    if html_file is not None:
        from watchdog.overview.report_render import report_page

        page = report_page(report, None, metadata.version("inference-watchdog"))
        try:
            html_file.write_text(page, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"--html: {html_file} cannot be written: {error.strerror}") from None
    if as_json:
        click.echo(json.dumps(report_json(report)))
    elif html_file is None:
        from watchdog.overview.report_render import report_text

        click.echo(report_text(report, None))
    else:
        click.echo(f"Written to {html_file}.")
    return EXIT_OK
