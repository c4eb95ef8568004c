"""Looks at the network next to this machine: which router it uses, who answers a TCP probe, what our kernel can send.

A probe is one TCP connection that is closed at once; a refusal is an answer too. No ICMP, which needs rights on some
systems, and nothing is written anywhere (docs/decisions/0005).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import re
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watchdog.selfwatch.attribution import Answer, NetworkView, TcpProbe

ROUTER_PORTS = (53, 80, 443, 22)
"""What routers usually serve to their own network. A closed port answers as well, unless a firewall drops packets."""
LINUX_ROUTES = Path("/proc/self/net/route")
"""Not `/proc/net`: that is hidden by the unit's ProcSubset=pid."""
LINUX_NEIGHBOURS = Path("/proc/self/net/arp")
DARWIN_ROUTE = "/sbin/route"
PATIENCE_S = 3.0
HEAD_START_S = 0.3
"""A router that is up answers within this, and then nobody else is probed."""
DENIAL_S = 0.3
"""A macOS that denies the local network says so at once; nobody waits longer to find that out."""

_ANSWERS = {
    errno.ECONNREFUSED: Answer.ANSWERED,
    errno.ECONNRESET: Answer.ANSWERED,
    errno.EHOSTUNREACH: Answer.NO_HOST,
    errno.EHOSTDOWN: Answer.HOST_DOWN,
    errno.ENETUNREACH: Answer.NO_NETWORK,
    errno.ENETDOWN: Answer.NO_NETWORK,
    errno.EADDRNOTAVAIL: Answer.NO_NETWORK,
    errno.ETIMEDOUT: Answer.SILENT,
}
_RTF_UP, _RTF_GATEWAY = 0x1, 0x2
_ATF_COM = 0x2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a target can be probed: `host` is a name or an address."""

    host: str
    port: int


class LocalNetwork:
    """The network around this machine, as it is now."""

    def __init__(
        self,
        *,
        platform: str = sys.platform,
        routes: Path = LINUX_ROUTES,
        neighbours: Path = LINUX_NEIGHBOURS,
        ports: Sequence[int] = ROUTER_PORTS,
    ) -> None:
        """`routes` and `neighbours` are where Linux lists them, `ports` are those a router is probed at."""
        self._platform = platform
        self._routes = routes
        self._neighbours = neighbours
        self._ports = ports
        self._addresses: dict[str, frozenset[str]] = {}

    @property
    def is_darwin(self) -> bool:
        """Whether this is macOS, which may deny the local network to a program."""
        return self._platform == "darwin"

    async def gateway(self) -> str | None:
        """The address of the router of the default route (IPv4), or None: no such route, or it cannot be known."""
        if self.is_darwin:
            return darwin_gateway(await _route_get("default"))
        try:
            return linux_gateway(self._routes.read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError):
            return None

    async def probe_router(self, address: str) -> TcpProbe:
        """What a router says, at whichever of its ports answers first.

        One that drops what we send still says on the link that it is there: nobody can be reached without that.
        """
        said = await _first([asyncio.ensure_future(tcp_probe(Endpoint(address, port))) for port in self._ports])
        if said.answer is Answer.ANSWERED or self.is_darwin:
            return said
        try:
            is_there = linux_neighbour(self._neighbours.read_text(encoding="ascii"), address)
        except (OSError, UnicodeDecodeError):
            return said
        return replace(said, answer=Answer.ANSWERED) if is_there else replace(said, is_absent=True)

    def no_way_to(self, host: str) -> NoWay | None:
        """Why our own system can send nothing to `host`; None if it can, or nobody knows.

        For a name that was never resolved it is the way to the name servers.
        """
        found = [no_way_to(address) for address in sorted(self.addresses(host) or name_servers())]
        return found[0] if found and None not in found else None

    async def look(self, endpoints: Iterable[Endpoint]) -> NetworkView:
        """Look at the router, and a moment later at all targets, until somebody answers, at most for some seconds.

        Targets on this very machine are left out: they answer without any network.
        """
        others = [endpoint for endpoint in endpoints if not self.is_here(endpoint.host)]
        address = await self.gateway()
        router = None if address is None else asyncio.ensure_future(self.probe_router(address))
        if router is not None and not self.is_darwin:
            await asyncio.wait((router,), timeout=HEAD_START_S)
            if router.done() and router.result().answer is Answer.ANSWERED:
                return NetworkView(router.result(), (), self._all_addresses(others))  # targets need not be bothered
        targets: list[asyncio.Future[TcpProbe]] = [asyncio.ensure_future(tcp_probe(endpoint)) for endpoint in others]
        probes = await _until_answered(router, targets, is_darwin=self.is_darwin)
        seen = [task.result() for task in targets if task in probes]
        if self.is_darwin:
            seen = [await self._on_link(one) for one in seen]
        return NetworkView(
            gateway=None if address is None else _result(router, probes, address),
            targets=tuple(seen),
            target_addresses=self._all_addresses(others),
            is_darwin=self.is_darwin,
        )

    def _all_addresses(self, endpoints: Iterable[Endpoint]) -> frozenset[str]:
        return frozenset().union(*(self.addresses(endpoint.host) for endpoint in endpoints))

    async def _on_link(self, one: TcpProbe) -> TcpProbe:
        host = one.address.rpartition(":")[0].strip("[]")
        on_link = _literal(host) and darwin_on_link(await _route_get(host))
        return TcpProbe(one.address, one.answer, one.took_s, on_link)

    async def resolve(self, hosts: Iterable[str]) -> None:
        """Learn the addresses of `hosts`, while names can still be resolved."""
        loop = asyncio.get_running_loop()
        for host in hosts:
            if not _literal(host):
                with contextlib.suppress(OSError, UnicodeError, TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                    self._addresses[host] = frozenset(str(row[4][0]) for row in found)

    def addresses(self, host: str) -> frozenset[str]:
        """The addresses of `host`, as far as `resolve` learnt them."""
        return frozenset({host}) if _literal(host) else self._addresses.get(host, frozenset())

    def is_here(self, host: str) -> bool:
        """Whether `host` is this very machine."""
        if host.rstrip(".").lower() == "localhost":
            return True
        addresses = self.addresses(host)
        return bool(addresses) and all(_is_own(address) for address in addresses)


def linux_gateway(table: str) -> str | None:
    """The router of the best default route in `table`, the text of `LINUX_ROUTES` (route.c: little-endian hex)."""
    best: tuple[int, str] | None = None
    for row in table.splitlines()[1:]:
        fields = row.split()
        if len(fields) < 8 or fields[1] != "00000000" or fields[7] != "00000000":
            continue
        flags, metric = int(fields[3], 16), int(fields[6])
        if flags & _RTF_UP and flags & _RTF_GATEWAY and (best is None or metric < best[0]):
            address = ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(fields[2]), sys.byteorder))
            best = (metric, str(address))
    return best[1] if best else None


def linux_neighbour(table: str, address: str) -> bool:
    """Whether `table`, the text of `LINUX_NEIGHBOURS`, has an answer of `address` on the link (arp.c)."""
    rows = (row.split() for row in table.splitlines()[1:])
    return any(row[0] == address and int(row[2], 16) & _ATF_COM for row in rows if len(row) >= 4)


def darwin_gateway(text: str) -> str | None:
    """The router in what `route -n get default` says, None if it names none (`link#12` is an interface)."""
    found = re.search(r"^\s*gateway:\s*([0-9a-fA-F:.]+)\s*$", text, re.MULTILINE)
    return found[1] if found and _literal(found[1]) else None


def darwin_on_link(text: str) -> bool:
    """Whether `route -n get ADDRESS` shows an interface and no router in between."""
    return "interface:" in text and darwin_gateway(text) is None


async def tcp_probe(endpoint: Endpoint, patience_s: float = PATIENCE_S) -> TcpProbe:
    """Open a TCP connection to `endpoint` and close it; says what came of it and never raises."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(patience_s):
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.transport.abort()
        answer = Answer.ANSWERED
    except TimeoutError:
        answer = Answer.SILENT
    except socket.gaierror:
        answer = Answer.NO_NAME
    except (OSError, UnicodeError) as error:
        answer = _answer_of(error)
    address = f"[{endpoint.host}]:{endpoint.port}" if ":" in endpoint.host else f"{endpoint.host}:{endpoint.port}"
    return TcpProbe(address, answer, loop.time() - began)


def _answer_of(error: Exception) -> Answer:
    number = getattr(error, "errno", None)
    if number is None:
        # asyncio joins what several addresses of one name said into one text.
        numbers = {int(found) for found in re.findall(r"\[Errno (\d+)\]", str(error))}
        number = errno.ECONNREFUSED if errno.ECONNREFUSED in numbers else next(iter(numbers), None)
    return _ANSWERS.get(number, Answer.OTHER) if isinstance(number, int) else Answer.OTHER


async def _first(probes: list[asyncio.Future[TcpProbe]]) -> TcpProbe:
    """The first probe that was answered; if none was, the one that says most."""
    waiting = set(probes)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(task.result().answer is Answer.ANSWERED for task in done):
            break
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    results = [task.result() for task in probes if task.done() and not task.cancelled()]
    best = next((one for one in results if one.answer is Answer.ANSWERED), results[0])
    return TcpProbe(best.address.rpartition(":")[0].strip("[]"), best.answer, best.took_s)


async def _until_answered(
    router: asyncio.Future[TcpProbe] | None, targets: list[asyncio.Future[TcpProbe]], *, is_darwin: bool
) -> set[asyncio.Future[TcpProbe]]:
    """Wait until the router or a target answered, or all have failed; returns the probes that are over."""
    loop = asyncio.get_running_loop()
    every = [*targets, *([router] if router else [])]
    waiting, done = set(every), set[asyncio.Future[TcpProbe]]()
    enough_at = loop.time() + (DENIAL_S if is_darwin else 0.0)
    while waiting:
        answered = {task for task in done if task.result().answer is Answer.ANSWERED}
        left_s = enough_at - loop.time()
        if answered & set(targets) or (answered and left_s <= 0):
            break
        new, waiting = await asyncio.wait(
            waiting, timeout=max(0.0, left_s) if answered else None, return_when=asyncio.FIRST_COMPLETED
        )
        done |= new
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return done


def _result(router: asyncio.Future[TcpProbe] | None, done: set[asyncio.Future[TcpProbe]], address: str) -> TcpProbe:
    return router.result() if router is not None and router in done else TcpProbe(address, Answer.OTHER)


async def _route_get(what: str) -> str:
    """What macOS says about the route to `what`; "" if it says nothing."""
    try:
        process = await asyncio.create_subprocess_exec(
            DARWIN_ROUTE, "-n", "get", what, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(PATIENCE_S):
            output, _ = await process.communicate()
    except (OSError, TimeoutError):
        return ""
    return output.decode(errors="replace")


def _literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_own(address: str) -> bool:
    """Whether `address` belongs to this machine: only then can a socket be bound to it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.is_loopback:
        return True
    if found.is_unspecified or found.is_multicast:
        return found.is_unspecified
    family = socket.AF_INET6 if found.version == 6 else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False


# What our own kernel says of the way to an address: no route leads there, or the link it leads over is down.
# Nothing is sent: connecting a UDP socket only looks the route up. It needs no rights and but one file of the system's,
# so it works in any network namespace.

LINUX_IPV6_ADDRESSES = Path("/proc/self/net/if_inet6")
RESOLVER_FILES = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""The first names the real servers where the second names a resolver on this machine."""

_NO_ROUTE = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_SIOCGIFCONF, _SIOCGIFFLAGS = 0x8912, 0x8913
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_IFREQ_BYTES, _NAME_BYTES = 40, 16
_MOST_INTERFACES = 256


@dataclass(frozen=True, slots=True)
class NoWay:
    """No packet can leave for an address: over `link`, which is down, or (empty) because no route leads there."""

    link: str = ""


def no_way_to(address: str) -> NoWay | None:
    """Why our own system can send nothing to `address`; None if it can, or nobody knows."""
    try:
        family, _, _, _, place = socket.getaddrinfo(
            address, 9, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )[0]
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect(place)
            source = str(asked.getsockname()[0]).partition("%")[0]
    except OSError as error:
        # Linux says "no route to host" only for a route that says so itself; macOS also for a neighbour that is dead.
        ours = error.errno in _NO_ROUTE or (error.errno == errno.EHOSTUNREACH and sys.platform == "linux")
        return NoWay() if ours else None
    link = _link_of(source) if sys.platform == "linux" else ""
    return NoWay(link) if link and not _is_running(link) else None


def name_servers() -> frozenset[str]:
    """The addresses of the name servers that are other machines, as far as the system's files say."""
    found: set[str] = set()
    for file in RESOLVER_FILES:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            rows = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
            found |= {row[1] for row in rows if row[:1] == ["nameserver"] and len(row) > 1 and _is_elsewhere(row[1])}
    return frozenset(found)


def _is_elsewhere(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return not ipaddress.ip_address(address.partition("%")[0]).is_loopback
    return False


def _link_of(source: str) -> str:
    """The network interface that has the address `source`; "" if that cannot be said."""
    with contextlib.suppress(OSError, ValueError, UnicodeDecodeError):
        if ":" not in source:
            return _ipv4_links().get(source, "")
        wanted = ipaddress.IPv6Address(source).packed.hex()
        for line in LINUX_IPV6_ADDRESSES.read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[:1] == [wanted]:
                return fields[-1]
    return ""


def _ipv4_links() -> dict[str, str]:
    """IPv4 address → interface (netdevice(7), SIOCGIFCONF: 64-bit `struct ifreq`, an alias `eth0:1` is eth0)."""
    import array  # noqa: PLC0415 - only when something cannot be reached
    import fcntl  # noqa: PLC0415

    room = array.array("B", bytes(_IFREQ_BYTES * _MOST_INTERFACES))
    begin, size = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _SIOCGIFCONF, struct.pack("iL", size, begin))
    rows = room.tobytes()[: struct.unpack("iL", answer)[0]]
    found = {}
    for start in range(0, len(rows), _IFREQ_BYTES):
        name = rows[start : start + _NAME_BYTES].partition(b"\0")[0].decode("ascii").partition(":")[0]
        found[socket.inet_ntoa(rows[start + _NAME_BYTES + 4 : start + _NAME_BYTES + 8])] = name
    return found


def _is_running(link: str) -> bool:
    """Whether the interface is up and has its carrier; True if that cannot be said."""
    import fcntl  # noqa: PLC0415

    asked_for = struct.pack(f"{_NAME_BYTES}s24x", link.encode())
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            answer = fcntl.ioctl(asked, _SIOCGIFFLAGS, asked_for)
    except OSError:
        return True
    flags = struct.unpack_from("H", answer, _NAME_BYTES)[0]
    return bool(flags & _IFF_UP) and bool(flags & _IFF_RUNNING)
