"""Hosts: host key, login, permission; what has to be done on a host is printed, never done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watchdog.checks.examination import Examined, described_lines, examine
from watchdog.clock import SystemClock
from watchdog.config import HostSettings
from watchdog.errors import WatchdogError
from watchdog.loading.cross_checks import NAME
from watchdog.loading.host_checks import USER, is_host
from watchdog.reasons import HostReason
from watchdog.setup.files import PRIVATE, PUBLIC, Files, append_line, read, write
from watchdog.setup.prompts import Prompter
from watchdog.ssh import HostError
from watchdog.ssh.host_key import HostKey, KeyStatus, key_status, known_hosts_pattern, known_keys, scan_host_key
from watchdog.ssh.login import bound_line, new_private_key, open_line, public_line
from watchdog.text import duration

CLOCK_S = 5.0
HOST = re.compile(
    r"(?:(?P<name>[\w.-]+)=)?(?P<user>[^@\s:/=]+)@(?P<address>\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?"
)
MISTYPED = frozenset(
    {
        HostReason.DNS,
        HostReason.REFUSED,
        HostReason.TIMEOUT,
        HostReason.UNROUTABLE,
        HostReason.SILENT,
        HostReason.NOT_SSH,
    }
)
"""What a wrong address or port leads to."""
CONSOLE = "ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub"


@dataclass(frozen=True, slots=True)
class Access:
    """How to log in to hosts: the key's file, its public line, and the known_hosts of the new installation.

    `elsewhere` are known_hosts files of this account, consulted before a new host key is trusted. A login may take
    `timeout_s`.
    """

    key: Path
    public: str
    known_hosts: Path
    elsewhere: Sequence[Path] = ()
    timeout_s: float = 10.0


def parse_host(text: str, access: Access) -> HostSettings:
    """`[name=]user@address[:port]` as settings. Raises WatchdogError for anything else."""
    found = HOST.fullmatch(text.strip())
    port = int(found["port"] or 22) if found else 0
    if found is None or not 0 < port < 65536:
        raise WatchdogError(
            f"{text} is not a valid host; write it like monitor@192.0.2.10 or head=monitor@192.0.2.10:22"
        )
    address = found["address"].strip("[]")
    if not is_host(address):
        raise WatchdogError(
            f"{text}: {address} is not a valid address; write an IP address or a host name, like 192.0.2.10"
        )
    if USER.fullmatch(found["user"]) is None:
        raise WatchdogError(f"{text}: {found['user']} is not a valid user name; write it like monitor@192.0.2.10")
    if found["name"] and NAME.fullmatch(found["name"]) is None:
        raise WatchdogError(
            f"{text}: {found['name']} is not a valid name; it must start with a letter or digit, like head"
        )
    first = address.partition(".")[0]
    name = found["name"] or (first if not first.isdigit() and ":" not in address else re.sub(r"[^\w.-]", "-", address))
    return HostSettings(
        name=name,
        address=address,
        port=port,
        user=found["user"],
        identity_file=str(access.key),
        known_hosts=str(access.known_hosts),
    )


def check_hosts(texts: Sequence[str], identity: str | None) -> None:
    """Raises WatchdogError for hosts, host names or an existing key that cannot be used. Writes nothing."""
    nowhere = Access(Path(), "", Path())
    names = [parse_host(text, nowhere).name for text in texts]
    if len(set(names)) < len(names):
        raise WatchdogError("two hosts have the same name; write NAME=USER@ADDRESS")
    if identity is not None and Path(identity).expanduser().exists():
        public_line(Path(identity).expanduser())


def prepare_key(prompter: Prompter, files: Files, given: str | None) -> tuple[Path, str]:
    """The private key to use and its public line: the given one, the installation's, or a new one.

    Raises WatchdogError for a key that cannot be used.
    """
    path = Path(given).expanduser().absolute() if given else files.key
    if path.exists():
        public = public_line(path)
        prompter.ok(f"Using the key {path}.")
        return path, public
    if given and not prompter.confirm(f"{path} does not exist. Create a new key there?", default=True):
        raise WatchdogError(f"{path} does not exist; name another key with --identity")
    write(path, new_private_key(), PRIVATE)
    public = public_line(path)
    write(path.with_name(f"{path.name}.pub"), public + "\n", PUBLIC, replace=True)
    prompter.ok(f"Created a new key for the watchdog only: {path}")
    return path, public


def set_up(host: HostSettings, access: Access, prompter: Prompter) -> HostSettings:
    """Try one host until a login can read its kernel log, or the person gives up. Returns its settings."""
    while True:
        prompter.clear(f"host {host.name}")
        trouble: HostError | None = None
        try:
            if not _trust_host_key(host, access, prompter):
                return host
            seen = asyncio.run(examine(host, SystemClock(), access.timeout_s))
        except HostError as error:
            trouble = error
            _report_trouble(host, access, error, prompter)
        else:
            host = replace(host, forced_command=seen.forced_command)
            _report_login(host, seen, prompter)
            if seen.trouble is None:
                return host
        if not prompter.confirm_retry("Try again when that is done?"):
            return host
        if trouble is not None and trouble.reason in MISTYPED:
            host = _corrected(host, access, prompter)


def _corrected(host: HostSettings, access: Access, prompter: Prompter) -> HostSettings:
    """The host as typed again: the address or the port may have been wrong."""
    address = f"[{host.address}]" if ":" in host.address else host.address
    text = prompter.ask("The machine", f"{host.name}={host.user}@{address}:{host.port}")
    try:
        new = parse_host(text, access)
    except WatchdogError as error:
        prompter.note(str(error))
        return host
    prompter.clear(f"host {host.name}")
    return new


def _trust_host_key(host: HostSettings, access: Access, prompter: Prompter) -> bool:
    """Whether the host's key is known now. A new one is added only after a yes, a changed one never.

    Raises HostError when the host offers no key.
    """
    own = read(access.known_hosts)
    offered = asyncio.run(scan_host_key(host, access.timeout_s, own))
    if key_status(host, offered, own) is KeyStatus.KNOWN:
        prompter.ok(f"{host.name}: host key matches the known one, {offered}")
        return True
    about = f"host {host.name}"
    for path in (access.known_hosts, *access.elsewhere):
        if key_status(host, offered, read(path)) is KeyStatus.CHANGED:
            _report_changed_key(host, offered, path, prompter)
            return False
    prompter.note(f"{host.name} ({known_hosts_pattern(host)}) presents this host key:")
    prompter.verbatim(str(offered))
    sure = [path for path in access.elsewhere if key_status(host, offered, read(path)) is KeyStatus.KNOWN]
    command = CONSOLE.format(kind=offered.kind.lower())
    if sure:
        prompter.note(f"It is already in {sure[0]}.")
    else:
        prompter.note(f"Compare it on the machine's own console: {command}")
    if not prompter.confirm("Is it the same, and do you trust it?", default=bool(sure)):
        prompter.problem(
            f"its host key {offered.fingerprint} is not trusted ({HostReason.HOST_KEY_UNKNOWN.value})",
            f"Compare it on the machine's console: `{command}`; then run this again and say yes.",
            about=about,
        )
        return False
    append_line(access.known_hosts, offered.line(host))
    prompter.ok(f"Written to {access.known_hosts}.")
    return True


def _report_changed_key(host: HostSettings, offered: HostKey, path: Path, prompter: Prompter) -> None:
    known = ", ".join(key.get_fingerprint() for key in known_keys(host, read(path)))
    prompter.problem(
        f"{known_hosts_pattern(host)} presents a different host key than {path} contains "
        f"({HostReason.HOST_KEY_CHANGED.value}): {offered.fingerprint}, not {known}",
        "Either the machine was reinstalled or someone is intercepting the connection. Compare on its console: "
        f"`{CONSOLE.format(kind=offered.kind.lower())}`; only if it is really the new one: "
        f"`ssh-keygen -R '{known_hosts_pattern(host)}' -f {path}`, then run this again.",
        about=f"host {host.name}",
    )


def _report_trouble(host: HostSettings, access: Access, error: HostError, prompter: Prompter) -> None:
    fix = error.advice or "Log in by hand and see what is wrong."
    if error.reason is HostReason.KEY_REFUSED:
        fix = f"On {host.name}, add one of the two lines below to ~{host.user}/.ssh/authorized_keys."
    prompter.problem(f"{error.summary} ({error.reason.value})", fix, about=f"host {host.name}")
    if error.reason is HostReason.KEY_REFUSED:
        show_key_lines(host.user, access.public, prompter)


def show_key_lines(user: str, public: str, prompter: Prompter) -> None:
    """Print the two ways to authorize our key: bound to the reader script, or not."""
    prompter.note(
        "Best: bound to the read-only reader, so that this key can do nothing else. Copy packaging/host/ there and run:"
    )
    prompter.verbatim(f"sudo ACCOUNT={user} sh install.sh '{public}'")
    prompter.note("It adds exactly this line to authorized_keys:")
    prompter.verbatim(bound_line(public))
    prompter.note("Or install nothing: the reader is then sent each time, and the key could also run other commands:")
    prompter.verbatim(open_line(public))


def _report_login(host: HostSettings, seen: Examined, prompter: Prompter) -> None:
    about = f"host {host.name}"
    bound = "; the key is bound to the reader" if seen.forced_command else ""
    prompter.ok(f"{host.name}: logged in as {host.user}{bound}.")
    if seen.trouble is not None:
        trouble = seen.trouble
        fix = trouble.advice or "Log in by hand and run `journalctl -k -n 5`."
        prompter.problem(f"{trouble.summary} ({trouble.reason.value})", fix, about=about)
    else:
        lines = described_lines(seen.lines)
        prompter.ok(f"{host.name}: can read the {seen.source} ({lines} seen).")
    off = abs(seen.offset_s)
    if off - seen.unsure_s > CLOCK_S:
        direction = "ahead of" if seen.offset_s > 0 else "behind"
        prompter.problem(
            f"{host.name}: its clock is {duration(off)} {direction} ours (clock_offset)",
            f"Run on {host.name}: `sudo timedatectl set-ntp true` (first check this machine's own clock).",
            about=f"clock of {host.name}",
        )
