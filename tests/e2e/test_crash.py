"""The real daemon, SIGKILLed at random moments of a night of failing servers, kernel errors and moody webhooks.

`CRASH_KILLS=200` is the full run; `CRASH_SEED` repeats one (the moments themselves still depend on the machine).
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.support.crash_verdict import MoodySink, judge, parsed
from tests.support.daemon_process import DaemonProcess, until
from watchdog.demo.rig import ChatServer, Mode, Rig

KILLS = int(os.environ.get("CRASH_KILLS", "20"))
RECEIVERS = ("phone", "mail")
EXTRA_SERVERS = ("qwen", "llama")
MOST_DEVICES = 50
"""More of one host in one hour are told as one incident: a storm, of which other tests tell."""
SICK = (Mode.ERROR, Mode.EMPTY, Mode.FROZEN)
PROBE = "{interval: 1s, timeout: 0.8s, failures: 2, successes: 1}"


class Night:
    """What happens to the watched machines and to the receivers, at random, whoever is watching."""

    def __init__(self, rig: Rig, servers: list[ChatServer], sinks: dict[str, MoodySink], chance: random.Random) -> None:
        self.rig, self.servers, self.sinks, self.chance = rig, servers, sinks, chance
        self.devices: list[str] = []

    async def go_on(self) -> None:
        """Let things happen until cancelled."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.1, 0.8))
            event = self.chance.random()
            if event < 0.6:
                server = self.chance.choice(self.servers)
                server.mode = Mode.OK if server.mode is not Mode.OK else self.chance.choice(SICK)
            elif event < 0.9 and len(self.devices) < MOST_DEVICES:
                self.complain()
            else:
                await self.take_away(self.chance.choice(list(self.sinks.values())))

    def complain(self) -> None:
        """A machine's kernel prints a fatal PCIe error of a device that was never heard of before."""
        number = len(self.devices)
        device = f"{number >> 8:04x}:{number & 0xFF:02x}:00.0"
        self.devices.append(device)
        machine = self.chance.choice(list(self.rig.machines.values()))
        machine.log(f"pcieport {device}: AER: Multiple Uncorrected (Fatal) error received: {device}")

    async def take_away(self, sink: MoodySink) -> None:
        """Nothing listens there for a moment."""
        try:
            await sink.down()
            await asyncio.sleep(self.chance.uniform(0.2, 1.5))
        finally:
            await sink.up()

    async def end(self) -> None:
        """Everything works again, everywhere."""
        for server in self.servers:
            server.mode = Mode.OK
        for sink in self.sinks.values():
            sink.calm()


def write_config(rig: Rig, extra: dict[str, ChatServer], sinks: dict[str, MoodySink]) -> Path:
    """The rig's configuration with more servers, two webhooks, and everything short."""
    path = rig.write_config(probe=PROBE, kernel_log="{interval: 3s, timeout: 3s}")
    text = path.read_text().partition("receivers:")[0]
    rows = [f"  - {{name: {name}, base_url: '{chat.base_url}', probe: {PROBE}}}\n" for name, chat in extra.items()]
    text = text.replace("hosts:\n", f"{''.join(rows)}hosts:\n", 1)
    hooks = [f"  - {{name: {name}, url: '{sink.url()}', timeout: 1s}}\n" for name, sink in sinks.items()]
    path.write_text(f"{text}receivers:\n{''.join(hooks)}alerting: {{occurrence_quiet: 5s, flap_failures: 10}}\n")
    return path


async def live(daemon: DaemonProcess, chance: random.Random) -> None:
    """One life of the daemon, ended by SIGKILL: while it starts, or some time after."""
    daemon.log = daemon.log.with_name(f"daemon-{chance.randrange(1 << 40):x}.log")
    await daemon.start()
    if chance.random() < 0.75:
        await until(lambda: daemon.saw("started"), 30, "the start")
    await asyncio.sleep(chance.uniform(0.0, 2.5))
    await daemon.kill()


def owed(state_dir: Path) -> int:
    """How many incidents are open and messages undelivered."""
    with closing(sqlite3.connect(state_dir / "state.db")) as database:
        (open_ones,) = database.execute("SELECT count(*) FROM incidents WHERE status = 'firing'").fetchone()
        (waiting,) = database.execute("SELECT count(*) FROM outbox WHERE state IN ('queued', 'leased')").fetchone()
        return int(open_ones + waiting)


@pytest.mark.slow
@pytest.mark.timeout(180 + 6 * KILLS)
async def test_the_daemon_killed_at_random_moments_loses_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    sinks = {name: MoodySink(chance) for name in RECEIVERS}
    extra = {name: ChatServer() for name in EXTRA_SERVERS}
    rig = Rig(tmp_path, lambda _alert: None)
    async with AsyncExitStack() as stack:
        await rig.start()
        stack.push_async_callback(rig.stop)
        for server in extra.values():
            await server.start()
            stack.push_async_callback(server.stop)
        for sink in sinks.values():
            await stack.enter_async_context(sink)
        night = Night(rig, [rig.chat, *extra.values()], sinks, chance)
        # As under systemd, whose unit counts the starts that fail: the kills of this test are no news of ours.
        counted = {"RUNTIME_DIRECTORY": str(tmp_path)}
        config = write_config(rig, extra, sinks)
        daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log", counted)
        stack.push_async_callback(daemon.kill)

        await daemon.start()  # first contact: old lines would only be history
        keys = [f"kernel_log/{machine}" for machine in rig.machines]
        await until(
            lambda: all(daemon.saw("observation", check=key, verdict="pass") for key in keys), 30, "a look at each host"
        )
        await daemon.kill()

        events = asyncio.create_task(night.go_on())
        for _ in range(KILLS):
            await live(daemon, chance)
        events.cancel()
        with suppress(asyncio.CancelledError):
            await events
        await night.end()

        daemon.log = tmp_path / "last.log"
        await daemon.start()
        await until(lambda: daemon.saw("started"), 30, "the last start")
        await asyncio.sleep(8)  # what the hosts logged meanwhile is read, every server is asked a few times
        await until(lambda: owed(daemon.state_dir) == 0, 150, "everything is over and told")
        await daemon.kill()
    counts = judge(daemon.state_dir, sinks)
    for name, sink in sinks.items():
        told = {title for kind, _incident, title, _attempt in parsed(sink) if kind == "NEW"}
        missing = [device for device in night.devices if not any(device in title for title in told)]
        assert not missing, f"{name} never heard of {missing}"
    assert counts["NEW"] >= len(RECEIVERS) * len(night.devices)
    assert counts["FIRING"] >= KILLS / 10, "the night was too quiet to prove anything"
