"""The unit files and the plist for one installation, made from the ones under `units/`. Writes nothing."""

from __future__ import annotations

import os
import plistlib
import pwd
import re
import stat
import sys
import sysconfig
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path

MARK = "Written by `inference-watchdog service install`"
"""Stands in every file we write; a file without it is somebody else's and is left alone."""
LABEL = "org.inference-watchdog.daemon"
UNIT = "inference-watchdog.service"
FAILED_UNIT = "inference-watchdog-failed@.service"
PACKAGED = Path("/usr/lib/systemd/system") / UNIT
PACKAGED_COMMAND = "/usr/bin/inference-watchdog"
SYSTEM_CONFIG = "/etc/inference-watchdog/config.yaml"
PLAIN_WORD = re.compile(r"[A-Za-z0-9_@:,./+=-]+")
HIDDEN_FROM_SERVICES = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - named, not used
"""What the system unit may not see (ProtectHome=, PrivateTmp=)."""


class Kind(StrEnum):
    """Who runs the daemon."""

    SYSTEM = "system"
    USER = "user"
    LAUNCHD = "launchd"


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One file to be written: where, and its text."""

    path: Path
    text: str


class UnfitError(Exception):
    """This installation cannot be run that way; the text says why and what to do instead."""


def this_command() -> Path:
    """The console script of this installation. Raises UnfitError when there is none (a bare checkout)."""
    command = Path(sysconfig.get_path("scripts")) / "inference-watchdog"
    if not command.is_file():
        raise UnfitError(f"{command} does not exist: install inference-watchdog first (pip install, or a package)")
    return command


def is_packaged(command: Path) -> bool:
    """Whether `command` belongs to the .deb or .rpm, which brings its own unit."""
    return PACKAGED.exists() and os.path.realpath(PACKAGED_COMMAND) == os.path.realpath(command)


def source(name: str) -> str:
    """The text of a file of `units/`: from the installed package, or from the checkout of an editable install."""
    packaged = resources.files("watchdog") / "units"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[2] / "units"
    return (folder / name).read_text(encoding="utf-8")


def systemd_files(kind: Kind, command: Path, config: Path | None, folder: Path) -> tuple[UnitFile, ...]:
    """The unit and the unit that tells of its failure, for `command` and `config`, to be written into `folder`.

    Raises UnfitError for a path that systemd cannot run.
    """
    if set(str(command)) & set("\"'\\"):
        raise UnfitError(f"systemd takes no quote and no backslash in the path of a program: {command}")
    under = "user/" if kind is Kind.USER else ""
    files = []
    for name in (UNIT, FAILED_UNIT):
        text = source(under + name).replace(PACKAGED_COMMAND, unit_word(str(command), is_program=True))
        if kind is Kind.USER and config is not None:
            text = re.sub(r"^(Exec\w+=.*? (?:run|notify-failure))", _with_config(config), text, flags=re.MULTILINE)
        elif config is not None:
            text = text.replace(f"--config {SYSTEM_CONFIG}", f"--config {unit_word(str(config))}")
        text = text.replace("Documentation=man:inference-watchdog(1)\n", "")  # only packages install the page
        files.append(UnitFile(folder / name, f"# {MARK}; `service remove` undoes it.\n{text}"))
    return tuple(files)


def _with_config(config: Path) -> str:
    return r"\1 --config " + unit_word(str(config)).replace("\\", r"\\")


def unit_word(text: str, *, is_program: bool = False) -> str:
    """`text` as one word of a unit's command line (systemd.service(5)); variables are not looked for in the program."""
    escaped = text.replace("%", "%%").replace("$", "$" if is_program else "$$")
    if PLAIN_WORD.fullmatch(text):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def launchd_file(command: Path, config: Path, account: str, folder: Path) -> UnitFile:
    """The LaunchDaemon that runs as `account`, with state and logs in that account's Library."""
    library = Path(pwd.getpwnam(account).pw_dir) / "Library"
    logs = library / "Logs" / "inference-watchdog"
    state = library / "Application Support" / "inference-watchdog"
    plist = plistlib.loads(source(f"{LABEL}.plist").encode())
    plist["ProgramArguments"] = [str(command), "run", "--config", str(config)]
    plist["ProgramArguments"] += ["--state-dir", str(state), "--log-file", str(logs / "daemon.log")]
    plist["UserName"] = account
    plist["StandardErrorPath"] = str(logs / "stderr.log")
    start, end = plistlib.dumps(plist, sort_keys=False).decode().split("<plist ", 1)
    return UnitFile(folder / f"{LABEL}.plist", f"{start}<!-- {MARK} -->\n<plist {end}")


def check_reachable(command: Path) -> None:
    """Raise UnfitError when a service without an account of its own could not run `command`."""
    for path in (command, Path(os.path.realpath(sys.executable)), Path(sys.base_prefix)):
        if any(path.is_relative_to(hidden) for hidden in HIDDEN_FROM_SERVICES):
            raise UnfitError(
                f"{path} is in a place that system services do not see. Install from a package, or into "
                "/opt/inference-watchdog with the system's own Python; or take `service install --user`."
            )
        for part in (path, *path.parents):
            if not part.stat().st_mode & stat.S_IXOTH:
                raise UnfitError(f"{part} is closed to others, so the service's account cannot run {command}")
