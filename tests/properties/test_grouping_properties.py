"""Notifications that are gathered: any times, any kinds, any size of group."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from tests.support.alerting_path import line_seen
from watchdog.message import BODY_LIMIT, TITLE_LIMIT, finish_group
from watchdog.model import Cause, Delivery, Incident, Nature, NotificationKind, Severity
from watchdog.policy import GATHER_S, Grouping, Waiting, held_until, sent_together, share_key, topic_of

NOW = 1_795_000_000.0
KEYS = (
    "generation/a",
    "generation/b",
    "kernel_log/a",
    "kernel_log/a/xid/0",
    "kernel_log/a/xid/1",
    "kernel_log/b/xid/0",
)
ARRIVALS = st.lists(
    st.tuples(st.floats(0, 60), st.sampled_from(KEYS), st.sampled_from(Severity), st.sampled_from(NotificationKind)),
    min_size=1,
    max_size=40,
)


def waiting(row: int, at: float, key: str, severity: Severity, kind: NotificationKind) -> Waiting:
    return Waiting(row, str(row), kind, NOW + at, 0, NOW + at, severity, topic_of(key))


@given(ARRIVALS)
def test_nothing_waits_longer_than_the_gathering_and_each_leaves_once(
    arrivals: list[tuple[float, str, Severity, NotificationKind]],
) -> None:
    rows = [waiting(number, *arrival) for number, arrival in enumerate(sorted(arrivals, key=lambda one: one[0]))]
    sent_at: dict[object, float] = {}
    left: dict[int, float] = {}
    times = sorted({row.created_at for row in rows} | {row.created_at + GATHER_S for row in rows})
    for now in times:
        while True:
            there = [row for row in rows if row.row not in left and row.created_at <= now]
            ready = [
                row
                for row in there
                if held_until(row, sent_at.get(share_key(row, Grouping.LISTED)), Grouping.LISTED, now) is None
            ]
            if not ready:
                break
            together = sent_together(ready[0], ready, Grouping.LISTED)
            assert len({(row.topic, row.severity, row.kind) for row in together}) == 1
            sent_at[share_key(ready[0], Grouping.LISTED)] = now
            left |= {row.row: now for row in together}
    assert left.keys() == {row.row for row in rows}
    for row in rows:
        assert left[row.row] - row.created_at <= GATHER_S + 0.001
        alike = [one for one in rows if share_key(one, Grouping.LISTED) == share_key(row, Grouping.LISTED)]
        if len(alike) == 1:
            assert left[row.row] == row.created_at, "what is alone of its kind waits for nothing"


@given(st.floats(-1e5, 1e5), st.floats(-1e5, 1e5), st.sampled_from(Grouping))
def test_a_clock_that_is_set_holds_nothing_longer(created: float, sent: float, grouping: Grouping) -> None:
    until = held_until(waiting(1, created, KEYS[0], Severity.PAGE, NotificationKind.FIRING), NOW + sent, grouping, NOW)
    assert until is None or NOW < until <= NOW + GATHER_S


@given(
    st.lists(st.tuples(st.text(max_size=90), st.text(max_size=60)), min_size=2, max_size=500),
    st.sampled_from(NotificationKind),
    st.booleans(),
)
def test_any_group_gives_a_text_within_its_limits(
    members: list[tuple[str, str]], kind: NotificationKind, occurrence: bool
) -> None:
    seen = line_seen()
    rows = tuple(
        Delivery(
            row=number,
            receiver="phone",
            incident_id=f"6f39e{number:03d}",
            kind=kind,
            severity=Severity.PAGE,
            title=f"{kind} {title}",
            body="",
            created_at=NOW,
            attempt=1,
            group_id="6f39e000-all",
            incident=Incident(
                id=f"6f39e{number:03d}",
                key=seen.key if occurrence else "generation/a",
                nature=Nature.OCCURRENCE if occurrence else Nature.CONDITION,
                cause=Cause.STRIKES,
                severity=Severity.PAGE,
                opened_severity=Severity.PAGE,
                reason="no_reply",
                summary=title,
                since=NOW,
                opened_at=NOW,
                last_at=NOW,
                labels={"host": name, "kind": name, "device": title},
                subject=name,
            ),
        )
        for number, (title, name) in enumerate(members)
    )
    for now in (NOW, NOW + 4000):
        text = finish_group(replace(rows[0], members=rows), now=now, zone=UTC)
        assert len(text.title) <= TITLE_LIMIT
        assert len(text.body) <= BODY_LIMIT
        assert text.body.endswith("incidents 6f39e000-all · attempt 1")
        assert all(letter.isprintable() or letter == "\n" for letter in text.title + text.body)
