"""Three failures in a row, sooner, on evidence: the daemon as a process, at an interval of a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.receivers import WebhookSink
from watchdog.demo.rig import ChatServer, Mode

pytestmark = pytest.mark.slow
SOONER = "{interval: 60s, timeout: 5s, confirm: 1s, watch: 1s, down_for: 6s}"


@asynccontextmanager
async def night(
    tmp_path: Path, probe: str = SOONER, mode: Mode = Mode.OK
) -> AsyncIterator[tuple[ChatServer, WebhookSink, DaemonProcess]]:
    chat = ChatServer()
    await chat.start()
    chat.mode = mode
    async with WebhookSink() as sink:
        path = tmp_path / "config.yaml"
        path.write_text(
            f"servers:\n  - {{name: deepseek, base_url: '{chat.base_url}', probe: {probe}}}\n"
            f"receivers:\n  - {{name: phone, url: '{sink.url()}'}}\n"
        )
        daemon = DaemonProcess(path, tmp_path / "state", tmp_path / "daemon.log")
        await daemon.start()
        try:
            if mode is Mode.OK:
                await until(
                    lambda: daemon.saw("observation", check="generation/deepseek", verdict="pass"), what="a pass"
                )
                await asyncio.sleep(2)  # a good look
            yield chat, sink, daemon
        finally:
            await daemon.kill()
            await chat.stop()


async def test_a_crash_pages_once_it_has_lasted_and_not_before(tmp_path: Path) -> None:
    async with night(tmp_path) as (chat, sink, daemon):
        began = time.monotonic()
        await chat.stop()
        await until(lambda: sink.titles, what="the page")
        took_s = time.monotonic() - began
        assert sink.titles[0].startswith("FIRING deepseek")
        assert 6 <= took_s <= 12
        assert daemon.saw("suspicion", suspicion="refused")
        assert daemon.saw("next_probe", why="confirming", reason="refused")
        assert daemon.saw("next_probe", why="must_last")


async def test_a_restart_is_silence(tmp_path: Path) -> None:
    async with night(tmp_path) as (chat, sink, daemon):
        await chat.stop()
        await until(lambda: daemon.saw("observation", check="generation/deepseek", reason="refused"), what="a miss")
        await asyncio.sleep(2)
        await chat.start()
        await asyncio.sleep(8)
        assert sink.titles == []
        assert daemon.saw("observation", check="generation/deepseek", verdict="pass")


async def test_the_engines_own_error_pages_after_three_quick_answers(tmp_path: Path) -> None:
    began = time.monotonic()
    async with night(tmp_path, mode=Mode.ERROR) as (_chat, sink, daemon):
        await until(lambda: sink.titles, what="the page")
        assert daemon.saw("observation", check="generation/deepseek", reason="engine_dead")
        assert daemon.saw("next_probe", why="own_words", reason="engine_dead")
        assert time.monotonic() - began <= 40, "a start and three probes a second apart, not two intervals of a minute"


async def test_switched_off_it_keeps_the_rhythm(tmp_path: Path) -> None:
    quiet = "{interval: 60s, timeout: 5s, confirm: 0s, watch: 0s}"
    async with night(tmp_path, quiet) as (chat, sink, daemon):
        await chat.stop()
        await asyncio.sleep(6)
        assert sink.titles == []
        assert not daemon.saw("suspicion")
        assert not daemon.saw("next_probe")
