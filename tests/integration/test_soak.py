"""A month in a minute: what grows, grows slowly; what leaks would show."""

from __future__ import annotations

import gc
import logging
import random
from datetime import UTC
from pathlib import Path

import psutil
import pytest
import structlog

from tests.support.alerting_path import KEY, configuration, line_seen, observed
from tests.support.clock import ManualClock
from tests.support.receivers import RecordingReceiver
from watchdog.ingest import Ingest
from watchdog.message import finish
from watchdog.model import CheckResult, Verdict
from watchdog.policy import AlertPlan
from watchdog.store import Store

DAYS = 30


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_thirty_days_leave_memory_flat_the_state_small_and_no_file_open(tmp_path: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    clock, sink, chance = ManualClock(), RecordingReceiver("phone"), random.Random(1)
    store = Store.open(tmp_path, clock.wall())
    ingest = Ingest(store, AlertPlan.from_config(configuration()), clock, zone=UTC)
    process, memory, files = psutil.Process(), [], []
    sent = failing = 0
    for round_number in range(DAYS * 720):
        failing = max(0, failing - 1) or (4 if chance.random() < 0.008 else 0)
        verdict = Verdict.FAIL if failing > 1 else Verdict.PASS
        seen = observed(verdict, at=clock.wall(), measurements={"ttft_s": chance.random(), "duration_s": 2.0})
        await ingest.take(KEY, CheckResult((seen,)))
        if round_number % 5 == 0:
            for host in ("head", "worker"):
                found = [observed(Verdict.PASS, f"kernel_log/{host}", at=clock.wall())]
                if chance.random() < 0.01:
                    found.append(line_seen(host, device=f"0000:{chance.randrange(256):02x}:00.0", at=clock.wall()))
                await ingest.take(f"kernel_log/{host}", CheckResult(tuple(found), {"cursor": f"i={round_number:x}"}))
        await clock.advance(120.0)
        await ingest.tick()
        while (delivery := (await store.lease("phone", clock.wall(), 1e9)).delivery) is not None:
            outcome = await sink.send(delivery, finish(delivery, now=clock.wall(), zone=UTC), clock.wall())
            await store.acknowledge(delivery, outcome, clock.wall(), retry_now=False)
            sent += 1
        sink.accepted.clear()
        if round_number % 2160 == 2159:  # every third day
            gc.collect()
            memory.append(process.memory_info().rss)
            files.append(process.num_fds())
    incidents = len(await store.read_in_turn(lambda reader: reader.incidents(0, 4e9)))
    await store.close()
    structlog.reset_defaults()
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    print(f"{incidents} incidents, {sent} messages, state {size / 2**20:.1f} MiB, memory {memory}, files {files}")
    assert incidents > 150
    assert size < 25 * 2**20
    assert memory[-1] <= memory[2] * 1.05
    assert files[-1] <= files[2]
