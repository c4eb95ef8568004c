"""A TCP connection to whichever address of a name answers first, so that one dead address hides no living host."""

from __future__ import annotations

import asyncio
import errno
import socket
from itertools import chain, zip_longest
from typing import Any

BETWEEN_S = 0.25
"""An address gets this head start over the next one (RFC 8305)."""
_TELLING = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH)
"""Where every address failed, the error that says most about the host comes first."""
Address = tuple[socket.AddressFamily, Any]


async def connect_first(name: str, port: int) -> socket.socket:
    """A connected, non-blocking socket. Raises OSError once every address has failed; has no deadline of its own."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    left = alternate([(family, address) for family, _, _, _, address in found])
    trying: set[asyncio.Task[socket.socket]] = set()
    errors: list[OSError] = []
    try:
        while left or trying:
            if left:
                trying.add(asyncio.create_task(_connect(*left.pop(0))))
            done, trying = await asyncio.wait(
                trying, timeout=BETWEEN_S if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            if good := [task for task in done if task.exception() is None]:
                for late in good[1:]:
                    late.result().close()
                return good[0].result()
            errors += [error for task in done if isinstance(error := task.exception(), OSError)]
    finally:
        for task in trying:
            task.cancel()
        for end in await asyncio.gather(*trying, return_exceptions=True):
            if isinstance(end, socket.socket):
                end.close()
    raise min(errors, key=_rank)


def alternate(addresses: list[Address]) -> list[Address]:
    """The addresses in their order, families in turn, so that a whole family that is dead costs one head start."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for address in chain.from_iterable(zip_longest(first, other)) if address is not None]


def _rank(error: OSError) -> int:
    return _TELLING.index(error.errno) if error.errno in _TELLING else len(_TELLING)


async def _connect(family: socket.AddressFamily, address: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting
