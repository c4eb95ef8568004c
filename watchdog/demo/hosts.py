"""Pretended machines: in-process SSH servers that run the real reader script over a journal of real kernel lines.

The script arrives over SSH as the daemon sends it and is run by `sh`, with the rig's directories standing where a real
machine has `/usr/bin` and `/proc`; so this works where there is no journal, and on a Mac.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
import uuid
from importlib import resources
from pathlib import Path

import asyncssh

BOOT_LINES = (
    "Linux version 6.17.0-1014-nvidia (buildd@bos03) #14-Ubuntu SMP PREEMPT_DYNAMIC",
    "pcieport 0000:00:00.0: AER: enabled with IRQ 38",
    "mlx5_core 0000:01:00.0: firmware version: 28.46.1006",
    "mlx5_core 0000:01:00.0: 126.028 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x4 link)",
    "cx7-pcie-hotplug MTKP0001:00: PCIe hotplug driver initialized successfully",
    "acpi PNP0A08:00: _OSC: OS now controls [AER PCIeCapability LTR]",
)
"""What a healthy GB10 prints at boot; none of it may wake anyone."""

FATAL_AER = (
    "pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0",
    "pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
    "pcieport 0000:00:03.0:   device [8086:6f08] error status/mask=00004020/00000000",
    "pcieport 0000:00:03.0:    [ 5] SDES",
    "pcieport 0000:00:03.0:    [14] CmpltTO                (First)",
)
"""A fatal PCIe error as a kernel printed it, minutes before its machine stopped."""

USER = "monitor"


class Machine:
    """One pretended machine with a journal, a boot id and an SSH server on loopback."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.boot = uuid.uuid4().hex
        self.port = 0
        self._root = directory
        self._journal = directory / "journal.jsonl"
        self._monotonic_us = 1_000_000
        self._number = 0
        self._serving: set[asyncio.Future[None]] = set()
        self._server: asyncssh.SSHAcceptor | None = None
        self._lay_out()
        self.log(*BOOT_LINES)

    def _lay_out(self) -> None:
        programs, proc = self._root / "bin", self._root / "proc"
        for path in (programs, proc / "sys/kernel/random", proc / "pressure"):
            path.mkdir(parents=True, exist_ok=True)
        (proc / "sys/kernel/random/boot_id").write_text(str(uuid.UUID(self.boot)) + "\n")
        (proc / "uptime").write_text("86400.00 172800.00\n")
        (proc / "meminfo").write_text("MemTotal: 125000000 kB\nMemAvailable: 24000000 kB\n")
        (proc / "pressure/memory").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        stand_in = Path(__file__).with_name("journalctl.py")
        call = shlex.join([sys.executable, "-I", "-S", str(stand_in), str(self._journal)])
        self._program(programs / "journalctl", f'exec {call} "$@"')
        if shutil.which("timeout") is None:  # macOS has none
            self._program(programs / "timeout", 'shift 3; exec "$@"')
        script = (resources.files("watchdog") / "host/reader.sh").read_text()
        self._script = script
        here = script.replace("PATH=/usr/sbin", f"PATH={programs}:/usr/sbin").replace("/proc/", f"{proc}/")
        (self._root / "reader.sh").write_text(here)

    @staticmethod
    def _program(path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def log(self, *messages: str) -> None:
        """Let the machine's kernel print `messages`."""
        with self._journal.open("a") as file:
            for message in messages:
                self._number += 1
                self._monotonic_us += 1000
                cursor = (
                    f"s={'0' * 32};i={self._number:x};b={self.boot};m={self._monotonic_us:x};t=0;x={self._number:x}"
                )
                entry = {
                    "__CURSOR": cursor,
                    "__REALTIME_TIMESTAMP": str(int(time.time() * 1e6)),  # noqa: TID251 - a pretended machine has its own clock
                    "__MONOTONIC_TIMESTAMP": str(self._monotonic_us),
                    "_SOURCE_MONOTONIC_TIMESTAMP": str(self._monotonic_us),
                    "_BOOT_ID": self.boot,
                    "_TRANSPORT": "kernel",
                    "SYSLOG_FACILITY": "0",
                    "SYSLOG_IDENTIFIER": "kernel",
                    "PRIORITY": "3",
                    "MESSAGE": message,
                }
                file.write(json.dumps(entry) + "\n")

    async def start(self, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey) -> None:
        """Serve SSH on a free loopback port to whoever holds `client_key`."""
        allowed = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
        self._server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[host_key],
            authorized_client_keys=allowed,
            process_factory=self._serve,
            encoding=None,
        )
        self.port = self._server.get_port()

    async def stop(self) -> None:
        """Close the port and end every reader that still runs."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for serving in tuple(self._serving):
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run the reader script as it arrived; refuse everything else, as a forced command would."""
        words = shlex.split(process.command or "")
        script = self._script.encode()
        try:
            sent = await process.stdin.readexactly(len(script)) if words[:3] == ["sh", "-s", "--"] else b""
        except asyncio.IncompleteReadError:
            sent = b""
        if sent != script:
            process.stderr.write(b"this pretended machine runs the reader script only\n")
            process.exit(126)
            return
        serving = asyncio.ensure_future(self._run_reader(process, words[3:]))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        await asyncio.wait({serving})

    async def _run_reader(self, process: asyncssh.SSHServerProcess[bytes], arguments: list[str]) -> None:
        running = await asyncio.create_subprocess_exec(
            *("/bin/sh", str(self._root / "reader.sh"), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert running.stdin is not None and running.stdout is not None and running.stderr is not None  # noqa: S101, PT018
        feeding = asyncio.create_task(_feed(process.stdin, running.stdin))
        try:
            await asyncio.gather(_pump(running.stdout, process.stdout), _pump(running.stderr, process.stderr))
            process.exit(await running.wait())
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await _ended(running)


async def _ended(running: asyncio.subprocess.Process) -> None:
    """Wait until the reader and what it started are gone: by themselves, as their standard input has ended."""
    if running.stdin is not None:
        running.stdin.close()
    try:
        async with asyncio.timeout(2):
            await running.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        await running.wait()
    # What the reader started may outlive it for some seconds and hold its pipes: asyncio has no other way to let go.
    running._transport.close()  # type: ignore[attr-defined]


async def _feed(source: asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter) -> None:
    """Pass on what the client sends; when it has gone, the reader's standard input ends."""
    with contextlib.suppress(asyncssh.Error, OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


async def _pump(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
    """Pass on what the reader prints to its end; a client that has gone hears no more of it."""
    gone = False
    while data := await source.read(65536):
        if not gone:
            try:
                sink.write(data)
                await sink.drain()
            except (asyncssh.Error, OSError):
                gone = True
