"""Servers, hosts and receivers that send any bytes at all harm nobody: the daemon lives, and nothing of others is lost.

`ANY_BYTES=10000` is the full run, so many answers; `ANY_BYTES_SEED` repeats one. What single parsers make of any bytes:
`tests/properties/test_untrusted_input.py` (`UNTRUSTED_EXAMPLES=10000`).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import asyncssh
import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.scripted_ssh_hosts import BOOT, END, HEADER, HELLO, raw_server, ssh_host
from watchdog.demo.rig import Alert, Mode, Rig

EXAMPLES = int(os.environ.get("ANY_BYTES", "1000"))
SERVERS, HOSTS, RECEIVERS = 24, 3, 2
CHAT = b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'
STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
METRICS = b'vllm:num_requests_running{engine="0"} 1\nvllm:generation_tokens_total{engine="0"} 10\n'
GOOD = [
    *(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(CHAT) + CHAT,),
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + STREAM,
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + METRICS,
    b'HTTP/1.1 500 x\r\nRetry-After: 5\r\nContent-Type: application/json\r\n\r\n{"error":{"message":"x","code":500}}',
    b'HTTP/1.1 200 OK\r\n\r\n{"object":"list","data":[{"id":"m"}]}',
]
RECORD = json.dumps(
    {"__CURSOR": f"s=1;i=2;b={BOOT};m=1;t=0;x=2", "_BOOT_ID": BOOT, "_TRANSPORT": "kernel",
     "SYSLOG_IDENTIFIER": "kernel", "SYSLOG_FACILITY": "0",
     "__REALTIME_TIMESTAMP": "1795000000000000", "__MONOTONIC_TIMESTAMP": "1000000",
     "MESSAGE": "pcieport 0000:01:00.0: AER: Uncorrectable (Fatal) error"},
).encode()  # fmt: skip
VITALS = HEADER + b"MemTotal_kib=1000\nMemAvailable_kib=900\ngpu=0,x,1,1,1,1,1,1\ngpu_rc=done\n" + END
POISON = [
    b'"\\ud800"', b"\xff\xfe", b"\xed\xa0\x80", b"NaN", b"1e999", b"-1", b"9" * 4200, b"[" * 2000, b'{"a":' * 700,
    b"\0", b"\r\n", b"\n\n", b"data: ", b"\x1b[31m", b"null", b'"', b"}", b"@everyone", b"x" * 70_000,
    b"Content-Encoding: gzip\r\n",
]  # fmt: skip


class Anything:
    """Makes answers of any bytes: good ones with something cut, put in, changed or repeated, and mere noise."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.made = 0

    def __call__(self, *good: bytes) -> bytes:
        self.made += 1
        chance, data = self.chance, bytearray(self.chance.choice(good))
        if chance.random() < 0.1:
            return chance.randbytes(chance.randrange(400))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0:
                    del data[at : at + chance.choice((1, 10, 1000))]
                case 1:
                    data[at:at] = chance.choice(POISON)
                case 2:
                    data[at : at + 1] = chance.randbytes(1)
                case _:
                    data[at:at] = data[: chance.randrange(200)]
        return bytes(data)


def http(anything: Anything) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Answers what comes with anything, once, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 1)
        writer.write(anything(*GOOD))
        await writer.drain()

    return answer


def host(anything: Anything) -> Callable[[asyncssh.SSHServerProcess[bytes]], Awaitable[None]]:
    """Answers every request to the reader with anything."""

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        good = (HELLO, HELLO, HEADER + RECORD + b"\n" + END, VITALS)
        with suppress(BrokenPipeError, ConnectionError):
            process.stdout.write(anything(*good))
            if anything.chance.random() < 0.3:
                process.stderr.write(anything(b"complaint\n"))
            await process.stdout.drain()
        process.exit(0)

    return serve


class Times:
    """When the good server was asked."""

    def __init__(self, rig: Rig) -> None:
        self.at: list[float] = []
        answered = rig.chat.replied.set

        def replied() -> None:
            self.at.append(time.monotonic())
            answered()

        rig.chat.replied.set = replied  # type: ignore[method-assign]

    @property
    def gaps(self) -> list[float]:
        return sorted(later - one for one, later in zip(self.at, self.at[1:], strict=False))


@pytest.mark.slow
@pytest.mark.timeout(120 + EXAMPLES // 10)
async def test_whatever_bytes_the_others_send_the_daemon_lives_and_watches_on(tmp_path: Path) -> None:
    seed = int(os.environ.get("ANY_BYTES_SEED", random.randrange(1_000_000)))
    anything, alerts = Anything(seed), list[Alert]()
    print(f"seed {seed}, {EXAMPLES} answers")
    rig = Rig(tmp_path, alerts.append)
    async with AsyncExitStack() as stack:
        await rig.start()
        stack.push_async_callback(rig.stop)
        port = await stack.enter_async_context(raw_server(http(anything)))
        raw = await stack.enter_async_context(raw_server(http(anything)))
        hosts = []
        for number in range(HOSTS):
            place = tmp_path / f"host{number}"
            place.mkdir()
            hosts.append(await stack.enter_async_context(ssh_host(place, host(anything))))
            (place / "id").chmod(0o600)
        config = write_config(rig, port, raw, [(one.port, one.identity_file, one.known_hosts) for one in hosts])
        counted = {"RUNTIME_DIRECTORY": str(tmp_path)}
        daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log", counted)
        stack.push_async_callback(daemon.kill)
        times = Times(rig)
        await daemon.start()
        await until(lambda: daemon.saw("started"), 30, "the start")
        await until(lambda: anything.made >= EXAMPLES, 60 + EXAMPLES / 10, f"{EXAMPLES} answers")
        await judge(daemon, rig, alerts)
        gaps = times.gaps
    print(f"{anything.made} answers; the good server was asked {len(gaps)} times, at most {gaps[-1]:.1f} s apart")
    assert gaps[len(gaps) // 2] < 1.5
    assert gaps[-1] < 6.0


async def judge(daemon: DaemonProcess, rig: Rig, alerts: list[Alert]) -> None:
    """It is the same process, no exception was ours, and what happens to the others is told."""
    assert daemon.process is not None
    assert daemon.process.returncode is None
    ours = ("self/check/", "self/late/")
    bugs = [line for line in daemon.events() if "exception" in line or str(line.get("key", "")).startswith(ours)]
    assert not bugs, bugs[:3]
    rig.chat.mode = Mode.ERROR
    rig.machines["worker"].log("pcieport 0000:00:07.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:07.0")
    await until(lambda: told(alerts, "0000:00:07.0"), 60, "the kernel line")
    await until(lambda: told(alerts, "deepseek"), 60, "the server that fails")


def told(alerts: list[Alert], word: str) -> bool:
    """Whether a message says `word`; in a storm one message tells of many."""
    return any(word in one.title + one.message for one in alerts)


def write_config(rig: Rig, port: int, raw: int, hosts: list[tuple[int, str | None, str | None]]) -> Path:
    """The demo's good parts, and beside them those that send anything."""
    path = rig.write_config(probe="{interval: 1s, timeout: 1s}", kernel_log="{interval: 5s, timeout: 5s}")
    text, _, receivers = path.read_text().partition("receivers:")
    probe = "probe: {interval: 1s, timeout: 0.7s, confirm: 0s, watch: 0s}"
    bad = "".join(
        f"  - {{name: bad{number}, base_url: 'http://127.0.0.1:{port}/v1', {probe}}}\n" for number in range(SERVERS)
    )
    text = text.replace("hosts:\n  - name", f"{bad}hosts:\n  - name", 1)
    often = "{interval: 1s, timeout: 1s}"
    for number, (at, key, known) in enumerate([*hosts, (raw, *hosts[0][1:])]):
        text += (
            f"  - {{name: liar{number}, address: 127.0.0.1, port: {at}, user: monitor, identity_file: {key},"
            f" known_hosts: {known}, kernel_log: {often}, vitals: {often}}}\n"
        )
    url = f"json://127.0.0.1:{port}/x"
    liars = [f"  - {{name: sink{number}, url: '{url}', timeout: 1s}}\n" for number in range(RECEIVERS)]
    path.write_text(f"{text}receivers:{receivers.rstrip()}\n{''.join(liars)}")
    return path
