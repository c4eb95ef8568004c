"""One SSH session with a host: connect, send the reader script, take its answer. One deadline over all of it."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from watchdog.config import HostSettings, split_jump
from watchdog.descriptors import require_room
from watchdog.reasons import HostReason
from watchdog.ssh.addresses import connect_first, proxy_jump, target, unusable_error
from watchdog.ssh.errors import (
    ConnectionProgress,
    HostError,
    Stage,
    endpoint,
    error_from_exception,
    not_ssh_error,
    timeout_error,
)
from watchdog.ssh.host_key import why_closed
from watchdog.ssh.login import AgentKeys, noting, options

if TYPE_CHECKING:
    import asyncssh

ANSWER_LIMIT_BYTES = 64 << 20
STDERR_LIMIT_BYTES = 4096
CHUNK_BYTES = 16384
WINDOW_BYTES = 256 << 10
"""So much may be on its way at once, is held, and is taken in one step: others have their turn after it."""
STEP_BYTES = 4096
"""So much is taken from the network in one step. SSH packets of a hundred bytes cost 0.1 ms each: 256 KiB of them, as
asyncio reads by itself, would hold up everybody for a third of a second.
"""
ANSWER_CPU_S = 5.0
"""A whole page of a log takes a quarter of a second; what takes so much more is no answer."""
CLOSE_S = 2.0
LAST_SESSION_S = 0.3
REQUEST_CHARACTERS = 400
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 2
BEAT_S = 10.0
"""A reader that was asked for beats ends after 30 s without one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request ended: the exit status (None: the connection died) and the first of what stood on stderr."""

    exit_status: int | None
    stderr: str


Spend = Callable[[int, float], None]
"""Told of what came: bytes from the network, and the CPU seconds that they took here."""


class Session:
    """An open connection on which requests are asked, one after another or beside each other."""

    def __init__(
        self,
        host: HostSettings,
        connection: asyncssh.SSHClientConnection,
        progress: ConnectionProgress,
        timer: asyncio.Timeout,
        timeout_s: float,
    ) -> None:
        self._timeout_s = timeout_s
        self._host = host
        self._connection = connection
        self._progress = progress
        self._timer = timer
        self._served = False
        self._spend: Spend | None = None
        self._spent_s = 0.0
        self._watch_cost()

    @property
    def user(self) -> str:
        """The name we are logged in under."""
        return self._host.user

    def proceed(self) -> None:
        """Restart the deadline: a whole page has come, so the host is alive and there is progress."""
        self._spent_s = 0.0
        self._timer.reschedule(asyncio.get_running_loop().time() + self._timeout_s)

    def count(self, spend: Spend) -> None:
        """From now on tell `spend` of everything that comes over the connection, also what SSH itself swallows."""
        self._spend = spend

    def _watch_cost(self) -> None:
        """Take what comes in small steps, and note what it costs: asyncssh has no hook for either."""
        received, transport = self._connection.data_received, self._connection._transport

        def counted(data: bytes, datatype: int | None = None) -> None:
            began = time.thread_time()
            received(data, datatype)
            self._note(len(data), time.thread_time() - began)

        self._connection.data_received = counted  # type: ignore[method-assign]
        if hasattr(transport, "max_size"):  # not the way through a jump host, whose own is limited
            setattr(transport, "max_size", STEP_BYTES)  # noqa: B010 - mypy does not know it

    def _note(self, count: int, cpu_s: float) -> None:
        self._spent_s += cpu_s
        if self._spend is not None:
            self._spend(count, cpu_s)
        elif self._is_too_dear:
            self._connection.abort()

    @property
    def _is_too_dear(self) -> bool:
        return self._spend is None and self._spent_s > ANSWER_CPU_S

    def without_deadline(self) -> None:
        """From now on only the keepalive ends this session: for a live stream.

        Without it a stream from a locked-up machine stays "open, silent" for ever, even after its reboot (measured).
        """
        self._timer.reschedule(None)
        self._connection.set_keepalive(KEEPALIVE_S, KEEPALIVE_COUNT)

    async def ask(
        self, request: str, take: Callable[[bytes], None], *, limit_bytes: int = ANSWER_LIMIT_BYTES, live: bool = False
    ) -> Answer:
        """Run the reader with `request`, handing each piece of its output to `take` as it comes.

        With `live` the reader's standard input stays open, so that it ends when the connection does, and a line goes
        there every `BEAT_S` seconds: by that a reader knows us to be there. Raises HostError when more than
        `limit_bytes` come.
        """
        if len(request) > REQUEST_CHARACTERS or not request.isascii() or not request.isprintable():
            raise HostError(
                HostReason.LOCAL, "a request to the reader that it would refuse", "Please report this.", ours=True
            )
        import asyncssh  # noqa: PLC0415 - paid only by those who connect

        self._progress.running = request.split(" ")[1] if " " in request else request
        try:
            answer = await self._run(request, take, limit_bytes, live=live)
        except (OSError, asyncssh.Error) as error:
            if self._is_too_dear:
                raise _too_dear_error(self._host) from None
            raise error_from_exception(self._host, error, self._progress) from None
        if self._is_too_dear:
            raise _too_dear_error(self._host)
        self._progress.running, self._served = "", True
        return answer

    async def _run(self, request: str, take: Callable[[bytes], None], limit_bytes: int, *, live: bool) -> Answer:
        process = await self._start(request, live=live)
        try:
            errors = asyncio.create_task(_first_bytes(process.stderr))
            beats = asyncio.create_task(_beat(process.stdin)) if live else None
            try:
                await self._drain(process, take, limit_bytes)
                stderr = await errors
            finally:
                errors.cancel()
                if beats is not None:
                    beats.cancel()
            await process.wait_closed()
        finally:
            process.close()
        return Answer(process.exit_status, stderr.decode("utf-8", "replace").strip())

    async def _start(self, request: str, *, live: bool) -> asyncssh.SSHClientProcess[bytes]:
        """Start the reader: as the key's forced command, or as a script on the standard input of `sh`."""
        installed = self._host.forced_command
        command = request if installed else f"sh -s -- {shlex.quote(request)}"
        process = await self._open(command)
        with suppress(BrokenPipeError, ConnectionError):  # it may have ended already; its answer says why
            if not installed:
                process.stdin.write(script())
                await process.stdin.drain()
            if not live:
                process.stdin.write_eof()
        return process

    async def _open(self, command: str) -> asyncssh.SSHClientProcess[bytes]:
        import asyncssh  # noqa: PLC0415 - paid only by those who connect

        # The only place in this program that runs something on another machine.
        try:
            return await self._connection.create_process(command, encoding=None, window=WINDOW_BYTES)
        except asyncssh.ChannelOpenError:
            if not self._served:
                raise
            await asyncio.sleep(LAST_SESSION_S)  # with MaxSessions 1 sshd may still count the one that just ended
            return await self._connection.create_process(command, encoding=None, window=WINDOW_BYTES)

    async def _drain(
        self, process: asyncssh.SSHClientProcess[bytes], take: Callable[[bytes], None], limit_bytes: int
    ) -> None:
        taken = 0
        while chunk := await process.stdout.read(CHUNK_BYTES):
            taken += len(chunk)
            if taken > limit_bytes:
                raise HostError(
                    HostReason.TRUNCATED,
                    f"{endpoint(self._host)} sent more than {limit_bytes >> 20} MiB for one answer",
                    "This is not a kernel log. Log in by hand and see what the login prints.",
                )
            began = time.thread_time()
            take(chunk)
            self._note(0, time.thread_time() - began)


def _too_dear_error(host: HostSettings) -> HostError:
    return HostError(
        HostReason.FLOOD,
        f"{endpoint(host)} sends an answer in so many small pieces that taking it took {ANSWER_CPU_S:.0f} s of our CPU",
        "This does not come from the reader. Log in by hand and see what the login prints.",
    )


async def _beat(stdin: asyncssh.SSHWriter[bytes]) -> None:
    """Say that we are there, until cancelled or until nobody can hear it."""
    with suppress(OSError):
        while True:
            await asyncio.sleep(BEAT_S)
            stdin.write(b".\n")


async def _first_bytes(stream: asyncssh.SSHReader[bytes]) -> bytes:
    """The first bytes of `stream`, read to its end: unread stderr would stall the command (shared window)."""
    kept = b""
    while chunk := await stream.read(CHUNK_BYTES):
        if len(kept) < STDERR_LIMIT_BYTES:
            kept += chunk[: STDERR_LIMIT_BYTES - len(kept)]
    return kept


def script() -> bytes:
    """The reader script as it is packaged."""
    return (resources.files("watchdog") / "host" / "reader.sh").read_bytes()


@asynccontextmanager
async def reading(host: HostSettings, timeout_s: float, *, jump: HostSettings | None = None) -> AsyncIterator[Session]:
    """A session with `host`; everything inside the `async with` shares the one deadline of `timeout_s` seconds.

    `jump` is the machine to go through, if it is one of the configured hosts; else `host.jump` is taken apart. Raises
    HostError for everything that goes wrong with the connection, at any time while it is open.
    """
    way = (jump or _jump_settings(host)) if host.jump else proxy_jump(host)
    with _blaming(way, "" if jump is None else jump.name):
        async with _session(host, way, timeout_s) as session:
            yield session


@asynccontextmanager
async def _session(host: HostSettings, way: HostSettings | None, timeout_s: float) -> AsyncIterator[Session]:
    progress, jump_progress = ConnectionProgress(), ConnectionProgress()
    connections: list[asyncssh.SSHClientConnection] = []
    timer = asyncio.timeout(timeout_s)
    try:
        async with timer:
            tunnel = None if way is None else await _connect_jump(way, jump_progress, connections)
            connection = await _connect(host, progress, connections, tunnel)
            yield Session(host, connection, progress, timer, timeout_s)
    except TimeoutError:
        if not timer.expired():
            raise
        if way is not None and not jump_progress.authenticated:
            raise _jump_error(timeout_error(way, jump_progress, timeout_s)) from None
        raise timeout_error(host, progress, timeout_s) from None
    finally:
        await _close(connections)


@contextmanager
def _blaming(way: HostSettings | None, name: str) -> Iterator[None]:
    """Note on what the jump host is to blame for which one it is: all hosts behind it share that one trouble."""
    try:
        yield
    except HostError as error:
        if way is not None and error.reason is HostReason.JUMP:
            error.jump = name or endpoint(way)
        raise


def _client(progress: ConnectionProgress, agent_keys: AgentKeys) -> type[asyncssh.SSHClient]:
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    class Watcher(asyncssh.SSHClient):
        """Notes how far the connection came. Trusts nothing that `known_hosts` does not."""

        def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
            progress.note_connected(conn)

        def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
            progress.offered_key = f"{key.get_algorithm()} {key.get_fingerprint()}"
            return False

        def begin_auth(self, _username: str) -> None:
            progress.exchanged = True

        async def public_key_auth_requested(self) -> list[asyncssh.SSHKeyPair]:
            return await agent_keys.take()

        def auth_completed(self) -> None:
            progress.authenticated = True

    return Watcher


async def _connect(
    host: HostSettings,
    progress: ConnectionProgress,
    connections: list[asyncssh.SSHClientConnection],
    tunnel: asyncssh.SSHClientConnection | None = None,
) -> asyncssh.SSHClientConnection:
    import asyncssh  # noqa: PLC0415 - paid only by those who connect

    encrypted = host.passphrase is not None  # bcrypt takes half a second: not on the event loop
    given = await asyncio.to_thread(options, host, progress) if encrypted else options(host, progress)

    if "client_keys" in given:
        given["client_keys"] = [noting(pair, progress) for pair in asyncssh.load_keypairs(given["client_keys"])]
    agent_keys = AgentKeys(host)
    if tunnel is not None:
        given["tunnel"] = tunnel
    try:
        require_room()
        if tunnel is None and (where := target(host)).direct:
            given["sock"] = await connect_first(where.address, where.port)
        connection: asyncssh.SSHClientConnection = await asyncssh.connect(
            host.address, client_factory=_client(progress, agent_keys), **given
        )
    except (OSError, asyncssh.Error) as error:
        told = error_from_exception(host, error, progress)
        closed = told.reason is HostReason.RESET and told.stage is Stage.GREETING and progress.server_version
        if closed and tunnel is None:
            told = await why_closed(host, progress, told, given["known_hosts"])
        raise told from None
    except ValueError as error:  # a version that is no text; else a key or a line of ~/.ssh/config
        raise (not_ssh_error(host, progress) if progress.connected else unusable_error(error)) from None
    except RecursionError:
        raise unusable_error(ValueError("its ProxyJump leads back to the machine itself")) from None
    finally:
        agent_keys.close()
        if "sock" in given and progress.connection is None:  # nobody else owns it yet
            given["sock"].close()
    connections.append(connection)
    return connection


def _jump_settings(host: HostSettings) -> HostSettings:
    """The jump host of `host`, logged in to like `host` itself where `host.jump` does not say otherwise."""
    user, address, port = split_jump(host.jump or "")
    name = f"{host.name}'s jump host"
    return replace(host, name=name, address=address, port=port, user=user or host.user, jump=None)


async def _connect_jump(
    jump: HostSettings, progress: ConnectionProgress, connections: list[asyncssh.SSHClientConnection]
) -> asyncssh.SSHClientConnection:
    try:
        return await _connect(jump, progress, connections)
    except HostError as error:
        raise _jump_error(error) from None


def _jump_error(error: HostError) -> HostError:
    """What fails on the way through a jump host says nothing about the host behind it."""
    return HostError(HostReason.JUMP, f"the jump host cannot be used: {error.summary}", error.advice, ours=True)


async def _close(connections: list[Any]) -> None:
    """Close at once: a frozen peer must not keep us."""
    for connection in reversed(connections):
        connection.abort()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await connection.wait_closed()
