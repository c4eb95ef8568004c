"""In-process SSH servers and sockets that misbehave in one way each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from watchdog.config import HostSettings, KernelLogSettings

BOOT = "a" * 32
HEADER = (
    b"\nINFERENCE-WATCHDOG-READER 1 request=x boot=" + BOOT.encode() + b" now=1795000000 uptime=9 uid=0 groups=root\n"
)
END = b"INFERENCE-WATCHDOG-READER END rc=0 why=ok\n"
HELLO = HEADER + b"journalctl=systemd 252\nboots_rc=0\nboot=" + BOOT.encode() + b"\n" + END

Serve = Callable[[asyncssh.SSHServerProcess[bytes]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a scripted host says to one request."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int | None = 0


def scripted(answers: dict[str, Answered]) -> Serve:
    """Answer each request by its second word; None as status drops the connection instead of ending."""

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        word = (process.command or "").replace("'", "").split("read1 ")[1].split()[0]
        answer = answers[word]
        process.stdout.write(answer.stdout)
        process.stderr.write(answer.stderr)
        if answer.status is None:
            await process.stdout.drain()
            await asyncio.sleep(0.05)
            process.channel.get_connection().abort()
        else:
            process.exit(answer.status)

    return serve


@asynccontextmanager
async def ssh_host(root: Path, serve: Serve, **options: Any) -> AsyncIterator[HostSettings]:
    """A server that lets our key in and hands every request to `serve`."""
    host_key, key = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(root / "id")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=asyncssh.import_authorized_keys(key.export_public_key().decode()),
        process_factory=serve,
        encoding=None,
        **options,
    )
    try:
        port = server.get_port()
        known = host_key.export_public_key().decode().strip()
        (root / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}\n")
        yield settings(root, port)
    finally:
        server.close()
        await server.wait_closed()


def settings(root: Path, port: int, timeout_s: float = 5.0) -> HostSettings:
    """A host on loopback with the keys in `root`."""
    return HostSettings(
        name="lab",
        address="127.0.0.1",
        port=port,
        user="monitor",
        identity_file=str(root / "id"),
        known_hosts=str(root / "known_hosts"),
        kernel_log=KernelLogSettings(interval_s=600, timeout_s=timeout_s),
    )


@asynccontextmanager
async def raw_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A TCP port on loopback that does what `serve` does; closed with all its connections at the end."""
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.append(writer)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
