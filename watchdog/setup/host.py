"""Hosts: host key, login, permission; what has to be done on a host is printed, never done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watchdog.checks.examination import SAMPLE_LINES, Examined, examine
from watchdog.clock import SystemClock
from watchdog.config import HostSettings
from watchdog.errors import WatchdogError
from watchdog.loading.cross_checks import NAME
from watchdog.loading.hosts import USER, is_host
from watchdog.reasons import HostReason
from watchdog.setup.files import PRIVATE, PUBLIC, Places, append_line, read, write
from watchdog.setup.prompts import Talk
from watchdog.ssh import HostError
from watchdog.ssh.host_key import OfferedKey, Standing, known_keys, offered_key, pattern, standing
from watchdog.ssh.login import bound_line, new_private_key, open_line, public_line

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
"""What a wrong address or port looks like."""
CONSOLE = "ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub"


@dataclass(frozen=True, slots=True)
class Access:
    """How hosts are logged in to: the key's file, its public line, and the known_hosts of the new installation.

    `elsewhere` are known_hosts files of this account: what they say about a host counts when its key is judged. A
    login gets `timeout_s`.
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
        raise WatchdogError(f"{text} is no host; write it like monitor@192.0.2.10 or head=monitor@192.0.2.10:22")
    address = found["address"].strip("[]")
    if not is_host(address):
        raise WatchdogError(f"{text}: {address} is no address; write an IP address or a host name, like 192.0.2.10")
    if USER.fullmatch(found["user"]) is None:
        raise WatchdogError(f"{text}: {found['user']} is no user name; write it like monitor@192.0.2.10")
    if found["name"] and NAME.fullmatch(found["name"]) is None:
        raise WatchdogError(f"{text}: {found['name']} is no name; it begins with a letter or digit, like head")
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
    """What can be said of the flags before anything is touched: hosts, their names, a key that is there already.

    Raises WatchdogError in plain words.
    """
    nowhere = Access(Path(), "", Path())
    names = [parse_host(text, nowhere).name for text in texts]
    if len(set(names)) < len(names):
        raise WatchdogError("two hosts have the same name; write NAME=USER@ADDRESS")
    if identity is not None and Path(identity).expanduser().exists():
        public_line(Path(identity).expanduser())


def own_key(talk: Talk, places: Places, given: str | None) -> tuple[Path, str]:
    """The private key to use and its public line: the one that is given, the installation's own, or a new one.

    Raises WatchdogError for a key that cannot be used.
    """
    path = Path(given).expanduser().absolute() if given else places.key
    if path.exists():
        public = public_line(path)
        talk.well(f"The key {path} is used.")
        return path, public
    if given and not talk.agree(f"{path} does not exist. Make a new key there?", default=True):
        raise WatchdogError(f"{path} does not exist; name another key with --identity")
    write(path, new_private_key(), PRIVATE)
    public = public_line(path)
    write(path.with_name(f"{path.name}.pub"), public + "\n", PUBLIC, replace=True)
    talk.well(f"A new key for the watchdog alone: {path}")
    return path, public


def set_up(host: HostSettings, access: Access, talk: Talk) -> HostSettings:
    """Lead one host to a login that may read kernel lines. Returns its settings, good or still with things to do."""
    while True:
        talk.solved(f"host {host.name}")
        trouble: HostError | None = None
        try:
            if not _trust(host, access, talk):
                return host
            seen = asyncio.run(examine(host, SystemClock(), access.timeout_s))
        except HostError as error:
            trouble = error
            _tell_trouble(host, access, error, talk)
        else:
            host = replace(host, forced_command=seen.forced_command)
            _tell_login(host, seen, talk)
            if seen.trouble is None:
                return host
        if not talk.again("Try again, when that is done?"):
            return host
        if trouble is not None and trouble.reason in MISTYPED:
            host = _corrected(host, access, talk)


def _corrected(host: HostSettings, access: Access, talk: Talk) -> HostSettings:
    """The host as typed once more: the address or the port may have been wrong."""
    address = f"[{host.address}]" if ":" in host.address else host.address
    text = talk.ask("The machine", f"{host.name}={host.user}@{address}:{host.port}")
    try:
        new = parse_host(text, access)
    except WatchdogError as error:
        talk.note(str(error))
        return host
    talk.solved(f"host {host.name}")
    return new


def _trust(host: HostSettings, access: Access, talk: Talk) -> bool:
    """Whether the host's key is known now. A new one is shown, and written only after a yes; a changed one never.

    Raises HostError when the host gives no key.
    """
    own = read(access.known_hosts)
    offered = asyncio.run(offered_key(host, access.timeout_s, own))
    if standing(host, offered, own) is Standing.KNOWN:
        talk.well(f"{host.name}: its host key is the known one, {offered}")
        return True
    about = f"host {host.name}"
    for path in (access.known_hosts, *access.elsewhere):
        if standing(host, offered, read(path)) is Standing.CHANGED:
            _tell_changed(host, offered, path, talk)
            return False
    talk.note(f"{host.name} ({pattern(host)}) shows this host key:")
    talk.plain(str(offered))
    sure = [path for path in access.elsewhere if standing(host, offered, read(path)) is Standing.KNOWN]
    command = CONSOLE.format(kind=offered.kind.lower())
    if sure:
        talk.note(f"{sure[0]} knows it already.")
    else:
        talk.note(f"Compare it on the machine's own console: {command}")
    if not talk.agree("Is it the same? Trust it?", default=bool(sure)):
        talk.problem(
            f"its host key {offered.fingerprint} is not trusted ({HostReason.HOST_KEY_UNKNOWN.value})",
            f"Compare it on the machine's console: `{command}`; then run this again and say yes.",
            about=about,
        )
        return False
    append_line(access.known_hosts, offered.line(host))
    talk.well(f"Written to {access.known_hosts}.")
    return True


def _tell_changed(host: HostSettings, offered: OfferedKey, path: Path, talk: Talk) -> None:
    known = ", ".join(key.get_fingerprint() for key in known_keys(host, read(path)))
    talk.problem(
        f"{pattern(host)} shows another host key than {path} holds ({HostReason.HOST_KEY_CHANGED.value}): "
        f"{offered.fingerprint}, not {known}",
        "Either the machine was reinstalled or someone is in between. Compare on its console: "
        f"`{CONSOLE.format(kind=offered.kind.lower())}`; only if it is the new one: "
        f"`ssh-keygen -R '{pattern(host)}' -f {path}`, then run this again.",
        about=f"host {host.name}",
    )


def _tell_trouble(host: HostSettings, access: Access, error: HostError, talk: Talk) -> None:
    fix = error.advice or "Log in by hand and see what is wrong."
    if error.reason is HostReason.KEY_REFUSED:
        fix = f"On {host.name}, add one of the two lines below to ~{host.user}/.ssh/authorized_keys."
    talk.problem(f"{error.summary} ({error.reason.value})", fix, about=f"host {host.name}")
    if error.reason is HostReason.KEY_REFUSED:
        offer_lines(host.user, access.public, talk)


def offer_lines(user: str, public: str, talk: Talk) -> None:
    """The two ways to let our key in: bound to the reader script, or not."""
    talk.note("Best: bound to the read-only reader, so that this key can do nothing else. Copy packaging/host/ there:")
    talk.plain(f"sudo ACCOUNT={user} sh install.sh '{public}'")
    talk.note("which adds exactly this line to authorized_keys:")
    talk.plain(bound_line(public))
    talk.note("Or with nothing installed: the reader is then sent each time, and the key could run other commands too:")
    talk.plain(open_line(public))


def _tell_login(host: HostSettings, seen: Examined, talk: Talk) -> None:
    about = f"host {host.name}"
    bound = "; the key is bound to the reader" if seen.forced_command else ""
    talk.well(f"{host.name}: logged in as {host.user}{bound}.")
    if seen.trouble is not None:
        trouble = seen.trouble
        fix = trouble.advice or "Log in by hand and run `journalctl -k -n 5`."
        talk.problem(f"{trouble.summary} ({trouble.reason.value})", fix, about=about)
    else:
        count = f"at least {SAMPLE_LINES}" if seen.lines >= SAMPLE_LINES else str(seen.lines)
        talk.well(f"{host.name}: may read the {seen.source} ({count} of its kernel lines seen).")
    off = abs(seen.offset_s)
    if off - seen.unsure_s > CLOCK_S:
        way = "ahead of" if seen.offset_s > 0 else "behind"
        span = f"{off:.0f} s" if off < 90 else f"{off / 60:.0f} minutes"
        talk.problem(
            f"{host.name}: its clock is {span} {way} ours (clock_offset)",
            f"Run on {host.name}: `sudo timedatectl set-ntp true` (first see that this machine's own clock is right).",
            about=f"clock of {host.name}",
        )
