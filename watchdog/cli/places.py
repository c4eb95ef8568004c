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
    help="Where state is kept. [default: `state_dir` of the configuration, $STATE_DIRECTORY, or your platform's place]",
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


def kept_state_dir(option: str | None) -> Path:
    """The same for a command that needs nothing else of a configuration: the one in its usual place is asked.

    Whatever is wrong with that file, or with the rest of it, is no matter of such a command.
    """
    return state_dir_of(option, None if option else _configured())


def _configured() -> str | None:
    from watchdog.errors import ConfigError
    from watchdog.loading import locate
    from watchdog.loading.document import MAX_BYTES
    from watchdog.loading.references import SourceError, read_regular
    from watchdog.loading.salvage import salvage_state_dir

    try:
        path = locate(None)
        return salvage_state_dir(read_regular(path, MAX_BYTES)[0], str(path))
    except (ConfigError, SourceError):
        return None
