"""The story of one night, told in under two minutes with the real daemon as a subprocess.

All well → the server freezes (its model list still answers 200) → 1/3, 2/3 → FIRING → a fatal PCIe error on a host →
page → the server recovers → RESOLVED. Every wait has a limit; a step that does not happen ends the demo with 1.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import aiohttp

from watchdog.demo.hosts import FATAL_AER
from watchdog.demo.rig import SERVER, SPARE, Alert, Mode, Rig

PROBE = "{interval: 3s, timeout: 2s}"
SPARE_PROBE = "{interval: 60s, timeout: 5s, confirm: 1s, watch: 1s, down_for: 6s}"
KERNEL_LOG = "{interval: 20s, timeout: 10s}"
STEP_LIMIT_S = 40.0
GENERATION = f"generation/{SERVER}"


class StoryError(Exception):
    """A step of the story did not happen in time; the text says which."""


class Story:
    """Runs the steps and tells them through `say`; `look` returns the daemon's `status --json` object."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self._say = say
        self._directory = directory
        self._alerts: list[Alert] = []
        self._arrived = asyncio.Event()
        self._rig = Rig(directory, self._on_alert)
        self._daemon: asyncio.subprocess.Process | None = None

    def _on_alert(self, alert: Alert) -> None:
        self._alerts.append(alert)
        indented = "\n".join(f"        │ {line}" for line in [alert.title, "", *alert.message.splitlines()])
        self._say(f"     ▶ the phone receives:\n{indented}\n")
        self._arrived.set()

    async def tell(self) -> None:
        """Tell it all; raises StoryError when a step does not happen."""
        await self._rig.start()
        config = self._rig.write_config(probe=PROBE, kernel_log=KERNEL_LOG, spare=SPARE_PROBE)
        log = (self._directory / "daemon.log").open("wb")
        self._daemon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "watchdog", "run", "--config", str(config)),
            *("--state-dir", str(self._directory / "state")),
            stdout=log,
            stderr=log,
        )
        try:
            await self._healthy()
            await self._freeze()
            await self._kernel_speaks()
            await self._recover()
            await self._crash()
        except StoryError as error:
            log.flush()
            tail = (self._directory / "daemon.log").read_text(errors="replace").splitlines()[-20:]
            raise StoryError("\n".join([str(error), "the daemon's last log lines:", *tail])) from None
        finally:
            await self._end()
            log.close()

    async def _healthy(self) -> None:
        self._say(
            "1. A chat server and two machines are up; the real daemon watches them (minutes shortened to seconds)."
        )
        seen = await self._check(lambda check: check["phase"] == "ok" and check["last_good_at"], GENERATION)
        self._say(f"     {GENERATION}: {seen['summary']}")
        for host in self._rig.machines:
            seen = await self._check(
                lambda check: check["phase"] == "ok" and check["last_good_at"], f"kernel_log/{host}"
            )
            self._say(f"     kernel_log/{host}: {seen['summary']}")

    async def _freeze(self) -> None:
        self._rig.chat.mode = Mode.FROZEN
        async with aiohttp.ClientSession() as session, session.get(f"{self._rig.chat.base_url}/models") as reply:
            status = reply.status
        self._say(f"\n2. The server freezes. GET /v1/models still answers {status}: an ordinary monitor sees nothing.")
        for strikes in (1, 2):
            seen = await self._check(lambda check, strikes=strikes: check["fails"] >= strikes, GENERATION)  # type: ignore[misc]
            self._say(f"     pending {seen['fails']}/{seen['failures']}: {seen['summary']}")
        await self._alert("FIRING", SERVER)

    async def _kernel_speaks(self) -> None:
        self._say(
            "3. The worker's kernel logs a fatal PCIe error. On real machines that came minutes before a hard lock."
        )
        self._rig.machines["worker"].log(*FATAL_AER)
        self._say(f"     worker kernel: {FATAL_AER[0]}")
        await self._alert("NEW", "worker")

    async def _recover(self) -> None:
        self._rig.chat.mode = Mode.OK
        self._say(
            "4. Someone restarts the server by hand (the watchdog never acts). Two good probes close the incident."
        )
        await self._alert("RESOLVED", SERVER)

    async def _crash(self) -> None:
        self._say(
            "5. Another server, probed every minute only, ends. A look at its port notices, and the refused port is "
            "confirmed at once:\n     a page after 6 s (100 s at shipped settings, where a restart would be over)."
        )
        await self._rig.spare.stop()
        seen = await self._check(lambda check: check["fails"], f"generation/{SPARE}")
        coming = cast("dict[str, object] | None", seen["next_probe"])
        soon = f"; next probe: {coming['words']}" if coming else ""
        self._say(f"     pending {seen['fails']}/{seen['failures']}: {seen['summary']}{soon}")
        await self._alert("FIRING", SPARE)
        self._say(
            "That was all of it: one page per trouble, one resolve, nothing lost. Next: `inference-watchdog validate`."
        )

    async def _check(self, good: Callable[[dict[str, object]], object], key: str) -> dict[str, object]:
        """The status row of `key` once `good` holds for it."""
        try:
            async with asyncio.timeout(STEP_LIMIT_S):
                while True:
                    for row in await self._status():
                        if row["check"] == key and good(row):
                            return row
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise StoryError(f"{key} did not get where the story needs it within {STEP_LIMIT_S:.0f} s") from None

    async def _status(self) -> list[dict[str, object]]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "watchdog", "status", "--json", "--state-dir", str(self._directory / "state")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate()
        rows: list[dict[str, object]] = json.loads(output)["checks"] if process.returncode != 64 and output else []
        return rows

    async def _alert(self, kind: str, about: str) -> None:
        """Wait until the phone has received an alert of `kind` about `about`."""
        try:
            async with asyncio.timeout(STEP_LIMIT_S):
                while not any(alert.title.startswith(kind) and about in alert.title for alert in self._alerts):
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise StoryError(f"no {kind} alert about {about} within {STEP_LIMIT_S:.0f} s") from None

    async def _end(self) -> None:
        if self._daemon is not None and self._daemon.returncode is None:
            self._daemon.terminate()
            await asyncio.wait_for(self._daemon.wait(), 10)
        await self._rig.stop()


async def tell(say: Callable[[str], None]) -> None:
    """Tell the story in a temporary directory; raises StoryError when a step does not happen."""
    with tempfile.TemporaryDirectory(prefix="inference-watchdog-demo-") as directory:
        await Story(Path(directory), say).tell()
