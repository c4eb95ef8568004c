"""`ack`: say that somebody looks at an incident, so that it stops reminding."""

from __future__ import annotations

import time

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.places import kept_state_dir, state_dir_option
from watchdog.cli.silence import author


@click.command()
@state_dir_option
@click.option("--reason", required=True, help="Who does what about it; shown in `status`.")
@click.argument("incident_ids", metavar="INCIDENT...", nargs=-1, required=True)
def command(state_dir: str | None, reason: str, incident_ids: tuple[str, ...]) -> int:
    """Acknowledge open incidents: no more reminders about them until they end.

    INCIDENT is the id in the last line of the alert. That it is over, or that it grows worse, is still told, and the
    next incident of the same check alerts as ever.
    """
    from watchdog.store import Requests

    with Requests.open(kept_state_dir(state_dir)) as requests:
        for incident_id in incident_ids:
            requests.acknowledge(incident_id, time.time(), reason, author())  # noqa: TID251 - a command is an entry point
            click.echo(f"Incident {incident_id} is acknowledged: no reminders until it ends.")
    return EXIT_OK
