"""A name with a dead address and a living one is reached through the living one."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from watchdog.ssh import addresses

FOUR, SIX = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def loopback() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(stack: ExitStack) -> int:
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    return int(listener.getsockname()[1])


def black_hole(stack: ExitStack) -> int:
    """A port whose queue is full: a SYN to it is dropped, as by a firewall."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    for _ in range(4):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
    return int(listener.getsockname()[1])


def closed() -> int:
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        return int(once.getsockname()[1])


def resolving(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    async def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(FOUR, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


async def test_a_black_holed_address_costs_one_head_start(monkeypatch: pytest.MonkeyPatch, loopback: ExitStack) -> None:
    good = listening(loopback)
    resolving(monkeypatch, black_hole(loopback), good)
    started = time.monotonic()
    with await addresses.connect_first("box", 22) as connected:
        assert connected.getpeername()[1] == good
    assert addresses.BETWEEN_S <= time.monotonic() - started < 2


async def test_a_refusing_address_is_passed_over_at_once(monkeypatch: pytest.MonkeyPatch, loopback: ExitStack) -> None:
    good = listening(loopback)
    resolving(monkeypatch, closed(), good)
    with await addresses.connect_first("box", 22) as connected:
        assert connected.getpeername()[1] == good


async def test_where_every_address_refuses_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, closed(), closed())
    with pytest.raises(ConnectionRefusedError):
        await addresses.connect_first("box", 22)


async def test_a_dead_address_alone_waits_for_the_deadline_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, loopback: ExitStack
) -> None:
    resolving(monkeypatch, black_hole(loopback))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await addresses.connect_first("box", 22)


@pytest.mark.parametrize(
    ("families", "order"),
    [([SIX, SIX, FOUR], [0, 2, 1]), ([FOUR, SIX], [0, 1]), ([SIX], [0]), ([FOUR, FOUR], [0, 1])],
)
def test_the_families_take_turns(families: list[socket.AddressFamily], order: list[int]) -> None:
    found = [(family, number) for number, family in enumerate(families)]
    assert [number for _, number in addresses.alternate(found)] == order


def test_a_refusal_says_more_than_a_missing_route() -> None:
    errors = [OSError(errno.ENETUNREACH, ""), OSError(errno.ECONNREFUSED, ""), OSError(errno.ECONNRESET, "")]
    assert min(errors, key=addresses._rank).errno == errno.ECONNREFUSED
