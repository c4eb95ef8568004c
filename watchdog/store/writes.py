"""What is written: by one step of the watchdog, in one transaction (facts, states, incidents, outbox rows, a check's
memory), and by a command beside it (`Requests`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from watchdog.errors import StoreError
from watchdog.model import Incident, Json, Notification, Observation, Silence, Text, TrackState, Verdict
from watchdog.store import files
from watchdog.store.codec import dump, incident_to_text, track_to_text
from watchdog.text import clean_line

VERDICTS = (Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN)
"""Verdicts by the number they are stored under."""
SUMMARY_LIMIT = 160
OBSERVATION_LIMIT = 4_000_000
"""History is bounded by rows too: the oldest give way. 400 servers every 2 minutes come to 2.5 million in 30 days."""
THIN_BEYOND_ROWS = 500_000
"""With more observations than these, a pass that is a day old stands for up to `_STANDS_FOR` of its kind."""
_THIN_AFTER_S = 86400.0
_STANDS_FOR = 20
_STRETCH = 20_000
_THINNED = "self/thinned"
_CHUNK = 5000


@dataclass(frozen=True, slots=True)
class Queued:
    """One message for the outbox, as it was written at `created_at` (Unix seconds)."""

    notification: Notification
    text: Text
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Everything one step wants written. A track of None forgets its key; `memory` is (check key, value).

    What is not `hurried` may be written a second later, if it does not matter either: a crash may then lose it.
    `forgettable`: the memory only holds what can be found out again.
    """

    observations: tuple[Observation, ...] = ()
    tracks: Mapping[str, TrackState | None] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    messages: tuple[Queued, ...] = ()
    memory: tuple[str, Json] | None = None
    forgettable: bool = False
    hurried: bool = True

    @property
    def matters(self) -> bool:
        """Whether losing it in a power cut would lose an alert or read a line twice."""
        return bool(self.messages or self.incidents or (self.memory is not None and not self.forgettable))

    @property
    def can_wait(self) -> bool:
        """Whether it may be written with whatever is written next."""
        return not self.hurried and not self.matters


def apply(connection: sqlite3.Connection, commit: Commit) -> dict[str, int]:
    """Write `commit`; returns the number of undelivered rows of every receiver that got a message."""
    for observation in commit.observations:
        _observe(connection, observation)
    for key, state in commit.tracks.items():
        if state is None:
            connection.execute("DELETE FROM tracks WHERE key = ?", (key,))
        else:
            connection.execute("INSERT OR REPLACE INTO tracks VALUES (?, ?)", (key, track_to_text(state)))
    for incident in commit.incidents:
        put_incident(connection, incident)
    for message in commit.messages:
        enqueue(connection, message)
    if commit.memory is not None:
        check_key, value = commit.memory
        connection.execute("INSERT OR REPLACE INTO memory VALUES (?, ?)", (check_key, dump(value)))
    return depths(connection, {message.notification.receiver for message in commit.messages})


def _observe(connection: sqlite3.Connection, observation: Observation) -> None:
    facts = (
        round(observation.at, 3),
        VERDICTS.index(observation.verdict),
        observation.reason,
        round(observation.duration_s, 4),
        observation.statement[:SUMMARY_LIMIT],
        dump({name: round(value, 4) for name, value in observation.measurements.items()})
        if observation.measurements
        else None,
    )
    sql = "INSERT INTO observations SELECT NULL, id, ?, ?, ?, ?, ?, ?, 1 FROM keys WHERE key = ?"
    if connection.execute(sql, (*facts, observation.key)).rowcount == 0:
        connection.execute("INSERT INTO keys (key) VALUES (?)", (observation.key,))
        connection.execute(sql, (*facts, observation.key))


def put_incident(connection: sqlite3.Connection, incident: Incident) -> None:
    """Write an incident over what was stored under its id."""
    connection.execute(
        "INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            incident.id,
            incident.key,
            incident.status.value,
            incident.severity.value,
            incident.opened_at,
            incident.closed_at,
            incident_to_text(incident),
        ),
    )


def enqueue(connection: sqlite3.Connection, message: Queued) -> int:
    """Put one message at the end of its receiver's queue; returns its row number."""
    note, at = message.notification, message.created_at
    cursor = connection.execute(
        "INSERT INTO outbox (receiver, incident, kind, severity, title, body, created_at, due_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            note.receiver,
            note.incident_id,
            note.kind.value,
            note.severity.value,
            message.text.title,
            message.text.body,
            at,
            at,
        ),
    )
    return int(cursor.lastrowid or 0)


def depths(connection: sqlite3.Connection, receivers: set[str] | None = None) -> dict[str, int]:
    """Undelivered rows per receiver: of `receivers`, or of every receiver that has any."""
    if receivers is None:
        rows = connection.execute(
            "SELECT receiver, count(*) FROM outbox WHERE state IN ('queued', 'leased') GROUP BY receiver"
        )
        return {str(name): int(number) for name, number in rows}
    sql = "SELECT count(*) FROM outbox WHERE receiver = ? AND state IN ('queued', 'leased')"
    return {name: int(connection.execute(sql, (name,)).fetchone()[0]) for name in receivers}


def tidy(connection: sqlite3.Connection, now: float, keep_observations_s: float, keep_incidents_s: float) -> bool:
    """Delete what is older than it needs to be, a bounded number of rows a call; True if there is more to do.

    Open incidents, undelivered rows and the rows that say what the receivers of an incident were told always stay, as
    long as it is open or its end is on its way: a receiver is told the end of what it was told.
    """
    count = connection.execute("SELECT count(*) FROM observations").fetchone()[0]
    thinned = count > THIN_BEYOND_ROWS and _thin(connection, now - _THIN_AFTER_S)
    aged = _tidy_observations(connection, now - keep_observations_s, 0 if thinned else count - OBSERVATION_LIMIT)
    done = connection.execute(
        "DELETE FROM outbox WHERE row IN (SELECT row FROM outbox WHERE state NOT IN ('queued', 'leased')"
        " AND done_at < ? AND incident NOT IN (SELECT id FROM incidents WHERE status = 'firing')"
        " AND incident NOT IN (SELECT incident FROM outbox WHERE state IN ('queued', 'leased')) LIMIT ?)",
        (now - keep_observations_s, _CHUNK),
    ).rowcount
    closed = connection.execute(
        "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE status <> 'firing' AND closed_at < ?"
        " AND id NOT IN (SELECT incident FROM outbox) LIMIT ?)",
        (now - keep_incidents_s, _CHUNK),
    ).rowcount
    connection.execute("DELETE FROM silences WHERE ends_at < ?", (now - keep_incidents_s,))
    connection.execute(
        "DELETE FROM acknowledgements WHERE incident NOT IN (SELECT id FROM incidents WHERE status = 'firing')"
    )
    return thinned or max(aged, done, closed) >= _CHUNK


def _thin(connection: sqlite3.Connection, until_at: float) -> bool:
    """Thin the next stretch of observations before `until_at`; False if there is none.

    Of the passes of one key one in twenty is kept, and counts for those that go: shares and percentiles stay what they
    were. What failed, or passed with a remark, is kept.
    """
    row = connection.execute("SELECT value FROM memory WHERE check_key = ?", (_THINNED,)).fetchone()
    stretch = connection.execute(
        "SELECT id, key, verdict = 0 AND reason = 'ok', at FROM observations WHERE id > ? ORDER BY id LIMIT ?",
        (0 if row is None else int(row[0]), _STRETCH),
    ).fetchall()
    if len(stretch) < _STRETCH or stretch[-1][3] > until_at:
        return False
    passes: dict[int, list[int]] = {}
    for number, key, passed, _at in stretch:
        if passed:
            passes.setdefault(key, []).append(number)
    groups = [ids[at : at + _STANDS_FOR] for ids in passes.values() for at in range(0, len(ids), _STANDS_FOR)]
    connection.executemany("UPDATE observations SET weight = ? WHERE id = ?", [(len(ids), ids[0]) for ids in groups])
    connection.executemany("DELETE FROM observations WHERE id = ?", [(one,) for ids in groups for one in ids[1:]])
    connection.execute("INSERT OR REPLACE INTO memory VALUES (?, ?)", (_THINNED, str(stretch[-1][0])))
    return True


def _tidy_observations(connection: sqlite3.Connection, oldest_at: float, excess: int) -> int:
    """Delete up to a chunk of observations, `excess` of the oldest or those before `oldest_at`; returns how many."""
    first = connection.execute("SELECT at FROM observations ORDER BY id LIMIT 1").fetchone()
    if first is None or (excess <= 0 and first[0] >= oldest_at):
        return 0
    return connection.execute(
        "DELETE FROM observations WHERE id IN (SELECT id FROM observations ORDER BY id LIMIT ?) AND (? OR at < ?)",
        (min(excess, _CHUNK) if excess > 0 else _CHUNK, excess > 0, oldest_at),
    ).rowcount


# What a command may write beside a running daemon: silences, acknowledgements, test alerts. The daemon notices.

LONGEST_REASON = 500
LONGEST_AUTHOR = 100


class Requests:
    """What a command may ask of the daemon. `Requests.open` works beside a running one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use `Requests.open` or `Store.request`."""
        self._db = connection

    @classmethod
    @contextmanager
    def open(cls, state_dir: Path) -> Iterator[Self]:
        """For a command. Raises `StoreError` in plain words, also for what SQLite complains about inside."""
        with files.opened(files.open_for_request, state_dir) as connection:
            yield cls(connection)

    def add_silence(self, silence: Silence) -> Silence:
        """Start or replace a silence; returns it as it is kept.

        Raises `StoreError` if it has no end after its start, matches nothing, or gives no reason.
        """
        if not silence.ends_at > silence.starts_at:
            raise StoreError("a silence must end after it starts")
        if not silence.matcher:
            raise StoreError("a silence needs at least one label to match, for example server=NAME")
        for label, value in silence.matcher.items():
            if clean_line(value) != value:
                raise StoreError(f"the value of {label} contains characters that no name has: {clean_line(value)}")
        kept = replace(silence, reason=_reason(silence.reason), author=_author(silence.author))
        self._db.execute(
            "INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?)",
            (kept.id, dump(dict(kept.matcher)), kept.starts_at, kept.ends_at, kept.reason, kept.author),
        )
        return kept

    def end_silence(self, silence_id: str, now: float) -> None:
        """End a silence now. Raises `StoreError` if there is no such silence still active."""
        ended = self._db.execute(
            "UPDATE silences SET ends_at = ? WHERE id = ? AND ends_at > ?", (now, silence_id, now)
        ).rowcount
        if not ended:
            raise StoreError(f"no active silence {silence_id}; `inference-watchdog status` lists them")

    def acknowledge(self, incident_id: str, now: float, reason: str, author: str) -> None:
        """Stop the reminders of an open incident until it ends; with the id of a group, of all that are open in it.

        Raises `StoreError` if none is open, or for no reason.
        """
        members = self._db.execute(
            "SELECT id FROM incidents WHERE status = 'firing'"
            " AND (id = ? OR id IN (SELECT incident FROM outbox WHERE group_id = ?))",
            (incident_id, incident_id),
        ).fetchall()
        if not members:
            raise StoreError(f"no open incident {incident_id}; `inference-watchdog status` lists them")
        for (member,) in members:
            self._db.execute(
                "INSERT OR REPLACE INTO acknowledgements VALUES (?, ?, ?, ?)",
                (member, now, _reason(reason), _author(author)),
            )

    def queue(self, messages: Iterable[Queued]) -> tuple[int, ...]:
        """Queue messages (a test alert); returns their rows."""
        return tuple(enqueue(self._db, message) for message in messages)


def _reason(text: str) -> str:
    """`text` as it is kept. Raises `StoreError` for none, or more than 500 characters."""
    line = clean_line(text)
    if not line:
        raise StoreError("the reason is empty: say in a few words why, for those who read `status`")
    if len(line) > LONGEST_REASON:
        raise StoreError(f"the reason has {len(line)} characters; the limit is {LONGEST_REASON}")
    return line


def _author(text: str) -> str:
    return clean_line(text)[:LONGEST_AUTHOR]
