"""`history` and `report`: incidents and observations of the past, filtered; and the figures of some days."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.options import FiniteRange, kept_state_dir, state_dir_option
from watchdog.model import Incident, Severity
from watchdog.overview.report import incident_json, incident_line, report_json, report_of, report_page, report_text
from watchdog.overview.statistics import DAY_S, span_between
from watchdog.store import DeliveryView, Point, Reader
from watchdog.text import full_timestamp, quantity


@click.command()
@state_dir_option
@click.option("--days", type=FiniteRange(min=0.001, max=400), default=7.0, show_default=True, help="How far back.")
@click.option("--observations", is_flag=True, help="Single observations instead of incidents (kept for 30 days).")
@click.option("--severity", type=click.Choice(["info", "warn", "page"]), help="Only incidents at least this severe.")
@click.option("--verdict", type=click.Choice(["pass", "fail", "unknown"]), help="Only observations with this verdict.")
@click.option("--reason", help="Only this reason, for example busy or pcie.aer.fatal.")
@click.option("--incident", "incident_id", metavar="ID", help="Everything about one incident, with its messages.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many, the newest."
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per line; `replay` reads those of --observations."
)
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
    """Show incidents of the past, oldest first, or single observations.

    TARGET is a server, a host, or the beginning of a check such as kernel_log/worker; without it everything is shown.

    Example: inference-watchdog history --days 30 --severity page deepseek
    """
    now = time.time()  # noqa: TID251 - a command is an entry point
    since = now - days * DAY_S
    with Reader.open(kept_state_dir(state_dir)) as reader:
        if incident_id is not None:
            incident = next((one for one in reader.incidents(0.0, now + 1) if one.id == incident_id), None)
            if incident is None:
                raise click.UsageError(f"there is no incident {incident_id}; `inference-watchdog history` lists them")
            sent = reader.deliveries(incident_id)
            lines = [json.dumps(_with_deliveries(incident, sent))] if as_json else _incident_lines(incident, sent)
        elif observations or verdict is not None:
            rows = _observations(reader, target, since, now, verdict, reason)[-limit:]
            lines = [json.dumps(observation_json(*row)) if as_json else observation_line(*row) for row in rows]
        else:
            found = [one for one in reader.incidents(since, now + 1) if _is_wanted(one, target, severity, reason)]
            newest = sorted(found, key=lambda one: one.since)[-limit:]
            lines = [json.dumps(incident_json(one)) if as_json else incident_line(one, None) for one in newest]
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo("Nothing found for this time and filter.", err=True)
    return EXIT_OK


def _is_wanted(one: Incident, target: str | None, severity: str | None, reason: str | None) -> bool:
    is_severe = severity is None or one.severity.rank >= Severity(severity).rank
    return is_severe and reason in (None, one.reason) and is_about(target, one.key, one.labels.values())


def is_about(target: str | None, key: str, names: Iterable[str] = ()) -> bool:
    """Whether a key belongs to `target`: a server's or host's name, or the beginning of the key."""
    if target is None or key == target or key.startswith(target.rstrip("/") + "/"):
        return True
    return target in names or target in key.split("/")[1:2]


def _observations(
    reader: Reader, target: str | None, since: float, now: float, verdict: str | None, reason: str | None
) -> list[tuple[str, Point]]:
    """Keys and observations between `since` and `now`, oldest first."""
    keys = reader.keys()
    rows = [
        (key, point)
        for key in keys
        if is_about(target, key)
        for point in reader.history(key, since, now + 1)
        if verdict in (None, point.verdict.value) and reason in (None, point.reason)
    ]
    return sorted(rows, key=lambda row: row[1].at)


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
    colour = {"pass": "green", "fail": "red", "unknown": "yellow"}[point.verdict.value]
    verdict = click.style(f"{point.verdict.value:8}", fg=colour)
    return f"{full_timestamp(point.at)}  {verdict}{key}  {point.reason}: {point.statement} ({point.duration_s:.2f} s)"


def _with_deliveries(one: Incident, sent: Iterable[DeliveryView]) -> dict[str, Any]:
    deliveries = [
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
    return {**incident_json(one), "deliveries": deliveries}


def _incident_lines(one: Incident, sent: Iterable[DeliveryView]) -> list[str]:
    """All that is known of one incident."""
    lines = [
        incident_line(one, None),
        f"  {one.key}, {one.reason}, since {full_timestamp(one.since)}, alerted {full_timestamp(one.opened_at)}",
        *(f"  {full_timestamp(fact.at) + ' ' if fact.at else ''}{fact.source}: {fact.text}" for fact in one.evidence),
    ]
    if one.diagnosis is not None:
        lines.append(f"  {one.diagnosis.confidence}: {one.diagnosis.sentence}")
    if one.advice:
        lines.append(f"  do: {one.advice}")
    for row in sent:
        when = full_timestamp(row.done_at) if row.done_at is not None else "not yet"
        what = f"{row.state.value}, {when}, {quantity(row.attempt, 'attempt')} {row.detail}".rstrip()
        lines.append(f"  {row.kind.value} to {row.receiver}: {what}")
    return lines


@click.command()
@state_dir_option
@click.option("--days", type=FiniteRange(min=0.01, max=400), default=7.0, show_default=True, help="How far back.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/api.md).")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as one self-contained HTML file with plots.",
)
def report(state_dir: str | None, days: float, as_json: bool, html_file: Path | None) -> int:
    """Summarise the last days.

    Availability with its Wilson 95 % interval, percentiles of first token and whole reply, instant-stop and busy rates,
    incidents with the time to detect and to resolve them, kernel findings per host, blind times, deliveries, and the
    cost of probing. Single observations are kept for 30 days, incidents for 400.
    """

    from watchdog.overview.statistics import DAY_S

    now = time.time()  # noqa: TID251 - a command is an entry point
    with Reader.open(kept_state_dir(state_dir)) as reader:
        report = report_of(reader, span_between(now - days * DAY_S, now, None))
    if html_file is not None:
        page = report_page(report, None, metadata.version("inference-watchdog"))
        try:
            html_file.write_text(page, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"--html: cannot write {html_file}: {error.strerror}") from None
    if as_json:
        click.echo(json.dumps(report_json(report)))
    elif html_file is None:
        click.echo(report_text(report, None))
    else:
        click.echo(f"Written to {html_file}.")
    return EXIT_OK
