"""`demo`: the real daemon against an embedded rig, told as a story."""

from __future__ import annotations

import click

from watchdog.cli import EXIT_OK


@click.command()
def command() -> int:
    """See the whole story in under two minutes, with nothing to set up.

    Starts a small chat server, two simulated machines with real SSH and real kernel lines, and the real daemon as it
    ships, with minutes shortened to seconds. Then the server freezes, a machine's kernel reports a fatal error, and
    the alerts are shown as they arrive. Everything runs on loopback in a temporary directory and is removed afterwards.
    """
    import asyncio

    from watchdog.demo.story import StoryError, tell

    try:
        asyncio.run(tell(click.echo))
    except StoryError as error:
        click.echo(f"The demo failed: {error}", err=True)
        return 1
    return EXIT_OK
