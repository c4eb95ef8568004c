"""Configuration file → `Config`, or every problem of the file at once.

Each step is taken once: bytes → nodes that know their line and column, within limits (`yaml_tree`) → values with their
places, as the settings classes in `config` say (`schema`, `walk`) → checks of what goes together, of files and of
addresses (`cross_checks`, `servers`, `hosts`, `receivers`) → `Config`.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchdog.config import Config, ReceiverSettings, Secret
from watchdog.errors import ConfigError, ConfigProblem
from watchdog.loading.cross_checks import check_across_sections
from watchdog.loading.host_checks import Opens, check_hosts
from watchdog.loading.problems import Place, Problems, Record, SettingError
from watchdog.loading.receiver_checks import UrlCheck, check_file_mode, check_receiver_urls, check_receivers, check_urls
from watchdog.loading.references import References, read_regular
from watchdog.loading.server_checks import check_alerting, check_heartbeat, check_servers, check_standby, check_web
from watchdog.loading.walk import Walk
from watchdog.loading.yaml_tree import (
    MAX_BYTES,
    DocumentError,
    Entries,
    Items,
    Mark,
    Node,
    Scalar,
    is_nothing,
    read_document,
)

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


# What can be read from a configuration that is not valid: a broken one still has somebody to alert, and a command about
# the state needs no receiver and no secret.

TOP_LEVEL_KEY = re.compile(rb"^(?=[^\s#-])", re.MULTILINE)
ENTRY = re.compile(rb"^(?=[ \t]*- )", re.MULTILINE)


def salvage_receivers(data: bytes, file: str, environ: Mapping[str, str] = os.environ) -> tuple[ReceiverSettings, ...]:
    """Every receiver in the bytes of `file` whose address can be read, whatever else is wrong; never raises.

    A file that is not YAML as a whole is tried section by section, and its `receivers:` entry by entry.
    """
    walk = Walk(Problems(file), References(environ, Path(file).absolute().parent))
    found: dict[str, ReceiverSettings] = {}
    for number, node in enumerate(_entries(data), start=1):
        record = walk.section(node, ReceiverSettings, Place(node.mark))
        settings = _settings(record, f"receiver {number}") if isinstance(record, Record) else None
        if settings is not None:
            found.setdefault(settings.name, settings)
    return tuple(found.values())


def salvage_state_dir(data: bytes, file: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The `state_dir` in the bytes of `file`, as an absolute path; None if it has none that can be read."""
    references = References(environ, Path(file).absolute().parent)
    for key, value in _pairs(data):
        if isinstance(key, Scalar) and key.text == "state_dir" and isinstance(value, Scalar) and not is_nothing(value):
            expanded = references.expand(value.text, secret=False)
            return None if expanded.faults else str(references.path(expanded.text))
    return None


def _settings(record: Record, name: str) -> ReceiverSettings | None:
    """The receiver with its address only: a fault in another setting must not silence it."""
    name = record.get("name") or name
    url = record.get("url")
    if isinstance(url, Secret):
        return ReceiverSettings(name=name, url=url)
    addresses = tuple(one for one in record.get("alertmanager") or () if isinstance(one, Secret))
    return ReceiverSettings(name=name, alertmanager=addresses) if addresses else None


def _entries(data: bytes) -> Iterator[Node]:
    """The entries of `receivers`, from the first reading of the file that gives any."""
    whole = list(_listed(data))
    if whole:
        yield from whole
        return
    for section in TOP_LEVEL_KEY.split(data):
        if not section.startswith(b"receivers"):
            continue
        alone = list(_listed(section))
        pieces = [piece for piece in ENTRY.split(section) if piece.lstrip().startswith(b"- ")]
        yield from alone or _listed_each(pieces)


def _listed_each(pieces: Iterable[bytes]) -> Iterator[Node]:
    for piece in pieces:
        yield from _listed(b"receivers:\n" + piece)


def _listed(data: bytes) -> Iterator[Node]:
    """The entries of the list under the key `receivers`; none if this is not readable YAML."""
    for key, value in _pairs(data):
        if isinstance(key, Scalar) and key.text == "receivers" and isinstance(value, Items):
            yield from value.items


def _pairs(data: bytes) -> tuple[tuple[Node, Node], ...]:
    try:
        root = read_document(data)
    except DocumentError:
        return ()
    return root.pairs if isinstance(root, Entries) else ()
