"""`service`: let systemd or launchd run this installation's daemon, or stop doing so."""

from __future__ import annotations

import os
import plistlib
import pwd
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

import click

from watchdog.cli import EXIT_OK, EXIT_USAGE
from watchdog.cli.options import config_option

MARK = "Written by `inference-watchdog service install`"
"""Is in every file we write; a file without it is somebody else's and is left alone."""
LABEL = "org.inference-watchdog.daemon"
UNIT = "inference-watchdog.service"
FAILED_UNIT = "inference-watchdog-failed@.service"
PACKAGED = Path("/usr/lib/systemd/system") / UNIT
PACKAGED_COMMAND = "/usr/bin/inference-watchdog"
SYSTEM_CONFIG = "/etc/inference-watchdog/config.yaml"
PLAIN_WORD = re.compile(r"[A-Za-z0-9_@:,./+=-]+")
HIDDEN_FROM_SERVICES = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - named, not used
"""What the system unit may not see (ProtectHome=, PrivateTmp=)."""


class ServiceKind(StrEnum):
    """The service manager that runs the daemon: systemd for the system or for one user, or launchd."""

    SYSTEM = "system"
    USER = "user"
    LAUNCHD = "launchd"


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One file to be written: where, and its text."""

    path: Path
    text: str


class UnfitError(Exception):
    """This installation cannot be run that way; says why and what to do instead."""


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


def systemd_files(kind: ServiceKind, command: Path, config: Path | None, folder: Path) -> tuple[UnitFile, ...]:
    """The unit and the unit that reports its failure, for `command` and `config`, to be written into `folder`.

    Raises UnfitError for a path that systemd cannot run.
    """
    if set(str(command)) & set("\"'\\"):
        raise UnfitError(f"systemd allows no quotes or backslashes in the path of a program: {command}")
    under = "user/" if kind is ServiceKind.USER else ""
    files = []
    for name in (UNIT, FAILED_UNIT):
        text = source(under + name).replace(PACKAGED_COMMAND, unit_word(str(command), is_program=True))
        if kind is ServiceKind.USER and config is not None:
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
                f"{path} is not visible to system services. Install from a package, or into "
                "/opt/inference-watchdog with the system's own Python; or use `service install --user`."
            )
        for part in (path, *path.parents):
            if not part.stat().st_mode & stat.S_IXOTH:
                raise UnfitError(f"{part} is not accessible to others, so the service's account cannot run {command}")


SYSTEMD_FOLDER = Path("/etc/systemd/system")
LAUNCHD_FOLDER = Path("/Library/LaunchDaemons")


@click.group()
def command() -> None:
    """Let systemd or launchd run the daemon, for this installation."""


def kind_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--system`, `--user` and `--launchd`, as the argument `kind`; None if none is given."""
    helps = {
        ServiceKind.SYSTEM: "A systemd system service under its own account. Default for root on Linux.",
        ServiceKind.USER: "A systemd user service of yours. Default for others on Linux.",
        ServiceKind.LAUNCHD: "A macOS LaunchDaemon under your account (agents lose the local network). Default there.",
    }
    for kind in reversed(ServiceKind):
        function = click.option(f"--{kind.value}", "kind", flag_value=kind.value, help=helps[kind])(function)
    return function


def _chosen(kind: str | None) -> ServiceKind:
    return ServiceKind(kind) if kind else _default_kind()


def _default_kind() -> ServiceKind:
    if sys.platform == "darwin":
        return ServiceKind.LAUNCHD
    return ServiceKind.SYSTEM if os.geteuid() == 0 else ServiceKind.USER


@command.command()
@kind_options
@config_option
@click.option("--print", "only_print", is_flag=True, help="Show the files; write and start nothing.")
def install(kind: str | None, config_file: str | None, only_print: bool) -> int:
    """Write, enable and start the right unit or plist for this installation.

    The configuration must be valid first: it is checked as the service will see it, with the variables in
    /etc/inference-watchdog/environment and the files in /etc/inference-watchdog/credentials (--user:
    ~/.config/inference-watchdog/environment).

    Exit code 64: it is invalid, or something is in the way; nothing was written.
    """
    which = _chosen(kind)
    try:
        program = this_command()
        files, config = _files(which, program, config_file)
        if only_print:
            for file in files:
                click.echo(f"# {file.path}", err=which is ServiceKind.LAUNCHD)
                click.echo(file.text)
            return EXIT_OK
        if which is ServiceKind.SYSTEM:
            check_reachable(program)
        _check_writable(which, files)
        if not _is_valid(which, config):
            return EXIT_USAGE
        if which is ServiceKind.LAUNCHD:
            _load_daemon(files[0], config)
        else:
            _enable_unit(which, () if is_packaged(program) and str(config) == SYSTEM_CONFIG else files)
    except UnfitError as unfit:
        raise click.UsageError(str(unfit)) from unfit
    return EXIT_OK


@command.command()
@kind_options
def remove(kind: str | None) -> int:
    """Stop the service and remove what `service install` wrote. Configuration and state stay."""
    which = _chosen(kind)
    paths = [_folder(which) / name for name in _names(which)]
    there = [path for path in paths if path.exists()]
    strange = [path for path in there if MARK not in path.read_text(encoding="utf-8", errors="replace")]
    if strange or not there:
        what = f"{strange[0]} was not written by `service install`" if strange else f"there is no {paths[0]}"
        raise click.UsageError(f"{what}; nothing was removed")
    if which is ServiceKind.LAUNCHD:
        _run("launchctl", "bootout", f"system/{LABEL}", must=False)
    else:
        _run(*_systemctl(which), "disable", "--now", UNIT, must=False)
    for path in there:
        path.unlink()
        click.echo(f"removed {path}")
    if which is not ServiceKind.LAUNCHD:
        _run(*_systemctl(which), "daemon-reload")
    return EXIT_OK


@command.command()
@kind_options
@config_option
def validate(kind: str | None, config_file: str | None) -> int:
    """Check the configuration as the service sees it: with its variables and credentials.

    Exit code 0: valid; 64: invalid.
    """
    which = _chosen(kind)
    return EXIT_OK if _is_valid(which, _config(which, config_file)) else EXIT_USAGE


def _config_home() -> Path:
    """What `%E` is in a user's unit (systemd.unit(5))."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _folder(kind: ServiceKind) -> Path:
    if kind is ServiceKind.USER:
        return _config_home() / "systemd" / "user"
    return LAUNCHD_FOLDER if kind is ServiceKind.LAUNCHD else SYSTEMD_FOLDER


def _names(kind: ServiceKind) -> tuple[str, ...]:
    return (f"{LABEL}.plist",) if kind is ServiceKind.LAUNCHD else (UNIT, FAILED_UNIT)


def _config(kind: ServiceKind, config_file: str | None) -> Path:
    """The configuration the service is to use, absolute."""
    if kind is ServiceKind.SYSTEM:
        return Path(config_file or SYSTEM_CONFIG).absolute()
    from watchdog.loading import locate

    return locate(config_file).absolute()


def _files(kind: ServiceKind, program: Path, config_file: str | None) -> tuple[tuple[UnitFile, ...], Path]:
    config = _config(kind, config_file)
    if kind is ServiceKind.LAUNCHD:
        return (launchd_file(program, config, _account(), _folder(kind)),), config
    return systemd_files(kind, program, config, _folder(kind)), config


def _account() -> str:
    """Who called sudo, else who we are."""
    return os.environ.get("SUDO_USER") or pwd.getpwuid(os.geteuid()).pw_name


def _check_writable(kind: ServiceKind, files: Sequence[UnitFile]) -> None:
    if kind is not ServiceKind.USER and os.geteuid() != 0:
        raise UnfitError(f"only root may write to {_folder(kind)}: use sudo")
    for file in files:
        if file.path.exists() and MARK not in file.path.read_text(encoding="utf-8", errors="replace"):
            raise UnfitError(f"{file.path} exists and was not written by this command; move it away first")


def _is_valid(kind: ServiceKind, config: Path) -> bool:
    """Whether the service can be started with `config`; prints every problem otherwise."""
    from watchdog.cli.options import service_environment
    from watchdog.errors import ConfigError
    from watchdog.loading import load

    folder = {
        ServiceKind.SYSTEM: Path(SYSTEM_CONFIG).parent,
        ServiceKind.USER: _config_home() / "inference-watchdog",
    }.get(kind)
    with service_environment(folder or config.parent) as environ:
        try:
            load(config, environ=environ)
        except ConfigError as error:
            click.echo(str(error), err=True)
            click.echo("Fix the configuration first; nothing was started.", err=True)
            return False
    click.echo(f"{config} is valid.")
    return True


NAMESPACED = (
    "PrivateUsers=yes",
    "CapabilityBoundingSet=",
    "PrivateDevices=yes",
    "ProtectControlGroups=yes",
    "ProtectSystem=full",
)
"""What a user's own unit can only have where that user may have a user namespace."""


def without_namespace(file: UnitFile) -> UnitFile:
    """The same unit for a machine that allows users no namespaces."""
    lines = [line for line in file.text.splitlines() if line not in NAMESPACED]
    return UnitFile(file.path, "\n".join(lines) + "\n")


def _may_have_namespace() -> bool:
    """Whether this user's systemd can start something with `NAMESPACED`."""
    program = shutil.which("systemd-run")
    if program is None:
        return False
    words = ["--user", "--wait", "--quiet", "--collect", *(f"--property={one}" for one in NAMESPACED), "true"]
    return subprocess.run([program, *words], check=False, stderr=subprocess.DEVNULL).returncode == 0  # noqa: S603


def _enable_unit(kind: ServiceKind, files: Sequence[UnitFile]) -> None:
    if kind is ServiceKind.USER and files and not _may_have_namespace():
        click.echo("This machine allows users no namespace of their own: the unit has a smaller sandbox.")
        files = [without_namespace(file) for file in files]
    if kind is ServiceKind.SYSTEM:
        (Path(SYSTEM_CONFIG).parent / "credentials").mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in files:
        _write(file)
    _run(*_systemctl(kind), "daemon-reload")
    _run(*_systemctl(kind), "enable", UNIT)
    _run(*_systemctl(kind), "restart", UNIT)
    click.echo("Started. Test the receivers with `inference-watchdog test-alert`.")
    if kind is ServiceKind.USER:
        click.echo("It stops when you log out, unless you run: sudo loginctl enable-linger $USER")


def _load_daemon(file: UnitFile, config: Path) -> None:
    plist = plistlib.loads(file.text.encode())
    account, arguments = plist["UserName"], plist["ProgramArguments"]
    state = Path(arguments[arguments.index("--state-dir") + 1])
    for folder in (state, Path(plist["StandardErrorPath"]).parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.chown(folder, account)
    _run("launchctl", "bootout", f"system/{LABEL}", must=False)
    _write(file)
    _run("launchctl", "enable", f"system/{LABEL}")
    _run("launchctl", "bootstrap", "system", str(file.path))
    click.echo(f"Started as {account}, with {config}. The log: {plist['StandardErrorPath']} and daemon.log beside it.")


def _write(file: UnitFile) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(file.text, encoding="utf-8")
    file.path.chmod(0o644)  # launchd refuses others, and systemd warns
    click.echo(f"wrote {file.path}")


def _systemctl(kind: ServiceKind) -> tuple[str, ...]:
    return ("systemctl", "--user") if kind is ServiceKind.USER else ("systemctl",)


def _run(*words: str, must: bool = True) -> None:
    """Run a service manager's command, its output to the terminal. Raises ClickException when it fails and `must`."""
    program = shutil.which(words[0])
    if program is None:
        raise click.ClickException(f"{words[0]} is not installed, so nothing can run the service")
    done = subprocess.run([program, *words[1:]], check=False, stderr=None if must else subprocess.DEVNULL)  # noqa: S603
    if must and done.returncode != 0:
        raise click.ClickException(f"`{' '.join(words)}` failed: see its output above, or journalctl -u {UNIT}")
