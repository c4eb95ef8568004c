"""Name look-ups that cannot delay anything else.

asyncio resolves names in a small shared pool of threads. A name server that does not answer holds such a thread for up
to half a minute per name: a handful of dead names would starve every other look-up, and the program's exit.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

Lookup = Callable[..., list[Any]]


class ThreadPerNameResolver(AbstractResolver):
    """Resolves each name in a thread of its own; further calls for a name that hangs wait for the same thread."""

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        """`lookup` has the signature of `socket.getaddrinfo`."""
        self._lookup = lookup
        self._pending: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Addresses of `host`. Raises OSError (also for names that are no names), as aiohttp expects."""
        key = (host, int(family))
        future = self._pending.get(key)
        if future is None:
            future = self._pending[key] = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._work, args=(key, future), name=f"resolve {host}", daemon=True).start()
        found = await asyncio.shield(future)
        return [_result(host, port, info) for info in found]

    async def close(self) -> None:
        """Forget what is under way; its threads are daemons and end by themselves."""
        for future in self._pending.values():
            future.cancel()
        self._pending.clear()

    def _work(self, key: tuple[str, int], future: asyncio.Future[list[Any]]) -> None:
        host, family = key
        found: list[Any] = []
        failure: OSError | None = None
        try:
            found = self._lookup(host, None, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except OSError as error:
            failure = error
        except UnicodeError as error:
            failure = OSError(None, f"no valid host name: {error}")
        try:
            future.get_loop().call_soon_threadsafe(self._finish, key, future, found, failure)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _finish(
        self, key: tuple[str, int], future: asyncio.Future[list[Any]], found: list[Any], failure: OSError | None
    ) -> None:
        self._pending.pop(key, None)
        if future.done():
            return
        if failure is None:
            future.set_result(found)
        else:
            future.set_exception(failure)
            future.exception()  # seen: the asker may have left at its deadline


def _result(host: str, port: int, info: Any) -> ResolveResult:
    family, _, proto, _, address = info
    scoped = family == socket.AF_INET6 and len(address) > 3 and address[3]
    return ResolveResult(
        hostname=host,
        host=f"{address[0]}%{address[3]}" if scoped else address[0],
        port=port,
        family=family,
        proto=proto,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
