"""A small watchdog that is killed again and again: real store, ingest, outbox and apprise, with a scripted story.

Run as `python crash_process.py STATE_DIR SEED STEPS URL…`. It remembers its place in the story in the same transaction
as the consequences of each step, as a check remembers its cursor, so every life goes on where the last one was cut off.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from contextlib import suppress
from datetime import UTC
from pathlib import Path

from tests.support.alerting_path import configuration, line_seen, observed, receiver
from watchdog.clock import SystemClock
from watchdog.config import Secret
from watchdog.ingest import Ingest
from watchdog.model import CheckResult, Observation, Verdict
from watchdog.notify import build
from watchdog.outbox import Outbox
from watchdog.policy import AlertPlan
from watchdog.store import Store

PLACE = "story"
KEYS = ("generation/deepseek", "kernel_log/head", "kernel_log/worker", "vitals/head")


def story(seed: int, steps: int) -> list[tuple[Observation, ...]]:
    """What is seen, step by step: outages that begin and end, and kernel lines."""
    chance = random.Random(seed)
    down = dict.fromkeys(KEYS, False)
    told = []
    for step in range(steps):
        seen = []
        for key in KEYS:
            if chance.random() < 0.2:
                down[key] = not down[key]
            seen.append(observed(Verdict.FAIL if down[key] else Verdict.PASS, key, reason="no_reply", at=time.time()))
        if chance.random() < 0.2:
            seen.append(line_seen(device=f"0000:{step:02x}:00.0", at=time.time()))
        told.append(tuple(seen))
    told += [tuple(observed(Verdict.PASS, key, at=time.time()) for key in KEYS)] * 12
    return told


async def main() -> None:
    """Live until killed, or until the story is told and everything owed is delivered."""
    state_dir, seed, steps, *urls = sys.argv[1:]
    config = configuration(
        *(receiver(f"hook{number}", url=Secret(url), timeout_s=0.7) for number, url in enumerate(urls)),
        occurrence_quiet_s=1.0,
    )
    clock = SystemClock()
    store = Store.open(Path(state_dir), clock.wall())
    ingest = Ingest(store, AlertPlan.from_config(config), clock, zone=UTC)
    outbox = Outbox(store, ingest, {row.name: build(row) for row in config.receivers}, clock, zone=UTC)
    await ingest.start()
    running = asyncio.create_task(outbox.run())
    told = story(int(seed), int(steps))
    place = store.memory(PLACE) or 0
    print("living", flush=True)
    while place < len(told):
        place += 1
        await ingest.take(PLACE, CheckResult(told[place - 1], memory=place))
        await ingest.tick()
        await asyncio.sleep(0.02)
    print("told", flush=True)
    while ingest.open_incidents or any(store.depth(row.name) for row in config.receivers):
        await ingest.tick()
        await asyncio.sleep(0.1)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
