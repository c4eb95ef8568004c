"""Hosts: SSH key, host key, login, permission to read the kernel log, and the clock."""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watchdog.checks.examination import Examined, described_lines, examine
from watchdog.clock import Clock
from watchdog.config import HostSettings
from watchdog.doctor.finding import Finding, Grade
from watchdog.reasons import HostReason
from watchdog.ssh import HostError
from watchdog.ssh.errors import ConnectionProgress
from watchdog.ssh.login import bound_line, open_line, options, public_line
from watchdog.text import duration

LIMIT_S = 10.0
CLOCK_WARN_S = 5.0
"""Beyond this, times in alerts and in the host's own log no longer line up."""
CLOCK_FAIL_S = 60.0
SAME_CLOCK_S = 2.0
"""Hosts whose clocks differ from ours by the same amount, give or take this, share one time, and we have another."""
LOGIN_FAULTS = frozenset(
    {HostReason.HOST_KEY_CHANGED, HostReason.HOST_KEY_UNKNOWN, HostReason.KEY_REFUSED, HostReason.CONFIG}
)
"""Reasons found before, or instead of, a login."""


@dataclass(frozen=True, slots=True)
class HostLook:
    """One host and what was seen of it: either a login or the reason why there was none."""

    host: HostSettings
    seen: Examined | None
    trouble: HostError | None


async def look_at(host: HostSettings, clock: Clock, jump: HostSettings | None) -> HostLook:
    try:
        seen = await examine(host, clock, min(LIMIT_S, host.kernel_log.timeout_s), jump)
    except HostError as error:
        return HostLook(host, None, error)
    return HostLook(host, seen, seen.trouble)


def host_findings(looks: list[HostLook]) -> list[Finding]:
    """The findings about all hosts together: only in comparison does it show whose clock is wrong."""
    offsets = [look.seen.offset_s for look in looks if look.seen is not None]
    found: list[Finding] = []
    for look in looks:
        found += [_login(look), *_older(look), _permission(look)] if look.seen is not None else [_no_login(look)]
    ours = len(offsets) > 1 and max(offsets) - min(offsets) <= SAME_CLOCK_S
    found += [_clock(look.host, look.seen, ours=ours) for look in looks if look.seen is not None]
    unseen = [look.host.name for look in looks if look.seen is None]
    found += [Finding.unseen("clock", name, "there was no login") for name in unseen]
    return found


def _no_login(look: HostLook) -> Finding:
    assert look.trouble is not None  # noqa: S101 - a look without a login has its reason
    area = "key" if look.trouble.reason in LOGIN_FAULTS else "host"
    fix = _login_line(look) or look.trouble.advice or "Log in by hand and see what is wrong."
    return Finding.fail(area, look.host.name, look.trouble.summary, fix=fix, reason=look.trouble.reason.value)


def _login_line(look: HostLook) -> str:
    """How to authorize our key, where the host refused it and it is in a file; else an empty text."""
    host = look.host
    if look.trouble is None or look.trouble.reason is not HostReason.KEY_REFUSED or host.identity_file is None:
        return ""
    public = public_line(Path(host.identity_file).expanduser(), host.passphrase)
    line = bound_line(public) if host.forced_command else open_line(public)
    return (
        f"On {host.name}, make sure that {host.user} exists and has a shell, and add this line to "
        f"~{host.user}/.ssh/authorized_keys: {line}"
    )


def _login(look: HostLook) -> Finding:
    host, seen = look.host, look.seen
    assert seen is not None  # noqa: S101 - asked only of a host we were in
    if seen.forced_command and not host.forced_command:
        words = "its key is bound to the installed reader, but the configuration does not say so"
        fix = f"Set `forced_command: true` for host {host.name}."
        return Finding.fail("host", host.name, words, fix=fix, reason=HostReason.CONFIG.value)
    bound = "bound to the reader" if host.forced_command else "not bound: it could run other commands, but never does"
    words = f"logged in to {host.user}@{host.address}, port {host.port}; host key known; our key is {bound}"
    return Finding.ok("host", host.name, words)


def _older(look: HostLook) -> list[Finding]:
    """Whether the reader installed on the host lacks a request of ours; a reader that is sent is never older."""
    host, seen = look.host, look.seen
    assert seen is not None  # noqa: S101 - asked only of a host we were in
    if not seen.forced_command or (seen.hello.takes_beats and seen.hello.takes_pulse and seen.hello.takes_nccl):
        return []
    key = "PUBLIC-KEY"
    if host.identity_file is not None:
        with suppress(HostError):
            key = public_line(Path(host.identity_file).expanduser(), host.passphrase)
    words = (
        f"reader on {host.name} is older: install it again; all else works, but it is not asked what it does not know"
    )
    fix = (
        f"Copy `packaging/host/install.sh` and `watchdog/host/reader.sh` of this version to {host.name} and run there: "
        f"`sudo ACCOUNT={host.user} sh install.sh '{key}'`."
    )
    return [Finding("host", host.name, Grade.WARN, words, fix, reason="older_reader")]


def _permission(look: HostLook) -> Finding:
    host, seen, trouble = look.host, look.seen, look.trouble
    assert seen is not None  # noqa: S101 - asked only of a host we were in
    if trouble is not None:
        words = f"{trouble.summary} (its groups: {', '.join(sorted(seen.hello.groups))})"
        fix = trouble.advice or "Log in by hand and run `journalctl -k -n 5`."
        return Finding.fail("permission", host.name, words, fix=fix, reason=trouble.reason.value)
    words = f"can read the {seen.source}: {described_lines(seen.lines)} of the current boot seen"
    return Finding.ok("permission", host.name, words)


def _clock(host: HostSettings, seen: Examined, *, ours: bool) -> Finding:
    off = abs(seen.offset_s)
    beyond = off - seen.unsure_s
    direction = "ahead of" if seen.offset_s > 0 else "behind"
    words = f"its clock is {duration(off)} {direction} ours" if beyond > 0 else "its clock agrees with ours"
    if beyond <= CLOCK_WARN_S:
        return Finding.ok("clock", host.name, words)
    where = "here, as all hosts agree with each other" if ours else f"on {host.name}"
    first = "" if ours else " (first check this machine's own clock)"
    return Finding(
        "clock",
        host.name,
        Grade.FAIL if beyond > CLOCK_FAIL_S else Grade.WARN,
        words,
        f"Run {where}: `sudo timedatectl set-ntp true`, then look at `timedatectl`{first}.",
        reason="clock_offset",
    )


# What we log in with: key and known_hosts, examined on this machine alone, before any connection.


def examine_key(host: HostSettings) -> Finding:
    """Whether the key of `host` can be used and is closed to others. An encrypted key takes half a second."""
    try:
        given = options(host, ConnectionProgress())
    except HostError as error:
        fix = error.advice or "Correct that setting."
        return Finding.fail("key", host.name, error.summary, fix=fix, reason=error.reason.value)
    keys = given.get("client_keys") or []
    prints = ", ".join(f"{key.get_algorithm()} {key.get_fingerprint()}" for key in keys)
    if not prints:
        where = "the running ssh-agent" if host.agent else "ssh_config"
        return Finding.unseen("key", host.name, f"the key comes from {where}, which a service may not have")
    if host.identity_file is None:
        return Finding.ok("key", host.name, f"{prints}, supplied inline as a secret")
    mode = stat.S_IMODE(Path(host.identity_file).expanduser().stat().st_mode)
    return Finding.ok("key", host.name, f"{prints}, in {host.identity_file} (mode {mode:04o})")
