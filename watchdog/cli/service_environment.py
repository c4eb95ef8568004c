"""The environment that systemd gives the service: for judging its configuration before it is started."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
    """The variables of an `EnvironmentFile=`, quotes and comments as systemd reads them; none if it is missing."""
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
