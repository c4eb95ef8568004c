"""The real daemon in a network namespace of its own: its network is gone in every way, and no server is blamed."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from aiohttp import web

from tests.support.daemon_process import DaemonProcess, until
from tests.support.journal_files import require
from tests.support.namespaces import CableBetweenNamespaces, ip

ROUTER, WATCHDOG, SERVER, OTHER = "10.213.8.1", "10.213.8.2", "10.213.8.10", "10.213.8.11"
BYSTANDER = "10.213.8.250"
"""Has the first address of the other side, which takes all later ones with it when it goes."""
FAR = "10.214.0.10"
INTERVAL_S = 2

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]


def listening_in(namespace: str, address: str, port: int) -> socket.socket:
    """A listening socket in another namespace: a thread of its own goes there to open it."""
    opened: list[socket.socket] = []

    def work() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/var/run/netns/{namespace}").open("rb") as file:
            assert libc.setns(file.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())
        opened.append(socket.create_server((address, port)))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    return opened[0]


class Cable(CableBetweenNamespaces):
    """With servers and a bystander on the other side."""

    def __init__(self) -> None:
        super().__init__("iwg", WATCHDOG, BYSTANDER, SERVER, OTHER)
        # A neighbour that is gone is noticed after seconds, not after ten: the probes here follow closely.
        for name, value in (("delay_first_probe_time", 1), ("base_reachable_time_ms", 1000), ("ucast_solicit", 1)):
            setting = f"net.ipv4.neigh.cable.{name}={value}"
            subprocess.run(["ip", "netns", "exec", self.here, "sysctl", "-qw", setting], check=True)

    def add_router(self, *, silent: bool = False) -> None:
        """A default route by a router; a `silent` one answers on the link, and drops whatever is sent to it."""
        ip("-n", self.here, "route", "add", "default", "via", ROUTER)
        if silent:
            subprocess.run(["ip", "netns", "exec", self.there, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
            ip("-n", self.there, "neigh", "add", "proxy", ROUTER, "dev", "cable")
            ip("-n", self.there, "route", "add", f"{ROUTER}/32", "dev", "lo")
        else:
            ip("-n", self.there, "addr", "add", f"{ROUTER}/24", "dev", "cable")

    def lose_everybody(self) -> None:
        """Whoever is on the other side is gone, router and servers; our own link stays up."""
        ip("-n", self.there, "link", "set", "cable", "arp", "off")
        ip("-n", self.there, "addr", "flush", "dev", "cable")
        subprocess.run(["ip", "-n", self.there, "neigh", "flush", "proxy"], check=False, capture_output=True)
        subprocess.run(["ip", "-n", self.there, "neigh", "del", "proxy", ROUTER, "dev", "cable"], check=False)


@pytest.fixture
def cable() -> Iterator[Cable]:
    require("ip", packages="iproute2")
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root: our own network gone is NOT tested here")
    made = Cable()
    yield made
    made.close()


class Rig:
    """The daemon, two servers and a phone on the daemon's own machine."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.probes = 0
        self.titles: list[str] = []


@asynccontextmanager
async def watching(cable: Cable, tmp_path: Path, *addresses: str) -> AsyncIterator[Rig]:
    """Run the daemon in `cable.here` against servers at `addresses`."""
    config = tmp_path / "config.yaml"
    servers = "".join(
        f"""
  - name: llm{number}
    base_url: http://{address}:8000/v1
    model: tiny
    probe: {{interval: {INTERVAL_S}s, timeout: 1500ms}}"""
        for number, address in enumerate(addresses)
    )
    config.write_text(f"servers:{servers}\nreceivers:\n  - name: phone\n    url: json://127.0.0.1:9000/hook\n")
    rig = Rig(DaemonProcess(config, tmp_path / "state", tmp_path / "log", inside=("ip", "netns", "exec", cable.here)))

    async def complete(_request: web.Request) -> web.Response:
        rig.probes += 1
        message = {"role": "assistant", "content": "ok"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})

    async def ring(request: web.Request) -> web.Response:
        rig.titles.append((await request.json())["title"])
        return web.Response()

    there, here = web.Application(), web.Application()
    there.router.add_post("/v1/chat/completions", complete)
    here.router.add_post("/hook", ring)
    runners = [web.AppRunner(there), web.AppRunner(here)]
    for runner, (namespace, address, port) in zip(
        runners, ((cable.there, "0.0.0.0", 8000), (cable.here, "127.0.0.1", 9000)), strict=True
    ):
        await runner.setup()
        await web.SockSite(runner, listening_in(namespace, address, port)).start()
    await rig.daemon.start()
    try:
        yield rig
    finally:
        await rig.daemon.kill()
        for runner in runners:
            await runner.cleanup()


async def is_one_warning_of_ours(rig: Rig) -> None:
    """Six more rounds of two servers bring one message, which names neither."""
    await until(lambda: rig.titles, what="no warning")
    with suppress(AssertionError):  # nothing else may come: the time is what is tested
        await until(lambda: len(rig.titles) > 1, 5 * INTERVAL_S)
    assert len(rig.titles) == 1, rig.titles
    assert rig.titles[0].startswith("FIRING watchdog: our own network is down"), rig.titles
    assert "llm" not in rig.titles[0]


async def is_quiet_when_the_cable_is_back(rig: Rig) -> None:
    await until(lambda: len(rig.titles) == 2, what="not resolved")
    probes = rig.probes
    await until(lambda: rig.probes >= probes + 6, what="no probes")
    assert len(rig.titles) == 2, rig.titles
    assert rig.titles[1].startswith("RESOLVED watchdog"), rig.titles


async def test_no_router_and_no_route_from_the_first_boot_on(cable: Cable, tmp_path: Path) -> None:
    ip("-n", cable.there, "addr", "add", f"{FAR}/32", "dev", "lo")
    async with watching(cable, tmp_path, FAR, "10.214.0.11") as rig:
        await is_one_warning_of_ours(rig)
        ip("-n", cable.there, "addr", "add", "10.214.0.11/32", "dev", "lo")
        cable.add_router()
        await is_quiet_when_the_cable_is_back(rig)


@pytest.mark.parametrize("router", [True, False], ids=["with a router", "without a router"])
async def test_the_cable_pulled(cable: Cable, tmp_path: Path, *, router: bool) -> None:
    if router:
        cable.add_router()
    async with watching(cable, tmp_path, SERVER, OTHER) as rig:
        await until(lambda: rig.probes >= 4, what="no probes")
        ip("-n", cable.there, "link", "set", "cable", "down")  # we keep address and routes, and have no carrier
        await is_one_warning_of_ours(rig)
        ip("-n", cable.there, "link", "set", "cable", "up")
        await is_quiet_when_the_cable_is_back(rig)


async def test_our_own_interface_down(cable: Cable, tmp_path: Path) -> None:
    async with watching(cable, tmp_path, SERVER, OTHER) as rig:
        await until(lambda: rig.probes >= 4, what="no probes")
        ip("-n", cable.here, "link", "set", "cable", "down")
        await is_one_warning_of_ours(rig)
        ip("-n", cable.here, "link", "set", "cable", "up")
        await is_quiet_when_the_cable_is_back(rig)


@pytest.mark.parametrize("silent", [True, False], ids=["one that drops our probes", "one that answered"])
async def test_the_router_lost_behind_a_link_that_stays_up(cable: Cable, tmp_path: Path, *, silent: bool) -> None:
    cable.add_router(silent=silent)
    async with watching(cable, tmp_path, SERVER, OTHER) as rig:
        await until(lambda: rig.daemon.saw("router"), what="no look at the router")
        await until(lambda: rig.probes >= 4, what="no probes")
        cable.lose_everybody()
        await is_one_warning_of_ours(rig)


async def test_a_router_that_is_not_there_at_first_boot(cable: Cable, tmp_path: Path) -> None:
    cable.add_router()
    cable.lose_everybody()
    async with watching(cable, tmp_path, SERVER, OTHER) as rig:
        await is_one_warning_of_ours(rig)


@pytest.mark.parametrize("router", ["silent", "answers", "none"])
async def test_servers_that_die_while_our_network_is_well_page(cable: Cable, tmp_path: Path, router: str) -> None:
    if router != "none":
        cable.add_router(silent=router == "silent")
    async with watching(cable, tmp_path, SERVER, OTHER) as rig:
        await until(lambda: rig.probes >= 4, what="no probes")
        for address in (SERVER, OTHER):
            ip("-n", cable.there, "addr", "del", f"{address}/24", "dev", "cable")
        await until(lambda: len(rig.titles) >= 2, what="no page")
        assert all("llm" in title for title in rig.titles), rig.titles
