"""Why a host could not be read: one reason for each way to fail, what happened, and what to do next."""

from __future__ import annotations

import errno
import socket
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from watchdog.config import HostSettings
from watchdog.descriptors import used_up, words_for
from watchdog.errors import WatchdogError
from watchdog.reasons import HostReason

if TYPE_CHECKING:
    import asyncssh


class Stage(StrEnum):
    """How far a connection had come: each stage was reached, and not finished."""

    CONNECTING = "connecting"
    GREETING = "greeting"
    LOGIN = "login"
    SESSION = "session"
    COMMAND = "command"


class HostError(WatchdogError):
    """A host that could not be read.

    `summary` is one sentence without the host's name, `advice` what to do next; `look_only`: the advice says no more
    than where to look. `ours`: the fault is on our side, so nothing is known about the host. `stage` is where it
    happened, None where that says nothing. `jump` is the machine on the way that is to blame, by its configured name or
    as `address:port`; "" where none is.
    """

    jump: str = ""

    def __init__(
        self,
        reason: HostReason,
        summary: str,
        advice: str = "",
        *,
        ours: bool = False,
        stage: Stage | None = None,
        look_only: bool = False,
    ) -> None:
        super().__init__(summary)
        self.reason = reason
        self.summary = summary
        self.advice = advice
        self.ours = ours
        self.stage = stage
        self.look_only = look_only

    @property
    def logged_in(self) -> bool:
        """Whether it happened after a login: then the host itself is alive."""
        return self.stage in (Stage.SESSION, Stage.COMMAND)


class ReaderError(HostError):
    """An answer of the reader on a host that cannot be used as it should."""

    def __init__(self, reason: HostReason, summary: str, advice: str = "", *, refused: bool = False) -> None:
        """`refused`: the reader does not take such a request."""
        super().__init__(reason, summary, advice, stage=Stage.COMMAND)
        self.refused = refused


@dataclass(slots=True)
class ConnectionProgress:
    """How far a connection came, noted as it happens, so that a deadline can say what it was waiting for.

    `running` is the request that is being answered; `known_keys` is how many host keys known_hosts has for the host.
    `revoked` are those that it marks so, written like `offered_key`. `key_taken`: the host knew our key and had us sign
    with it.
    """

    connected: bool = False
    exchanged: bool = False
    authenticated: bool = False
    running: str = ""
    offered_key: str = ""
    known_keys: int = 0
    revoked: frozenset[str] = frozenset()
    key_taken: bool = False
    connection: asyncssh.SSHClientConnection | None = None

    @property
    def stage(self) -> Stage:
        """The stage that was reached and is not over."""
        if not self.connected:
            return Stage.CONNECTING
        if not self.exchanged:
            return Stage.GREETING
        if not self.authenticated:
            return Stage.LOGIN
        return Stage.COMMAND if self.running else Stage.SESSION

    def note_connected(self, connection: asyncssh.SSHClientConnection) -> None:
        """TCP stands. The connection is kept: the server's SSH version comes later than this."""
        self.connected, self.connection = True, connection

    @property
    def server_version(self) -> str:
        """The SSH version that the server sent; "" if it has sent none."""
        return "" if self.connection is None else str(self.connection.get_extra_info("server_version") or "")


def endpoint(host: HostSettings) -> str:
    """`address:port` as a person writes it."""
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"{address}:{host.port}"


def timeout_error(host: HostSettings, progress: ConnectionProgress, seconds: float) -> HostError:
    """The deadline passed: say what it was waiting for, since a frozen machine answers TCP and then nothing."""
    where, limit, stage = endpoint(host), f"{seconds:g} s", progress.stage
    if stage is Stage.CONNECTING:
        return HostError(
            HostReason.TIMEOUT,
            f"{where} did not answer a TCP connection within {limit}",
            "This is what a machine looks like when it is off, locked up, or behind a firewall that drops packets. "
            "Look at its console.",
            stage=stage,
        )
    if stage is Stage.GREETING:
        sent = "sent its SSH version and then nothing" if progress.server_version else "sent nothing"
        return HostError(
            HostReason.SILENT,
            f"{where} accepts connections, but its SSH server {sent} for {limit}",
            "This is what a frozen machine looks like: the kernel still answers, programs do not. Look at its console.",
            stage=stage,
        )
    if stage is Stage.LOGIN:
        return HostError(
            HostReason.SILENT,
            f"{where} exchanged keys but did not finish the login within {limit}",
            "Logins hang on a half-dead machine, or when its user database is unreachable. Look at its console.",
            stage=stage,
        )
    doing = f"`{progress.running}`" if stage is Stage.COMMAND else "opening a session"
    return HostError(
        HostReason.TIMEOUT,
        f"login to {where} succeeded, but {doing} did not finish within {limit}",
        "The machine may be overloaded, or its disk may hang. Time `journalctl -k -n 5` there.",
        stage=stage,
    )


def network_error(host: HostSettings, error: OSError, progress: ConnectionProgress) -> HostError:
    """A failure below SSH: name resolution, routing, a closed port, a cut connection."""
    if isinstance(error, socket.gaierror):
        unsure = error.errno == socket.EAI_AGAIN
        return HostError(
            HostReason.DNS,
            f"the name {host.address} does not resolve",
            "The DNS resolver of this machine did not answer." if unsure else "Check `address`, or use an IP address.",
            ours=unsure,
            stage=progress.stage,
        )
    if isinstance(error, FileNotFoundError | PermissionError) and error.filename:
        return HostError(
            HostReason.CONFIG,
            f"the file {error.filename} cannot be read: {(error.strerror or 'error').lower()}",
            "Check `IdentityFile` and `CertificateFile` in ~/.ssh/config.",
        )
    number = used_up(error)
    if number is not None:
        return HostError(
            HostReason.LOCAL,
            f"this machine is out of file descriptors or memory: {words_for(number)}",
            "Check its limits (`ulimit -n`, LimitNOFILE= of the service) and its memory.",
            ours=True,
            stage=progress.stage,
        )
    if error.errno in {errno.EHOSTUNREACH, errno.EHOSTDOWN}:
        return _no_route_error(host, progress)
    if isinstance(error, ConnectionRefusedError):
        error.errno = errno.ECONNREFUSED  # asyncio joins several addresses' errors into one without a number
    if error.errno in _BY_NUMBER:
        reason, summary, advice, ours = _BY_NUMBER[error.errno]
        return HostError(
            reason,
            summary.format(where=endpoint(host), address=host.address),
            advice,
            ours=ours,
            stage=progress.stage,
            look_only=reason is HostReason.TIMEOUT,
        )
    return closed_error(host, progress)


_NO_NETWORK = (HostReason.UNROUTABLE, "this machine has no route to {address}", "Check this machine's network.", True)
_BY_NUMBER: dict[int, tuple[HostReason, str, str, bool]] = {
    errno.ECONNREFUSED: (
        HostReason.REFUSED,
        "nothing listens on {where} (connection refused)",
        "The machine is up, but its SSH server is not. Check `systemctl status ssh` there, and `port`.",
        False,
    ),
    errno.ETIMEDOUT: (HostReason.TIMEOUT, "{where} stopped answering", "Look at its console.", False),
    errno.ENETUNREACH: _NO_NETWORK,
    errno.ENETDOWN: _NO_NETWORK,
    errno.EADDRNOTAVAIL: _NO_NETWORK,
}


def _no_route_error(host: HostSettings, progress: ConnectionProgress) -> HostError:
    if sys.platform == "darwin":  # may be macOS's own permission (TN3179): `selfwatch` tells when it is
        return HostError(
            HostReason.UNROUTABLE,
            f"macOS reports no route to {host.address}",
            "If `ping` reaches it, allow Local Network for this program or run it as a LaunchDaemon; else the machine "
            "is off.",
            stage=progress.stage,
        )
    return HostError(
        HostReason.UNROUTABLE,
        f"{host.address} does not answer on its network (no route to host)",
        "The machine is off, locked up or unplugged. Look at its console.",
        stage=progress.stage,
    )


def closed_error(host: HostSettings, progress: ConnectionProgress) -> HostError:
    """The connection ended before we ended it."""
    if progress.running:
        return HostError(
            HostReason.TRUNCATED,
            f"the connection to {endpoint(host)} broke during `{progress.running}`",
            "The lines that arrived are kept; the next run continues from there.",
            stage=progress.stage,
        )
    when = {Stage.LOGIN: "during the login", Stage.SESSION: "right after the login"}
    if progress.stage is Stage.GREETING and progress.server_version:
        return HostError(
            HostReason.RESET,
            f"{endpoint(host)} closed the connection right after the SSH versions",
            "It may have no encryption method in common with this program, or too many connections. See `journalctl -u "
            "ssh` there.",
            stage=progress.stage,
        )
    return HostError(
        HostReason.RESET,
        f"{endpoint(host)} closed the connection {when.get(progress.stage, 'before the SSH greeting')}",
        "Its SSH server is restarting or has too many connections, or a firewall cut it. See `journalctl -u ssh` "
        "there.",
        stage=progress.stage,
    )


def host_key_error(host: HostSettings, progress: ConnectionProgress, *, revoked: bool = False) -> HostError:
    """The host's key is not the one we know, or we know none. Both end it: host keys are always checked."""
    if revoked or progress.offered_key in progress.revoked:
        return HostError(
            HostReason.HOST_KEY_CHANGED,
            f"{endpoint(host)} offers a host key that {host.known_hosts} marks as @revoked",
            "Do not log in: whoever holds this key may pretend to be the machine. Give it a new host key on its "
            "console (`ssh-keygen -A` after removing the old one), then add that one.",
            stage=Stage.GREETING,
        )
    scan = f"ssh-keyscan -p {host.port} {host.address}"
    offered = f" It offers {progress.offered_key}." if progress.offered_key else ""
    if progress.known_keys:
        return HostError(
            HostReason.HOST_KEY_CHANGED,
            f"{endpoint(host)} offers a host key that differs from the one in {host.known_hosts}.{offered}",
            "Either the machine was reinstalled or someone intercepts the connection. Compare the key on its console: "
            f"`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; only if it is the same, replace the line (`{scan}`).",
            stage=Stage.GREETING,
        )
    return HostError(
        HostReason.HOST_KEY_UNKNOWN,
        f"{host.known_hosts} holds no key for {endpoint(host)}.{offered}",
        f"Run `{scan} >> {host.known_hosts}`, then compare the fingerprint on its console: "
        "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`.",
        stage=Stage.GREETING,
    )


def key_refused_error(host: HostSettings, progress: ConnectionProgress) -> HostError:
    """The host did not let us in. Where it did not even know our key, it does not say whether the user exists."""
    if progress.key_taken:
        return HostError(
            HostReason.KEY_REFUSED,
            f"{endpoint(host)} accepts our key for user {host.user}, but does not let it in with the key alone",
            "It wants a second proof (AuthenticationMethods), which a daemon cannot give: exempt this user with "
            f"`Match User {host.user}`. Or the account is locked or expired: `journalctl -u ssh` there says so.",
            stage=Stage.LOGIN,
        )
    return HostError(
        HostReason.KEY_REFUSED,
        f"{endpoint(host)} does not let user {host.user} in with our key",
        f"Add our public key to ~{host.user}/.ssh/authorized_keys there; check that the user exists and has a shell.",
        stage=Stage.LOGIN,
    )


def not_ssh_error(host: HostSettings, progress: ConnectionProgress) -> HostError:
    """Something else listens there."""
    return HostError(
        HostReason.NOT_SSH, f"what answers on {endpoint(host)} is not SSH", "Check `port`.", stage=progress.stage
    )


def no_method_error(host: HostSettings) -> HostError:
    """It hangs up time after time as soon as it has seen what we speak."""
    return HostError(
        HostReason.NOT_SSH,
        f"{endpoint(host)} closes the connection right after the SSH versions: most likely it has no encryption method "
        "in common with this program",
        "`journalctl -u ssh` there says which (`Unable to negotiate`). Update its SSH server.",
        stage=Stage.GREETING,
    )


def _too_many_keys_error(host: HostSettings) -> HostError:
    return HostError(
        HostReason.KEY_REFUSED,
        f"{endpoint(host)} ended the login of user {host.user}: too many authentication failures, since more keys were "
        "offered than it allows (MaxAuthTries)",
        "Name one key: set `identity_file` without `agent: true`, or `IdentitiesOnly yes` with one `IdentityFile` in "
        "~/.ssh/config.",
        stage=Stage.LOGIN,
    )


def error_from_exception(host: HostSettings, error: Exception, progress: ConnectionProgress) -> HostError:
    """The failure that an exception of asyncssh or of the operating system stands for at this point."""
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    text = str(error).lower()  # asyncssh and sshd have one code for several of these
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return host_key_error(host, progress, revoked="revoked" in text)
    if isinstance(error, asyncssh.DisconnectError) and "too many authentication failures" in text:
        return _too_many_keys_error(host)
    if isinstance(error, asyncssh.PermissionDenied):
        return key_refused_error(host, progress)
    if isinstance(error, asyncssh.ChannelOpenError):
        return _channel_error(host, error, progress)
    if isinstance(error, OSError):
        return network_error(host, error, progress)
    return _protocol_error(host, error, progress)


def _protocol_error(host: HostSettings, error: Exception, progress: ConnectionProgress) -> HostError:
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    if isinstance(error, asyncssh.KeyExchangeFailed):
        if progress.known_keys and "host key" in str(error).lower():  # asyncssh has one code for all of these
            return host_key_error(host, progress)
        return HostError(
            HostReason.NOT_SSH,
            f"{endpoint(host)} and this program have no encryption method in common: {error}",
            "Update its SSH server.",
            stage=progress.stage,
        )
    if isinstance(error, asyncssh.ProtocolError | asyncssh.ProtocolNotSupported):
        return not_ssh_error(host, progress)
    return closed_error(host, progress)


def _channel_error(host: HostSettings, error: asyncssh.ChannelOpenError, progress: ConnectionProgress) -> HostError:
    """A channel that was not opened: the way from the jump host to `host`, or the session on `host`."""
    import asyncssh.constants as ssh  # noqa: PLC0415 - paid only by those who connect

    text = str(error).lower()  # sshd puts its system's error there, asyncssh its own; both under one code
    if not progress.connected:  # only a way through another machine is a channel before there is a connection
        if error.code != ssh.OPEN_CONNECT_FAILED:
            return HostError(
                HostReason.JUMP,
                f"the jump host does not forward connections to {endpoint(host)}: {error}",
                "See AllowTcpForwarding and PermitOpen in its SSH configuration, and `restrict` at our key there.",
                ours=True,
                stage=progress.stage,
            )
        if "refused" in text:
            return network_error(host, ConnectionRefusedError(), progress)
        return HostError(
            HostReason.UNROUTABLE,
            f"the jump host cannot reach {endpoint(host)}: {error}",
            "Look at the console of the machine behind it.",
            stage=progress.stage,
            look_only=True,
        )
    if "closed" in text:
        return closed_error(host, progress)
    return HostError(
        HostReason.COMMAND_FAILED,
        f"login to {endpoint(host)} succeeded, but it opened no session: {error}",
        "See MaxSessions in its SSH configuration, and `restrict` at our key there.",
        stage=Stage.SESSION,
    )
