"""`unsilence`: end a silence now."""

from __future__ import annotations

import time

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.places import kept_state_dir, state_dir_option


@click.command()
@state_dir_option
@click.argument("silence_ids", metavar="ID...", nargs=-1, required=True)
def command(state_dir: str | None, silence_ids: tuple[str, ...]) -> int:
    """End silences now. `inference-watchdog status` lists them with their ids.

    What is wrong at that moment and was not told yet is told after the next look at it.
    """
    from watchdog.store import Requests

    with Requests.open(kept_state_dir(state_dir)) as requests:
        for silence_id in silence_ids:
            requests.end_silence(silence_id, time.time())  # noqa: TID251 - a command is an entry point
            click.echo(f"Silence {silence_id} has ended.")
    return EXIT_OK
