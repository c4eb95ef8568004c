"""What our own kernel says of the way to an address: no route leads there, or the link it leads over is down.

Nothing is sent: connecting a UDP socket only looks the route up. Needs no rights and no files of the system's except
one, so it works in any network namespace (docs/decisions/0005).
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

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
