"""Out of file descriptors: nobody is blamed for it, visitors of the page cannot cause it, alerts still leave."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.alerting_path import Station, configuration, observed
from tests.support.sshd import free_port
from tests.support.web_server import served
from watchdog.chat import ChatClient
from watchdog.chat.connection_errors import connection_error
from watchdog.checks.generation import GenerationCheck
from watchdog.config import HostSettings, ProbeSettings, ServerSettings, WebSettings
from watchdog.descriptors import PAGE_CONNECTIONS, RESERVE, is_exhausted, needed, raise_limit, require_room
from watchdog.logs import MOST_ALIKE, RepeatedLines
from watchdog.model import CheckResult, Verdict
from watchdog.reasons import HostReason, ServerReason
from watchdog.ssh.errors import ConnectionProgress, network_error
from watchdog.web import access as web_connections


@contextmanager
def soft_limit(count: int) -> Iterator[None]:
    """The soft limit of this process while the context lasts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """So many descriptors can still be opened."""
    taken: list[int] = []
    with soft_limit(256):
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(count):
            os.close(taken.pop())
        try:
            yield
        finally:
            for one in taken:
                os.close(one)


def check(client: ChatClient, url: str) -> GenerationCheck:
    """The probe of one server."""
    server = ServerSettings(name="deepseek", base_url=url, model="m", probe=ProbeSettings(timeout_s=2.0))
    return GenerationCheck(server, client)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
async def test_a_probe_without_a_descriptor_says_nothing_about_the_server(address: str) -> None:
    async with ChatClient() as client:
        probe = check(client, f"http://{address}:{free_port()}/v1")
        with descriptors_left(RESERVE // 2):
            result = await probe.run(None, 1000.0)
    (seen, *_rest) = result.observations
    assert (seen.verdict, seen.reason) == (Verdict.UNKNOWN, ServerReason.LOCAL)
    assert "out of file descriptors" in seen.statement
    assert "may open no more files and connections (limit 256)" in seen.statement


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_a_host_that_we_have_no_descriptor_for_is_not_blamed(number: int) -> None:
    host = HostSettings(name="worker", address="192.0.2.1", user="monitor", known_hosts="/dev/null")
    found = network_error(host, OSError(number, os.strerror(number)), ConnectionProgress())
    assert (found.reason, found.ours) == (HostReason.LOCAL, True)
    joined = OSError(f"Multiple exceptions: [Errno {number}] x, [Errno {number}] y")
    assert network_error(host, joined, ConnectionProgress()).ours
    assert is_exhausted(joined)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EMFILE, "may open no more files"),
        (errno.ENFILE, "the whole machine has no file descriptor left"),
        (errno.ENOMEM, "no memory is left"),
        (errno.ENOBUFS, "network buffers"),
        (errno.EADDRNOTAVAIL, "no local port is left"),
    ],
)
def test_a_page_says_what_this_machine_is_out_of(number: int, words: str) -> None:
    reason, detail = connection_error(OSError(number, os.strerror(number)))
    assert (reason, words in detail) == (ServerReason.LOCAL, True)
    if number != errno.EADDRNOTAVAIL:
        host = HostSettings(name="worker", address="192.0.2.1", user="monitor", known_hosts="/dev/null")
        found = network_error(host, OSError(number, os.strerror(number)), ConnectionProgress())
        assert words in found.summary


def test_no_local_port_left_is_our_fault_too() -> None:
    error = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
    assert is_exhausted(error, connecting=True)
    assert not is_exhausted(ConnectionRefusedError(errno.ECONNREFUSED, "refused"), connecting=True)


async def test_many_servers_without_a_descriptor_are_one_alert_of_our_own(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            seen = [
                observed(Verdict.UNKNOWN, f"generation/{name}", reason="local", summary="out of file descriptors")
                for name in ("a", "b", "c", "d")
            ]
            for one in seen:
                await station.ingest.take(one.key, CheckResult((one,)))
            await station.quiet()
        titles = [text.title for _delivery, text in station.sinks["phone"].accepted]
        assert len(titles) == 1
        assert titles[0].startswith("FIRING watchdog: blind: out of file descriptors"), "no server is named"


def test_the_last_descriptors_are_kept_for_delivery() -> None:
    with descriptors_left(RESERVE // 2):
        with pytest.raises(OSError, match="Too many open files"):
            require_room()
        with closing(socket.socket()):
            pass  # a receiver's connection does not ask
    require_room()


def test_the_soft_limit_is_raised_to_what_the_configuration_needs() -> None:
    small = needed(configuration())
    servers = tuple(ServerSettings(name=f"s{n}", base_url="http://h/v1") for n in range(400))
    with soft_limit(128):
        assert raise_limit(small) == small
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == small
        assert raise_limit(64) == small
    assert small + 1600 <= needed(configuration().__class__(servers=servers, hosts=configuration().hosts)) + 100


async def test_idle_connections_to_the_page_take_nothing_from_anybody(tmp_path: Path) -> None:
    settings = WebSettings(listen="127.0.0.1:0")
    if raise_limit(1300) < 1300:
        pytest.skip("1,100 connections need more descriptors than are allowed here")
    async with served(tmp_path / "state", configuration(), 1_795_970_000.0, settings=settings) as page:
        before = len(list(Path("/dev/fd").iterdir()))
        port = int(page.url.rstrip("/").rpartition(":")[2])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1100)]
        await asyncio.sleep(0.2)
        ours = len(list(Path("/dev/fd").iterdir())) - before - len(idle)
        assert ours <= PAGE_CONNECTIONS
        status, _headers, _body = await page.get("healthz")
        assert status in (200, 503)
        for _reader, writer in idle:
            writer.transport.abort()


async def test_a_connection_that_never_ends_its_headers_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_connections.Connections.__init__, "__kwdefaults__", {
        "header_timeout_s": 0.3, "exchange_timeout_s": 300.0,
    })  # fmt: skip
    async with served(
        tmp_path / "state", configuration(), 1_795_970_000.0, settings=WebSettings(listen="127.0.0.1:0")
    ) as page:
        port = int(page.url.rstrip("/").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        async with asyncio.timeout(5):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


def test_repeated_log_lines_are_counted() -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("test.repeats")
    logger.propagate = False
    handler = Kept()
    handler.addFilter(RepeatedLines())
    logger.addHandler(handler)

    def say(message: str, at: float) -> None:
        row = {"name": logger.name, "levelno": logging.ERROR, "msg": message, "created": at}
        logger.handle(logging.makeLogRecord(row))

    for _ in range(87_800):
        say("socket.accept() out of system resource", 1000.0)
    assert len(lines) == MOST_ALIKE
    say("something else", 1061.0)
    left_out = 87_800 - MOST_ALIKE
    assert lines[-2:] == [
        f"{left_out} more lines like this were left out: socket.accept() out of system resource",
        "something else",
    ]
    logger.removeHandler(handler)


HEAPS = """
import sys, threading
from watchdog.cli.run import share_one_heap
if sys.argv[1] == "shared":
    share_one_heap()
gate = threading.Barrier(9)
def take():
    kept = [bytes(2000) for _ in range(200)]
    gate.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for one in threads: one.start()
gate.wait()
maps = [line.split() for line in open("/proc/self/maps")]
sizes = [line[0].split("-") for line in maps if line[1] == "---p" and len(line) == 5]
print(sum(48 << 20 < int(end, 16) - int(begin, 16) <= 64 << 20 for begin, end in sizes))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone gives threads heaps of their own")
def test_all_threads_share_one_heap() -> None:
    def heaps(how: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", HEAPS, how]))

    if heaps("own") == 0:
        pytest.skip("this C library gives threads no heaps of their own")
    assert heaps("shared") == 0
