"""The virtual environment is remade under the running daemon, as brew and apt do when they upgrade Python."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import sysconfig
from pathlib import Path

import pytest

import watchdog
from tests.support.daemon_process import until
from watchdog.demo.rig import Alert, Mode, Rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
NEEDLESS = ("mypy*", "*mypyc*", "playwright*", "hypothesis*", "ruff*", "__pycache__", "pip*", "numpy*", "*.libs")


def made(place: Path) -> Path:
    """A virtual environment with the package in it, not a link to a checkout; returns its Python."""
    packages = Path(sysconfig.get_path("purelib"))
    inside = place / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    shutil.copytree(packages, inside, ignore=shutil.ignore_patterns(*NEEDLESS, "__editable__*", "*.pth"))
    shutil.copytree(Path(watchdog.__file__).parent, inside / "watchdog", dirs_exist_ok=True)
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (place / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    return place / "bin" / "python"


@pytest.mark.parametrize("managed", [True, False], ids=["restarted by the service manager", "on its own"])
async def test_the_first_alert_goes_out_after_the_installation_was_replaced(tmp_path: Path, managed: bool) -> None:
    alerts: list[Alert] = []
    rig = Rig(tmp_path, alerts.append)
    await rig.start()
    config = rig.write_config(probe="{interval: 1s, timeout: 0.8s}", kernel_log="{interval: 2s, timeout: 2s}")
    venv, log = tmp_path / "venv", tmp_path / "daemon.log"
    python = made(venv)
    environment = {name: value for name, value in os.environ.items() if name not in ("INVOCATION_ID", "PYTHONPATH")}
    environment |= {"INVOCATION_ID": "1"} if managed else {}

    async def start() -> asyncio.subprocess.Process:
        with log.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                *(str(python), "-m", "watchdog", "run", "--config", str(config)),
                *("--state-dir", str(tmp_path / "state")),
                cwd=tmp_path, env=environment, stdout=out, stderr=out,
            )  # fmt: skip

    def starts() -> int:
        return log.read_text().count('"event":"started"') + log.read_text().count('"event": "started"')

    process = await start()
    try:
        await until(lambda: starts() == 1, 60, "the start")
        venv.rename(tmp_path / "old")
        shutil.rmtree(tmp_path / "old")
        await asyncio.sleep(1)
        made(venv)
        if managed:
            assert await asyncio.wait_for(process.wait(), 60) == 75
            process = await start()
        await until(lambda: starts() == 2, 60, "the second start")
        assert process.returncode is None
        rig.chat.mode = Mode.ERROR
        await until(lambda: any(alert.title.startswith("FIRING") for alert in alerts), 60, "the first alert")
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await rig.stop()
