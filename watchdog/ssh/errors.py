"""Why a host's kernel log could not be read: one slug each, in plain words, with what to do next."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdog.config import HostSettings
from watchdog.errors import WatchdogError
from watchdog.reasons import HostReason

if TYPE_CHECKING:
    import asyncssh


class HostError(WatchdogError):
    """A host that could not be read. `ours`: the fault is on our road, so nothing is known about the host."""

    def __init__(self, reason: HostReason, summary: str, advice: str = "", *, ours: bool = False) -> None:
        """`summary` is one plain sentence, `advice` what to do next."""
        super().__init__(summary)
        self.reason = reason
        self.summary = summary
        self.advice = advice
        self.ours = ours


@dataclass(slots=True)
class Stage:
    """How far a connection came, noted as it happens, so that a deadline can say what it was waiting for."""

    connected: bool = False
    exchanged: bool = False
    authenticated: bool = False
    running: str = ""
    offered_key: str = ""
    known_keys: int = 0
    version: Callable[[], str] = str


def endpoint(host: HostSettings) -> str:
    """`address:port` as a person writes it."""
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"{address}:{host.port}"


def out_of_time(host: HostSettings, stage: Stage, seconds: float) -> HostError:
    """The deadline passed: say at which point, for a frozen machine answers TCP and then nothing."""
    where, limit = endpoint(host), f"{seconds:g} s"
    if not stage.connected:
        return HostError(
            HostReason.TIMEOUT,
            f"{where} did not answer a TCP connection within {limit}",
            "So looks a machine that is off, locked up, or behind a firewall that drops packets. Look at its console.",
        )
    if not stage.exchanged:
        said = "gave its SSH version and then nothing" if stage.version() else "never said a word"
        return HostError(
            HostReason.SILENT,
            f"{where} accepts connections but its SSH server {said} for {limit}",
            "This is what a frozen machine looks like: the kernel still answers, programs do not. Look at its console.",
        )
    if not stage.authenticated:
        return HostError(
            HostReason.SILENT,
            f"{where} exchanged keys but did not finish the login within {limit}",
            "New logins hang on a half-dead machine, or when its user database is unreachable. Look at its console.",
        )
    doing = f"`{stage.running}`" if stage.running else "opening the session"
    return HostError(
        HostReason.TIMEOUT,
        f"logged in to {where}, but {doing} was not finished within {limit}",
        "The machine may be overloaded or its disk may hang. Run `journalctl -k -n 5` there and see how long it takes.",
    )


def network(host: HostSettings, error: OSError, stage: Stage) -> HostError:
    """A failure below SSH: name resolution, routing, a closed port, a cut connection."""
    if isinstance(error, socket.gaierror):
        unsure = error.errno == socket.EAI_AGAIN
        return HostError(
            HostReason.DNS,
            f"the name {host.address} could not be resolved",
            "Our resolver did not answer." if unsure else "Check `address`, or write the IP address.",
            ours=unsure,
        )
    if error.errno in {errno.EHOSTUNREACH, errno.EHOSTDOWN}:
        return _no_such_neighbour(host)
    if isinstance(error, ConnectionRefusedError):
        error.errno = errno.ECONNREFUSED  # asyncio joins several addresses' errors into one without a number
    if error.errno in _BY_NUMBER:
        reason, summary, advice, ours = _BY_NUMBER[error.errno]
        return HostError(reason, summary.format(where=endpoint(host), address=host.address), advice, ours=ours)
    return cut_off(host, stage)


_OFF_THE_NET = (HostReason.UNROUTABLE, "this machine has no route to {address}", "Check this machine's network.", True)
_OUT_OF_MEANS = (HostReason.LOCAL, "this machine is out of files or memory", "Look at its limits.", True)
_BY_NUMBER: dict[int, tuple[HostReason, str, str, bool]] = {
    errno.ECONNREFUSED: (
        HostReason.REFUSED,
        "nothing listens on {where} (connection refused)",
        "The machine is up, its SSH server is not. Check `systemctl status ssh` there, and `port`.",
        False,
    ),
    errno.ETIMEDOUT: (HostReason.TIMEOUT, "{where} stopped answering", "Look at its console.", False),
    errno.ENETUNREACH: _OFF_THE_NET,
    errno.ENETDOWN: _OFF_THE_NET,
    errno.EADDRNOTAVAIL: _OFF_THE_NET,
    errno.EMFILE: _OUT_OF_MEANS,
    errno.ENFILE: _OUT_OF_MEANS,
    errno.ENOBUFS: _OUT_OF_MEANS,
    errno.ENOMEM: _OUT_OF_MEANS,
}


def _no_such_neighbour(host: HostSettings) -> HostError:
    if sys.platform == "darwin":  # may be macOS's own permission (TN3179): `selfwatch` tells when it is
        return HostError(
            HostReason.UNROUTABLE,
            f"macOS says there is no route to {host.address}",
            "If `ping` reaches it, allow Local Network for this program or run it as a LaunchDaemon; else it is off.",
        )
    return HostError(
        HostReason.UNROUTABLE,
        f"{host.address} does not answer on its network (no route to host)",
        "The machine is off, locked up or unplugged. Look at its console.",
    )


def cut_off(host: HostSettings, stage: Stage) -> HostError:
    """The connection ended under us."""
    if stage.running:
        return HostError(
            HostReason.TRUNCATED,
            f"the connection to {endpoint(host)} broke off during `{stage.running}`",
            "The lines that had come are used; the next run reads on from there.",
        )
    when = "before the SSH greeting" if not stage.exchanged else "during the login"
    return HostError(
        HostReason.RESET,
        f"{endpoint(host)} closed the connection {when}",
        "Its SSH server restarts, has too many connections, or a firewall cut in. See `journalctl -u ssh` there.",
    )


def host_key(host: HostSettings, stage: Stage) -> HostError:
    """The host's key is not the one we know, or we know none. Both stop everything: host keys are always checked."""
    scan = f"ssh-keyscan -p {host.port} {host.address}"
    offered = f" It offers {stage.offered_key}." if stage.offered_key else ""
    if stage.known_keys:
        return HostError(
            HostReason.HOST_KEY_CHANGED,
            f"{endpoint(host)} shows another host key than the one in {host.known_hosts}.{offered}",
            "Either the machine was reinstalled or someone is in between. Compare on its console with "
            f"`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; only if equal, replace the line (`{scan}`).",
        )
    return HostError(
        HostReason.HOST_KEY_UNKNOWN,
        f"{host.known_hosts} holds no key for {endpoint(host)}.{offered}",
        f"Run `{scan} >> {host.known_hosts}`, then compare the fingerprint on its console with "
        "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`.",
    )


def key_refused(host: HostSettings) -> HostError:
    """The host knows the user's name or not; it does not say. It did not accept our key."""
    return HostError(
        HostReason.KEY_REFUSED,
        f"{endpoint(host)} does not let user {host.user} in with our key",
        f"Add our public key to ~{host.user}/.ssh/authorized_keys there; check that the user exists and has a shell.",
    )


# From an exception of asyncssh or of the operating system to the failure it stands for.


def named(host: HostSettings, error: Exception, stage: Stage) -> HostError:
    """The failure `error` stands for, given how far the connection had come."""
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return host_key(host, stage)
    if isinstance(error, asyncssh.PermissionDenied):
        return key_refused(host)
    if isinstance(error, asyncssh.ChannelOpenError):
        return _channel_refused(host, error, stage)
    if isinstance(error, OSError):
        return network(host, error, stage)
    return _no_agreement(host, error, stage)


def _no_agreement(host: HostSettings, error: Exception, stage: Stage) -> HostError:
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    if isinstance(error, asyncssh.KeyExchangeFailed):
        if stage.known_keys and "host key" in str(error).lower():
            return host_key(host, stage)
        return HostError(
            HostReason.NOT_SSH,
            f"{endpoint(host)} and we have no common way to encrypt: {error}",
            "Update its SSH server.",
        )
    if isinstance(error, asyncssh.ProtocolError | asyncssh.ProtocolNotSupported):
        return HostError(HostReason.NOT_SSH, f"what answers on {endpoint(host)} does not speak SSH", "Check `port`.")
    return cut_off(host, stage)


def _channel_refused(host: HostSettings, error: asyncssh.ChannelOpenError, stage: Stage) -> HostError:
    text = str(error)
    if host.jump and not stage.connected:
        if "refused" in text.lower():
            return network(host, ConnectionRefusedError(), stage)
        return HostError(
            HostReason.UNROUTABLE,
            f"the jump host cannot reach {endpoint(host)}: {text}",
            "Look at the machine's console.",
        )
    if "closed" in text.lower():
        return cut_off(host, stage)
    return HostError(
        HostReason.COMMAND_FAILED,
        f"{endpoint(host)} let us in but opened no session: {text}",
        "See MaxSessions and `restrict` in its SSH configuration.",
    )
