"""Where a command finds its configuration and its state."""

from __future__ import annotations

import os
from pathlib import Path

import click

config_option = click.option(
    "--config", "config_file", metavar="FILE", help="Configuration file. [default: see `validate --help`]"
)
state_dir_option = click.option(
    "--state-dir",
    metavar="DIR",
    help="Where state is kept. [default: $STATE_DIRECTORY, else your platform's own place]",
)


def chosen_state_dir(option: str | None, configured: str | None = None) -> Path:
    """The state directory, good or not: `option`, else the configuration's, else systemd's, else the platform's own."""
    from_systemd = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    told = option or configured or from_systemd
    if told:
        return Path(told)
    import platformdirs

    return Path(platformdirs.user_state_dir("inference-watchdog"))


def state_dir_of(option: str | None, configured: str | None = None) -> Path:
    """The same for who uses it. Raises click.UsageError for a path that can never be a folder: a file is in the way."""
    chosen = chosen_state_dir(option, configured)
    for place in (chosen, *chosen.parents):
        if os.path.lexists(place):
            if place.exists() and not place.is_dir():
                raise click.UsageError(f"the state directory cannot be {chosen}: {place} is a file, not a folder")
            break
    return chosen
