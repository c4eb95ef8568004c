"""`wait` beside a real server that starts, loads, works and stops."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from watchdog.demo.rig import ChatServer, Mode


@dataclass
class Ended:
    code: int
    out: str
    err: str


async def wait(*arguments: str) -> Ended:
    command = (sys.executable, "-m", "watchdog", "wait", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return Ended(process.returncode or 0, out.decode(), err.decode())


@pytest.fixture
async def chat() -> AsyncIterator[ChatServer]:
    server = ChatServer()
    await server.start()
    yield server
    await server.stop()


async def test_it_waits_through_a_refused_port_until_text_comes(chat: ChatServer) -> None:
    await chat.stop()
    waiting = asyncio.create_task(wait(chat.base_url, "--up", "50s"))
    await asyncio.sleep(4)
    await chat.start()
    ended = await waiting
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert "refused" in lines[0]
    assert "up: text in" in lines[-1]


async def test_a_list_of_models_is_not_up(chat: ChatServer) -> None:
    chat.mode = Mode.EMPTY
    ended = await wait(chat.base_url, "--up", "3s", "--json")
    assert ended.code == 2
    assert json.loads(ended.out)["reason"] == "empty"
    assert json.loads(ended.out)["good"] is False


async def test_idle_is_read_from_the_metrics_and_takes_as_long_as_asked(chat: ChatServer) -> None:
    ended = await wait(chat.base_url, "--idle", "2s", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert (found["good"], found["reason"]) == (True, "idle")
    assert found["waited_s"] >= 2


async def test_a_busy_server_is_not_idle_in_time(chat: ChatServer) -> None:
    chat.mode = Mode.FROZEN
    ended = await wait(chat.base_url, "--idle", "2s", "--limit", "3s")
    assert ended.code == 2
    assert "not idle in time: 1 running or waiting" in ended.out


async def test_without_metrics_nobody_can_tell(chat: ChatServer) -> None:
    await chat.stop()
    ended = await wait(chat.base_url, "--idle", "2s")
    assert ended.code == 3
    assert "cannot tell whether it is idle" in ended.out


@pytest.mark.parametrize("arguments", [(), ("--up", "1m", "--idle", "1m"), ("--up", "soon"), ("--idle", "60")])
async def test_wrong_usage_says_what_to_write(arguments: tuple[str, ...]) -> None:
    ended = await wait("http://127.0.0.1:9/v1", *arguments)
    assert ended.code == 64
    assert "--up 30m" in ended.err or "did you mean" in ended.err or "write it like" in ended.err
