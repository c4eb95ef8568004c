"""Options that several commands share, and where a command finds its configuration and its state."""

from __future__ import annotations

import math
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

config_option = click.option(
    "--config", "config_file", metavar="FILE", help="Configuration file. [default: see `validate --help`]"
)
state_dir_option = click.option(
    "--state-dir",
    metavar="DIR",
    help="State directory. [default: `state_dir` of the configuration, $STATE_DIRECTORY, or your platform's default]",
)


def chosen_state_dir(option: str | None, configured: str | None = None) -> Path:
    """The state directory, usable or not: `option`, else the configuration's, else systemd's, else the platform's."""
    from_systemd = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    chosen = option or configured or from_systemd
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_state_dir("inference-watchdog"))


def state_dir_of(option: str | None, configured: str | None = None) -> Path:
    """The same, for commands that use it. Raises click.UsageError for a path that is, or runs through, a file."""
    chosen = chosen_state_dir(option, configured)
    for place in (chosen, *chosen.parents):
        if os.path.lexists(place):
            if place.exists() and not place.is_dir():
                raise click.UsageError(f"the state directory cannot be {chosen}: {place} is a file, not a directory")
            break
    return chosen


def kept_state_dir(option: str | None, config_file: str | None = None) -> Path:
    """The same, for who needs nothing else of a configuration: `config_file`, or the one in its default place.

    Whatever else is wrong with that file does not concern such a command.
    """
    return state_dir_of(option, None if option else _configured(config_file))


def _configured(config_file: str | None) -> str | None:
    from watchdog.errors import ConfigError
    from watchdog.loading import locate, salvage_state_dir
    from watchdog.loading.problems import SettingError
    from watchdog.loading.references import read_regular
    from watchdog.loading.yaml_tree import MAX_BYTES

    try:
        path = locate(config_file)
        return salvage_state_dir(read_regular(path, MAX_BYTES)[0], str(path))
    except (ConfigError, SettingError):
        return None


# Numbers on the command line.


class FiniteRange(click.FloatRange):
    """A number within bounds. `nan` and `inf` are refused: they pass every comparison and would wait forever."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            finite = True  # not a number at all: click reports that
        if not finite:
            self.fail(f"{value} is not a finite number.", param, ctx)
        return super().convert(value, param, ctx)


# The environment that systemd gives the service: for checking its configuration before it is started.

CREDENTIAL_PREFIX = "secret_"
"""`LoadCredential=secret:DIRECTORY` names each file's credential like this (systemd.exec(5))."""


@contextmanager
def service_environment(folder: Path, environ: Mapping[str, str] = os.environ) -> Iterator[dict[str, str]]:
    """`environ` and what the unit adds from `folder`: the file `environment`, and `credentials/` as credentials."""
    with tempfile.TemporaryDirectory(prefix="inference-watchdog-") as directory:
        names = Path(directory)
        credentials = folder / "credentials"
        for file in credentials.iterdir() if credentials.is_dir() else ():
            (names / f"{CREDENTIAL_PREFIX}{file.name}").symlink_to(file.absolute())
        yield {**environ, **read_environment_file(folder / "environment"), "CREDENTIALS_DIRECTORY": directory}


def read_environment_file(path: Path) -> dict[str, str]:
    """The variables of an `EnvironmentFile=`, read as systemd does; none if it is missing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith(("#", ";")):
            continue
        try:
            words = shlex.split(value) if value[:1] in "'\"" else [value]
        except ValueError:
            continue  # an open quote: systemd ignores the line too
        found[name] = words[0] if words else ""
    return found
