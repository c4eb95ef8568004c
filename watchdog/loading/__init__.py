"""Configuration file → `Config`, or every problem of the file at once.

Each step is taken once: bytes → nodes that know their line and column, within limits (`yaml_tree`) → values with their
places, as the settings classes in `config` say (`schema`, `walk`) → checks of what goes together, of files and of
addresses (`cross_checks`, `servers`, `hosts`, `receivers`) → `Config`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watchdog.config import Config, Secret
from watchdog.errors import ConfigError, ConfigProblem
from watchdog.loading.cross_checks import check_across_sections
from watchdog.loading.hosts import Opens, check_hosts
from watchdog.loading.receivers import UrlCheck, check_file_mode, check_receiver_urls, check_receivers, check_urls
from watchdog.loading.records import Place, Problems, Record, SettingError
from watchdog.loading.references import References, read_regular
from watchdog.loading.scalars import written_duration
from watchdog.loading.servers import check_alerting, check_heartbeat, check_servers, check_standby, check_web
from watchdog.loading.walk import Walk
from watchdog.loading.yaml_tree import MAX_BYTES, DocumentError, Mark, Node, is_nothing, read_document
from watchdog.policy.plan import Listener, PlannedCheck, plan

__all__ = ["Listener", "Loaded", "PlannedCheck", "UrlCheck", "load", "locate", "plan", "read", "written_duration"]

VARIABLE = "INFERENCE_WATCHDOG_CONFIG"
SYSTEM_FILE = Path("/etc/inference-watchdog/config.yaml")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, and its warnings in file order."""

    config: Config
    warnings: tuple[ConfigProblem, ...]


def locate(option: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The configuration file: `option`, else `$INFERENCE_WATCHDOG_CONFIG`, else the user's, else the system's.

    The first two are used as they are: a missing file is an error, never silently replaced by another. Raises
    ConfigError when nothing is given and neither of the last two exists.
    """
    named = option or environ.get(VARIABLE)
    if named:
        return Path(named)
    import platformdirs  # noqa: PLC0415 - a daemon is told its file

    usual = (Path(platformdirs.user_config_dir("inference-watchdog")) / "config.yaml", SYSTEM_FILE)
    for path in usual:
        if os.path.lexists(path):
            return path
    problem = f"no configuration found in {usual[0]} or {usual[1]}"
    raise ConfigError((ConfigProblem("config.yaml", 0, 0, "", problem, f"specify one with --config or ${VARIABLE}"),))


def load(
    path: str | Path,
    *,
    environ: Mapping[str, str] = os.environ,
    check_urls: UrlCheck = check_urls,
    opens: Opens | None = None,
) -> Loaded:
    """Read the configuration file at `path`; raises ConfigError with all its problems in file order.

    `environ` is where `${env:…}` is looked up; `check_urls` checks receiver URLs (by default apprise does, in a process
    of its own, which takes 0.4 s). `opens` tries passphrases of SSH keys; without it that is left to the first
    connection.
    """
    path = Path(path)
    try:
        data, mode = read_regular(path, MAX_BYTES)
    except SettingError as found:
        problem = ConfigProblem(str(path), 0, 0, "", found.problem, found.hint)
    else:
        return read(data, str(path), mode=mode, environ=environ, check_urls=check_urls, opens=opens)
    raise ConfigError((problem,))


def read(
    data: bytes,
    file: str,
    *,
    mode: int | None = None,
    environ: Mapping[str, str] = os.environ,
    check_urls: UrlCheck = check_urls,
    opens: Opens | None = None,
) -> Loaded:
    """Make a configuration of the bytes of `file`; raises ConfigError with all problems in file order.

    `mode` holds the file's permission bits; None for bytes that are not a file, which may contain secrets themselves.
    """
    problems = Problems(file)
    references = References(environ, Path(file).absolute().parent)
    root = _document(data, problems)
    record = Walk(problems, references).section(root, Config, Place(root.mark)) if root is not None else None
    if isinstance(record, Record):
        _check(record, problems, opens)
        check_receiver_urls(record, problems, check_urls)
        check_file_mode(record, mode, problems)
        if not problems.errors:
            parts = tuple(Secret(text) for text in sorted(references.filled_in))
            config = dataclasses.replace(record.build(), file=file, secret_parts=parts)
            return Loaded(config, problems.sorted_warnings())
    raise ConfigError(problems.sorted_errors())


def _document(data: bytes, problems: Problems) -> Node | None:
    try:
        root = read_document(data)
    except DocumentError as error:
        problems.error(Place(Mark(error.line, error.column)), error.problem, error.hint)
        return None
    if root is None or is_nothing(root):
        problems.error(Place(Mark(0, 0)), "is empty", "start from config/minimal.yaml")
        return None
    return root


def _check(root: Record, problems: Problems, opens: Opens | None) -> None:
    """What is wrong with values that can be read: those that do not go together, and files and addresses."""
    check_across_sections(root, problems)
    check_servers(root, problems)
    check_hosts(root, problems, opens)
    check_receivers(root, problems)
    check_alerting(root, problems)
    check_heartbeat(root, problems)
    check_web(root, problems)
    check_standby(root, problems)
