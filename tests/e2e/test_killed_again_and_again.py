"""SIGKILL at random moments, with webhooks that misbehave at random: nothing is lost, nothing comes out of order."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.receivers import Mood, WebhookSink

KILLS = int(os.environ.get("CRASH_KILLS", "25"))
STEPS_PER_LIFE = 6
ROOT = Path(__file__).parents[2]
MOODS = [Mood.WELL] * 13 + [Mood.ERROR] * 3 + [Mood.REDIRECT, Mood.SLOW, Mood.TWICE, Mood.HANG]


class MoodySink(WebhookSink):
    """Answers at random; remembers how often it took a message but did not say so."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.slow_s = 0.5
        self.untold = 0

    async def _answer(self, request):  # type: ignore[no-untyped-def]  # the signature of the parent
        if not self.moods and self.mood is not Mood.WELL:
            self.moods = [self.chance.choice(MOODS)]
            self.untold += self.moods[0] is Mood.TWICE
        return await super()._answer(request)


def parsed(sink: WebhookSink) -> list[tuple[str, str, str, int]]:
    """(kind, incident, title, attempt) of what arrived, in order."""
    found = []
    for body in sink.arrived:
        words = body["message"].rsplit("\n", 1)[1].split()
        kind = body["title"].split()[0]
        found.append(("STILL FIRING" if kind == "STILL" else kind, words[1], body["title"], int(words[4])))
    return found


@pytest.mark.slow
@pytest.mark.timeout(60 + 4 * KILLS)
async def test_nothing_is_lost_or_out_of_order_however_often_it_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    async with MoodySink(chance) as first, MoodySink(chance) as second:
        sinks = (first, second)
        for sink in sinks:
            sink.mood = Mood.ERROR  # anything but WELL: moods are drawn
        command = (str(ROOT / "tests/support/crash_child.py"), str(tmp_path), str(seed), str(STEPS_PER_LIFE * KILLS))
        urls = tuple(sink.url() for sink in sinks)
        for _ in range(KILLS):
            child = await start(*command, *urls)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            if child.returncode is None:
                child.kill()
            await child.wait()
        for sink in sinks:
            sink.mood = Mood.WELL
            sink.moods.clear()
        child = await start(*command, *urls)
        async with asyncio.timeout(120):
            assert await child.wait() == 0
        check(tmp_path, sinks)


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


def check(state_dir: Path, sinks: tuple[MoodySink, ...]) -> None:
    """What every receiver got, against what the store says it was owed."""
    database = sqlite3.connect(state_dir / "state.db")
    rows = database.execute("SELECT receiver, incident, kind, state FROM outbox").fetchall()
    lines = database.execute("SELECT count(*) FROM incidents WHERE key LIKE 'kernel_log/worker/pcie%'").fetchone()[0]
    database.close()
    assert {state for _receiver, _incident, _kind, state in rows} <= {"delivered", "dropped"}
    assert lines > KILLS / 4
    copies = total = 0
    for number, sink in enumerate(sinks):
        arrived = parsed(sink)
        seen: dict[tuple[str, str], int] = {}
        begun: set[str] = set()
        over: set[str] = set()
        for kind, incident, title, attempt in arrived:
            if kind in ("FIRING", "NEW"):
                begun.add(incident)
            else:
                assert incident in begun, f"{title} came before its trigger"
            if kind in ("RESOLVED", "QUIET"):
                over.add(incident)
            assert attempt > seen.get((incident, title), 0), f"a copy of {title} without a higher attempt"
            seen[incident, title] = attempt
        mine = [row for row in rows if row[0] == f"hook{number}"]
        assert begun == {incident for _r, incident, kind, _s in mine if kind in ("FIRING", "NEW")}
        assert over == begun, "everything is over in the end, and everybody who was told knows"
        copies += len(arrived) - len(seen)
        total += len(seen)
    untold = sum(sink.untold for sink in sinks)
    counts = Counter(kind for sink in sinks for kind, *_rest in parsed(sink))
    print(
        f"{total} messages, {copies} copies, of them {untold} because the webhook hid that it had taken one; {counts}"
    )
    assert max(0, copies - untold) / total <= 0.02 + 2 / total
