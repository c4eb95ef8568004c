"""The daemon as a process, on machines with GPUs: the page says what they did, and a hanging driver delays nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.daemon_process import DaemonProcess, until
from watchdog.demo.hosts import FATAL_AER
from watchdog.demo.rig import Alert, Mode, Rig

pytestmark = pytest.mark.slow
HUNG = "echo '0, NVIDIA H200, 100, 127.2, 39, 1833, 143771, 0'; echo '1, NVIDIA H200, 0, 124.9, 44, 1833, 143771, 0'"


@asynccontextmanager
async def watched(root: Path, nvidia_smi: str) -> AsyncIterator[tuple[Rig, DaemonProcess, list[Alert]]]:
    """The rig, whose machines have this `nvidia-smi`, and a daemon that watches it."""
    alerts: list[Alert] = []
    rig = Rig(root, alerts.append)
    for name in rig.machines:
        program = root / name / "bin/nvidia-smi"
        program.write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        program.chmod(0o755)
    await rig.start()
    config = rig.write_config(probe="{interval: 4s, timeout: 1s}", kernel_log="{interval: 30s, timeout: 10s}")
    daemon = DaemonProcess(config, root / "state", root / "daemon.log")
    await daemon.start()
    try:
        for key in ("generation/deepseek", "kernel_log/head", "kernel_log/worker"):
            await until(lambda key=key: daemon.saw("observation", check=key, verdict="pass"), what=key)  # type: ignore[misc]
        yield rig, daemon, alerts
    finally:
        await daemon.kill()
        await rig.stop()


async def test_the_page_says_what_the_gpus_did_while_no_text_came(tmp_path: Path) -> None:
    async with watched(tmp_path, HUNG) as (rig, daemon, alerts):
        rig.chat.mode = Mode.FROZEN
        await until(lambda: alerts, 40, "the page")
        assert alerts[0].title.startswith("FIRING deepseek: no text for ")
        assert alerts[0].title.endswith(": one rank waits for the other")
        assert "GPU 0 100 % at 127 W, memory 0 %, while head's GPU 1 0 % at 125 W" in alerts[0].message
        assert "vitals: " in alerts[0].message
        assert not daemon.saw("check_bug")


async def test_a_hanging_nvidia_smi_delays_neither_the_page_nor_a_kernel_line(tmp_path: Path) -> None:
    async with watched(tmp_path, "trap '' TERM\nwhile :; do sleep 1; done") as (rig, daemon, alerts):
        rig.chat.mode = Mode.FROZEN
        began = time.monotonic()
        await until(lambda: alerts, 40, "the page")
        # Three probes start 4 s apart, the first within 4 s, the last takes 1 s: 13 s, and what a busy machine adds.
        assert time.monotonic() - began < 18
        began = time.monotonic()
        rig.machines["worker"].log(*FATAL_AER)
        await until(lambda: any(alert.title.startswith("NEW worker") for alert in alerts), 20, "the kernel line")
        assert time.monotonic() - began < 5
        assert not daemon.saw("check_bug")
