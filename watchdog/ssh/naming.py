"""From an exception of asyncssh or of the operating system to the failure it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdog.config import HostSettings
from watchdog.ssh.failure import HostError, Reason, Stage, cut_off, endpoint, host_key, key_refused, network

if TYPE_CHECKING:
    import asyncssh


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
            Reason.NOT_SSH, f"{endpoint(host)} and we have no common way to encrypt: {error}", "Update its SSH server."
        )
    if isinstance(error, asyncssh.ProtocolError | asyncssh.ProtocolNotSupported):
        return HostError(Reason.NOT_SSH, f"what answers on {endpoint(host)} does not speak SSH", "Check `port`.")
    return cut_off(host, stage)


def _channel_refused(host: HostSettings, error: asyncssh.ChannelOpenError, stage: Stage) -> HostError:
    text = str(error)
    if host.jump and not stage.connected:
        if "refused" in text.lower():
            return network(host, ConnectionRefusedError(), stage)
        return HostError(
            Reason.UNROUTABLE, f"the jump host cannot reach {endpoint(host)}: {text}", "Look at the machine's console."
        )
    if "closed" in text.lower():
        return cut_off(host, stage)
    return HostError(
        Reason.COMMAND_FAILED,
        f"{endpoint(host)} let us in but opened no session: {text}",
        "See MaxSessions and `restrict` in its SSH configuration.",
    )
