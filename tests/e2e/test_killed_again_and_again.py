"""SIGKILL at random moments, with webhooks that misbehave at random: nothing is lost, nothing comes out of order."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.support.crash_verdict import MoodySink, judge

KILLS = int(os.environ.get("CRASH_KILLS", "25"))
STEPS_PER_LIFE = 6
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(60 + 4 * KILLS)
async def test_nothing_is_lost_or_out_of_order_however_often_it_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    async with MoodySink(chance) as first, MoodySink(chance) as second:
        sinks = (first, second)
        command = (str(ROOT / "tests/support/crash_process.py"), str(tmp_path), str(seed), str(STEPS_PER_LIFE * KILLS))
        urls = tuple(sink.url() for sink in sinks)
        for _ in range(KILLS):
            child = await start(*command, *urls)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            if child.returncode is None:
                child.kill()
            await child.wait()
        for sink in sinks:
            sink.calm()
        child = await start(*command, *urls)
        async with asyncio.timeout(120):
            assert await child.wait() == 0
        judge(tmp_path, {f"hook{number}": sink for number, sink in enumerate(sinks)})
    database = sqlite3.connect(tmp_path / "state.db")
    lines = database.execute("SELECT count(*) FROM incidents WHERE key LIKE 'kernel_log/worker/pcie%'").fetchone()[0]
    database.close()
    assert lines > KILLS / 4


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """A life of the child, from the moment on at which it has opened its state."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert child.stdout is not None
    line = b""
    while b"living" not in line:
        line = await child.stdout.readline()
        assert line, "the child ended before it lived"
    drain = asyncio.create_task(child.stdout.read())
    drain.add_done_callback(lambda task: task.exception() if not task.cancelled() else None)
    return child
