"""The web part of the real daemon comes, changes and goes with its configuration, and never disturbs the watching."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.system_programs import free_port
from watchdog.demo.rig import Rig

pytestmark = pytest.mark.slow


async def status_of(url: str, **headers: str) -> int:
    try:
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as reply:
            return reply.status
    except aiohttp.ClientConnectionError:
        return 0


async def becomes(wanted: int, url: str, **headers: str) -> None:
    async with asyncio.timeout(20):
        while await status_of(url, **headers) != wanted:
            await asyncio.sleep(0.1)


async def test_the_page_comes_gets_a_token_and_goes_with_a_reload(tmp_path: Path) -> None:
    rig = Rig(tmp_path, lambda _alert: None)
    await rig.start()
    config = rig.write_config(probe="{interval: 1s, timeout: 0.8s}", kernel_log="{interval: 2s, timeout: 2s}")
    plain = config.read_text()
    daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log")
    await daemon.start()
    assert daemon.process is not None
    port, token = free_port(), "0123456789abcdef"
    url = f"http://127.0.0.1:{port}/"
    try:
        await until(lambda: daemon.saw("observation", check="generation/deepseek"), what="a probe")
        assert await status_of(url) == 0
        config.write_text(plain + f"web: {{listen: '127.0.0.1:{port}'}}\n")
        daemon.process.send_signal(signal.SIGHUP)
        await becomes(200, url)
        await becomes(200, url + "healthz")
        config.write_text(plain + f"web: {{listen: '127.0.0.1:{port}', token: {token}}}\n")
        daemon.process.send_signal(signal.SIGHUP)
        await becomes(401, url)
        assert await status_of(url, Authorization=f"Bearer {token}") == 200
        config.write_text(plain)
        daemon.process.send_signal(signal.SIGHUP)
        await becomes(0, url)
        assert token not in (tmp_path / "daemon.log").read_text()
        assert json.loads((tmp_path / "daemon.log").read_text().splitlines()[-1])["level"] == "info"
    finally:
        assert await daemon.kill(signal.SIGTERM) == 0
        await rig.stop()
