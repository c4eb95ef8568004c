"""Pretended machines: in-process SSH servers that run the real reader script over a journal of real kernel lines.

The script arrives over SSH as the daemon sends it and is run by `sh`, with the rig's directories standing where a real
machine has `/usr/bin` and `/proc`; so this works where there is no journal, and on a Mac.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Coroutine
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
        """Lay out the machine's files under `directory`."""
        self.name = name
        self.boot = uuid.uuid4().hex
        self.port = 0
        self._root = directory
        self._journal = directory / "journal.jsonl"
        self._monotonic_us = 1_000_000
        self._number = 0
        self._readers: set[subprocess.Popen[bytes]] = set()
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
        """Close the port."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for running in tuple(self._readers):
            self._end(running)

    def _end(self, running: subprocess.Popen[bytes]) -> None:
        """End the reader we started, if it has not ended by itself."""
        self._readers.discard(running)
        if running.poll() is None:
            running.kill()
        running.wait()
        for pipe in (running.stdin, running.stdout, running.stderr):
            if pipe is not None:
                pipe.close()

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run the reader script as it arrived; refuse everything else, as a forced command would."""
        words = shlex.split(process.command or "")
        sent = await process.stdin.read(len(self._script.encode())) if words[:3] == ["sh", "-s", "--"] else b""
        while 0 < len(sent) < len(self._script.encode()):
            more = await process.stdin.read(len(self._script.encode()) - len(sent))
            if not more:
                break
            sent += more
        if sent != self._script.encode():
            process.stderr.write(b"this pretended machine runs the reader script only\n")
            process.exit(126)
            return
        running = subprocess.Popen(  # noqa: ASYNC220, S603 - pipes that asyncssh can take over; the script is our own
            ["/bin/sh", str(self._root / "reader.sh"), *words[3:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._readers.add(running)
        try:
            await process.redirect(stdin=running.stdin, stdout=running.stdout, stderr=running.stderr)
            if await _before_closing(process, process.stdout.drain()):
                process.exit(await asyncio.to_thread(running.wait))
        except (asyncssh.Error, OSError):
            process.close()  # the client has gone; the reader ends with its standard input
        finally:
            await process.wait_closed()
            self._end(running)


async def _before_closing(process: asyncssh.SSHServerProcess[bytes], working: Coroutine[None, None, None]) -> bool:
    """Wait for `working`, but not for a client that was killed: returns whether it was done before the client left."""
    work, leaving = asyncio.ensure_future(working), asyncio.ensure_future(process.wait_closed())
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return work.done() and work.exception() is None
    finally:
        work.cancel()
        leaving.cancel()
