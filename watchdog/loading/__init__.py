"""Configuration file → `Config`, or every problem of the file at once (design §7; §2, invariant 8).

The way: bytes → nodes with places (`document`) → records, directed by the dataclasses in `config` (`building`) → rules
over what could be read (`names`, `servers`, `hosts`, `receivers`, `kernel_rules`, `schedules`, `maintenance`,
`heartbeat`, `web`, `reach`) → `Config`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchdog.config import Config, Secret
from watchdog.errors import ConfigError, ConfigProblem
from watchdog.loading.cross_checks import (
    check_kernel_rules,
    check_maintenance,
    check_mentions,
    check_names,
    check_reach,
)
from watchdog.loading.hosts import Opens, check_hosts
from watchdog.loading.receivers import check_file_mode, check_receivers, start_judging
from watchdog.loading.records import Place, Problems, Record
from watchdog.loading.references import References, SourceError, absolute, read_regular
from watchdog.loading.scalars import is_nothing, written_duration
from watchdog.loading.schema import Builder
from watchdog.loading.servers import check_alerting, check_heartbeat, check_servers, check_standby, check_web
from watchdog.loading.url_check import Judge, judge_apart
from watchdog.loading.yaml_tree import MAX_BYTES, DocumentError, Mark, Node, read_document
from watchdog.policy.plan import Listener, PlannedCheck, plan

__all__ = ["Judge", "Listener", "Loaded", "PlannedCheck", "load", "locate", "plan", "read", "written_duration"]

VARIABLE = "INFERENCE_WATCHDOG_CONFIG"
SYSTEM_FILE = Path("/etc/inference-watchdog/config.yaml")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration to start with, and what is probably not meant in it, in file order."""

    config: Config
    warnings: tuple[ConfigProblem, ...]


def locate(option: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The configuration file: `option`, else `$INFERENCE_WATCHDOG_CONFIG`, else the user's, else the system's.

    The first two are taken as they are, so that a missing file is an error and never silently another file. Raises
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
    raise ConfigError((ConfigProblem("config.yaml", 0, 0, "", problem, f"name one with --config or ${VARIABLE}"),))


def load(
    path: str | Path,
    *,
    environ: Mapping[str, str] = os.environ,
    judge: Judge = judge_apart,
    meanwhile: Callable[[], None] | None = None,
    opens: Opens | None = None,
) -> Loaded:
    """Read the configuration file at `path`; raises ConfigError with all its problems in file order.

    `environ` is where `${env:…}` is looked up; `judge` judges receiver URLs (by default apprise does, in a process of
    its own, which takes 0.4 s). `meanwhile` is called while that goes on: a place for what the caller has to import.
    `opens` tries passphrases of SSH keys; without it that is left to the first connection.
    """
    path = Path(path)
    try:
        data, mode = read_regular(path, MAX_BYTES)
    except SourceError as fault:
        problem, hint = fault.problem, fault.hint
    else:
        return read(data, str(path), mode=mode, environ=environ, judge=judge, meanwhile=meanwhile, opens=opens)
    raise ConfigError((ConfigProblem(str(path), 0, 0, "", problem, hint),))


def read(
    data: bytes,
    file: str,
    *,
    mode: int | None = None,
    environ: Mapping[str, str] = os.environ,
    judge: Judge = judge_apart,
    meanwhile: Callable[[], None] | None = None,
    opens: Opens | None = None,
) -> Loaded:
    """Make a configuration of the bytes of `file`; raises ConfigError with all problems in file order.

    `mode` holds the file's permission bits (None: it is no file, and may hold secrets itself).
    """
    problems = Problems(file)
    root = _document(data, problems)
    if root is not None:
        references = References(environ, Path(file).absolute().parent, problems)
        record = _record(root, problems, references, judge, meanwhile, opens)
        if record is not None:
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


def _record(
    root: Node,
    problems: Problems,
    references: References,
    judge: Judge,
    meanwhile: Callable[[], None] | None,
    opens: Opens | None,
) -> Record | None:
    record = Builder(problems, references).record(root, Config, Place(root.mark))
    if not isinstance(record, Record):
        return None
    finish_judging = start_judging(record, problems, judge)
    if record.get("state_dir") is not None:
        absolute(record, "state_dir", references)
    check_names(record, problems)
    check_mentions(record, problems)
    check_servers(record, problems, references)
    check_hosts(record, problems, references, opens)
    check_receivers(record, problems)
    check_kernel_rules(record, problems, references)
    check_alerting(record, problems)
    check_maintenance(record, problems)
    check_heartbeat(record, problems)
    check_web(record, problems)
    check_standby(record, problems)
    check_reach(record, problems)
    if meanwhile is not None:
        meanwhile()
    finish_judging()
    return record
