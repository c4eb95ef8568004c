"""`report`: the figures of some days, as text, JSON or one HTML file."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.numbers import FiniteRange
from watchdog.cli.places import kept_state_dir, state_dir_option


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
def command(state_dir: str | None, days: float, as_json: bool, html_file: Path | None) -> int:
    """Show how the last days were.

    Availability with its Wilson 95 % interval, percentiles of first token and whole reply, instant-stop and busy rates,
    incidents with the time to detect and to resolve them, kernel findings per host, blind times, deliveries, and what
    the probing cost. Single observations are kept for 30 days, incidents for 400.
    """
    from importlib import metadata

    from watchdog.overview.report import report_json, report_of
    from watchdog.overview.span import DAY_S, span_between
    from watchdog.store import Reader

    now = time.time()  # noqa: TID251 - a command is an entry point
    with Reader.open(kept_state_dir(state_dir)) as reader:
        report = report_of(reader, span_between(now - days * DAY_S, now, None))
    if html_file is not None:
        from watchdog.overview.report_page import report_page

        page = report_page(report, None, metadata.version("inference-watchdog"))
        try:
            html_file.write_text(page, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"--html: {html_file} cannot be written: {error.strerror}") from None
    if as_json:
        click.echo(json.dumps(report_json(report)))
    elif html_file is None:
        from watchdog.overview.report_text import report_text

        click.echo(report_text(report, None))
    else:
        click.echo(f"Written to {html_file}.")
    return EXIT_OK
