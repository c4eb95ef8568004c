"""The daemon as a process that is paused, as a virtual machine is: nothing false is said, and it goes on at once."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.daemon_process import DaemonProcess, until
from watchdog.demo.rig import Alert, Mode, Rig
from watchdog.store import Reader

pytestmark = pytest.mark.slow
PAUSE_S = 17.0
"""Longer than what counts as standing still, and than every deadline below."""


async def test_a_paused_daemon_counts_no_strike_states_the_gap_and_its_heart_beats_on(tmp_path: Path) -> None:
    alerts: list[Alert] = []
    beats: list[str] = []

    async def hear(request: web.Request) -> web.Response:
        beats.append(request.path)
        return web.Response()

    app = web.Application()
    app.router.add_get("/{tail:.*}", hear)
    ear = web.AppRunner(app, shutdown_timeout=0.1)
    await ear.setup()
    await web.TCPSite(ear, "127.0.0.1", 0).start()
    rig = Rig(tmp_path, alerts.append)
    await rig.start()
    rig.chat.mode = Mode.OK
    config = rig.write_config(probe="{interval: 2s, timeout: 1s}", kernel_log="{interval: 5s, timeout: 4s}")
    port = ear.addresses[0][1]
    text = config.read_text() + f"heartbeat: {{url: 'http://127.0.0.1:{port}/ping', interval: 2s, timeout: 1s}}\n"
    config.write_text(text.replace("min_severity: page", "min_severity: info"))
    daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log")
    await daemon.start()
    try:
        await until(lambda: beats.count("/ping") >= 2, what="two beats of the heart")
        assert daemon.process is not None
        stopped_at = time.time()
        daemon.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(PAUSE_S)
        daemon.process.send_signal(signal.SIGCONT)
        went_on_at = time.time()
        beaten = len(beats)
        await until(lambda: daemon.saw("gap", kind="stalled"), what="the gap")
        await until(lambda: len(beats) > beaten, what="a beat after the pause")
        await asyncio.sleep(4.0)
        with Reader.open(daemon.state_dir) as reader:
            now = reader.snapshot(time.time())
        assert {view.key: view.state.fails for view in now.keys if not view.key.startswith("self/")} == {
            view.key: 0 for view in now.keys if not view.key.startswith("self/")
        }
        (window,) = [window for window in now.blind if window.key == ""]
        assert abs(window.began_at - stopped_at) < 2.0
        assert window.ended_at is not None
        assert abs(window.ended_at - went_on_at) < 2.0
        titles = [alert.title for alert in alerts]
        assert [title for title in titles if "was stalled" in title]
        assert [title for title in titles if "deepseek" in title or "head" in title or "worker" in title] == []
        assert set(beats) == {"/ping"}
    finally:
        await daemon.kill()
        await rig.stop()
        await ear.cleanup()
