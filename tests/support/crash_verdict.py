"""Webhooks that misbehave at random, and the judgement over what they got: nothing lost, nothing out of order."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from aiohttp import web

from tests.support.receivers import Mood, WebhookSink

MOODS = [Mood.WELL] * 13 + [Mood.ERROR] * 3 + [Mood.REDIRECT, Mood.SLOW, Mood.TWICE, Mood.HANG]
COPIES_BUDGET = 0.02
"""Of all notifications: copies that only a kill between the webhook's answer and our note of it explains."""


class MoodySink(WebhookSink):
    """Answers at random until it is `calmed`."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(Mood.ERROR)  # anything but WELL: moods are drawn
        self.chance = chance
        self.slow_s = 0.5

    def calm(self) -> None:
        """Answer well from now on."""
        self.mood = Mood.WELL
        self.moods.clear()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not self.moods and self.mood is not Mood.WELL:
            self.moods = [self.chance.choice(MOODS)]
        return await super()._answer(request)


def parsed(sink: WebhookSink) -> list[tuple[str, str, str, int]]:
    """(kind, incident or group, title, attempt) of what arrived, in order; the title of a group with its list."""
    found = []
    for body in sink.arrived:
        *lines, last = body["message"].split("\n")
        words, kind, title = last.split(), body["title"].split()[0], body["title"]
        if words[0] == "incidents":
            title = "\n".join([title, *(line for line in lines if line.startswith("- "))])
        found.append(("STILL FIRING" if kind == "STILL" else kind, words[1], title, int(words[4])))
    return found


def judge(state_dir: Path, sinks: dict[str, MoodySink]) -> Counter[str]:
    """What every receiver (by name) got, against what the store says it was owed; returns how many of which kind."""
    with closing(sqlite3.connect(state_dir / "state.db")) as database:
        rows = database.execute("SELECT receiver, incident, kind, state FROM outbox").fetchall()
        groups: dict[tuple[str, str, str], set[str]] = {}
        for *group, incident in database.execute("SELECT receiver, kind, group_id, incident FROM outbox"):
            groups.setdefault((group[0], group[1], group[2]), set()).add(incident)
    assert {state for _receiver, _incident, _kind, state in rows} <= {"delivered", "dropped"}
    copies = 0
    counts: Counter[str] = Counter()
    for name, sink in sinks.items():
        arrived = parsed(sink)
        seen: dict[tuple[str, str], int] = {}
        begun: set[str] = set()
        over: set[str] = set()
        for kind, incident, title, attempt in arrived:
            members = groups.get((name, kind, incident), {incident})
            counts[kind] += len(members)
            if kind in ("FIRING", "NEW"):
                begun |= members
            else:
                assert members <= begun, f"{title} came before its trigger"
            if kind in ("RESOLVED", "QUIET"):
                over |= members
            assert attempt > seen.get((incident, title), 0), f"a copy of {title} without a higher attempt"
            seen[incident, title] = attempt
        mine = [row for row in rows if row[0] == name]
        assert begun == {incident for _r, incident, kind, _s in mine if kind in ("FIRING", "NEW")}
        assert over == begun, "everything is over in the end, and everybody who was told knows"
        copies += len(arrived) - len(seen)
    total = sum(counts.values())
    untold = sum(sink.untold for sink in sinks.values())
    share = max(0, copies - untold) / max(1, total)
    print(
        f"{total} notifications, {copies} copies, {untold} of them as the webhook's answer never reached the sender: "
        f"{share:.1%} unexplained (budget {COPIES_BUDGET:.0%}); {dict(counts)}"
    )
    assert share <= COPIES_BUDGET + 2 / max(1, total)
    return counts
