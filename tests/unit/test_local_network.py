"""Which router our packets leave by, and who answers a probe."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from watchdog.config import Config, HostSettings, ServerSettings
from watchdog.selfwatch.attribution import Answer, TcpProbe
from watchdog.selfwatch.local_network import (
    Endpoint,
    LocalNetwork,
    darwin_gateway,
    darwin_on_link,
    linux_gateway,
    linux_neighbour,
    no_way_to,
    tcp_probe,
)
from watchdog.selfwatch.own_network import target_endpoints

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="the sample tables are from such machines")


@little_endian
def test_the_router_of_the_default_route_with_the_lowest_metric_counts() -> None:
    table = HEAD + (
        "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
        "eth0\t00000000\tFE01A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
    )
    assert linux_gateway(table) == "192.168.1.254"


@pytest.mark.parametrize(
    "table",
    [
        "",
        HEAD,
        HEAD + "eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n",
        HEAD + "tun0\t00000000\t00000000\t0001\t0\t0\t50\t00000000\t0\t0\t0\n",
        HEAD + "eth0\t00000000\t0101A8C0\t0002\t0\t0\t50\t00000000\t0\t0\t0\n",
        HEAD + "cut\t00000000\n",
    ],
    ids=["empty", "no routes", "no default route", "a tunnel without a router", "a route that is down", "cut short"],
)
def test_no_default_route_with_a_router_is_none(table: str) -> None:
    assert linux_gateway(table) is None


def test_a_neighbour_that_answered_on_the_link_is_there_and_one_that_did_not_is_absent() -> None:
    table = (
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        "192.0.2.10       0x1         0x0         00:00:00:00:00:00     *        eth0\n"
        "192.0.2.1        0x1         0x2         02:fc:00:00:00:05     *        eth0\n"
        "cut\n"
    )
    assert [linux_neighbour(table, host) for host in ("192.0.2.1", "192.0.2.10", "192.0.2.11")] == [True, False, False]


def test_a_way_that_our_own_kernel_has_is_nobodys_excuse() -> None:
    assert no_way_to("127.0.0.1") is None
    assert no_way_to("no address") is None


DARWIN_DEFAULT = """   route to: default
destination: default
       mask: default
    gateway: 192.168.1.1
  interface: en0
      flags: <UP,GATEWAY,DONE,STATIC,PRCLONING,GLOBAL>
"""
DARWIN_NEIGHBOUR = """   route to: 192.168.1.10
destination: 192.168.1.10
  interface: en0
      flags: <UP,HOST,DONE,LLINFO,WASCLONED,IFSCOPE,IFREF>
"""
DARWIN_LINK = "   route to: 10.0.0.5\n    gateway: link#14\n  interface: utun3\n"


def test_macos_names_its_router_and_its_neighbours() -> None:
    assert darwin_gateway(DARWIN_DEFAULT) == "192.168.1.1"
    assert darwin_gateway("") is None
    assert darwin_gateway(DARWIN_LINK) is None
    assert [darwin_on_link(text) for text in (DARWIN_DEFAULT, DARWIN_NEIGHBOUR, DARWIN_LINK, "")] == [
        False,
        True,
        True,
        False,
    ]


async def test_an_open_door_and_a_refusing_one_are_both_an_answer() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert (await tcp_probe(Endpoint("127.0.0.1", port))).answer is Answer.ANSWERED
    server.close()
    await server.wait_closed()
    assert (await tcp_probe(Endpoint("127.0.0.1", port))).answer is Answer.ANSWERED
    assert (await tcp_probe(Endpoint("localhost", port))).answer is Answer.ANSWERED


async def test_a_door_that_drops_what_comes_is_silent() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        endpoint = Endpoint("127.0.0.1", full.getsockname()[1])
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        await asyncio.sleep(0.1)
        assert (await tcp_probe(endpoint, patience_s=0.3)).answer is Answer.SILENT
        for filler in fillers:
            filler.close()


async def test_a_name_that_means_nothing_is_told_apart_from_a_door_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unknown(*_asked: object, **_how: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    found = await tcp_probe(Endpoint("no-such-name.invalid", 80))
    assert (found.answer, found.address) == (Answer.NO_NAME, "no-such-name.invalid:80")


async def test_a_resolver_that_never_answers_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hanging(*_asked: object, **_how: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hanging)
    assert (await tcp_probe(Endpoint("no-such-name.invalid", 80), patience_s=0.05)).answer is Answer.SILENT


async def test_this_machine_itself_is_no_witness(tmp_path: Path) -> None:
    around = LocalNetwork(platform="linux", routes=tmp_path / "none")
    await around.resolve(["localhost", "192.0.2.10"])
    assert around.is_here("127.0.0.1")
    assert around.is_here("::1")
    assert around.is_here("localhost")
    assert not around.is_here("192.0.2.10")
    assert not around.is_here("never-resolved.example.org")


@little_endian
async def test_a_look_is_over_as_soon_as_the_router_answers(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    routes = tmp_path / "route"
    routes.write_text(HEAD + "lo\t00000000\t0100007F\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    around = LocalNetwork(platform="linux", routes=routes, ports=(port,))
    began = asyncio.get_running_loop().time()
    seen = await around.look([Endpoint("192.0.2.10", 9), Endpoint("127.0.0.1", 9)])
    assert seen.gateway is not None
    assert (seen.gateway.address, seen.gateway.answer) == ("127.0.0.1", Answer.ANSWERED)
    assert asyncio.get_running_loop().time() - began < 1.0
    assert seen.target_addresses == {"192.0.2.10"}
    server.close()
    await server.wait_closed()


@little_endian
async def test_targets_are_not_bothered_while_the_router_answers(tmp_path: Path) -> None:
    heard = []

    def note(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(writer.get_extra_info("sockname")[1])
        writer.close()

    router = await asyncio.start_server(note, "127.0.0.1", 0)
    target = await asyncio.start_server(note, "127.0.0.1", 0)
    router_port, target_port = (server.sockets[0].getsockname()[1] for server in (router, target))
    routes = tmp_path / "route"
    routes.write_text(HEAD + "lo\t00000000\t0100007F\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")

    class OnLoopback(LocalNetwork):
        def is_here(self, host: str) -> bool:
            return False  # loopback stands for another machine here

    around = OnLoopback(platform="linux", routes=routes, ports=(router_port,))
    await around.look([Endpoint("127.0.0.1", target_port)])
    await asyncio.sleep(0.05)
    assert heard == [router_port]
    router.close()
    await router.wait_closed()
    routes.write_text(HEAD)
    seen = await around.look([Endpoint("127.0.0.1", target_port)])
    assert (seen.gateway, [probed.answer for probed in seen.targets]) == (None, [Answer.ANSWERED])
    target.close()
    await target.wait_closed()


def test_a_target_is_probed_at_the_port_it_is_reached_by_or_at_its_jump_hosts() -> None:
    urls = {"a": "https://a.example/v1", "b": "http://b.example/v1", "c": "http://[2001:db8::1]:8000/v1"}
    host = HostSettings(name="gate", address="192.0.2.1", port=2200, user="monitor", known_hosts="/dev/null")
    behind = replace(host, name="worker", address="192.0.2.11", jump="gate")
    free = replace(host, name="other", address="192.0.2.12", jump="me@192.0.2.2:2222")
    config = Config(
        servers=tuple(ServerSettings(name=name, base_url=url) for name, url in urls.items()),
        hosts=(host, behind, free),
    )
    found = {key: (end.host, end.port) for key, end in target_endpoints(config).items()}
    assert {key: end for key, end in found.items() if key.startswith(("generation/", "vitals/"))} == {
        "generation/a": ("a.example", 443),
        "generation/b": ("b.example", 80),
        "generation/c": ("2001:db8::1", 8000),
        "vitals/gate": ("192.0.2.1", 2200),
        "vitals/worker": ("192.0.2.1", 2200),
        "vitals/other": ("192.0.2.2", 2222),
    }


async def test_on_macos_a_target_on_our_own_link_is_told_apart_by_the_route_to_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only neighbours need the permission to talk to the local network."""
    asked: list[str] = []

    async def route_get(host: str) -> str:
        asked.append(host)
        return DARWIN_LINK if host == "192.0.2.10" else DARWIN_DEFAULT

    monkeypatch.setattr("watchdog.selfwatch.local_network._route_get", route_get)
    network = LocalNetwork(platform="darwin")
    assert (network.is_darwin, LocalNetwork(platform="linux").is_darwin) == (True, False)
    near, far, named = [
        await network._on_link(TcpProbe(address, Answer.NO_HOST, 0.1))
        for address in ("192.0.2.10:8000", "[2001:db8::1]:8000", "llm.example:8000")
    ]
    assert near == TcpProbe("192.0.2.10:8000", Answer.NO_HOST, 0.1, on_link=True)
    assert far == TcpProbe("[2001:db8::1]:8000", Answer.NO_HOST, 0.1, on_link=False)
    assert not named.on_link
    assert asked == ["192.0.2.10", "2001:db8::1"]
