"""Reading the state, beside a running daemon or inside it. Changes nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

from watchdog.kinds import BLIND
from watchdog.model import (
    DeliveryState,
    Incident,
    Json,
    NotificationKind,
    Phase,
    Silence,
    TrackState,
    Verdict,
    split_statement,
    statement_of,
)
from watchdog.store import files
from watchdog.store.codec import incident_from_text, silence_from_row, track_from_text
from watchdog.store.writes import VERDICTS, depths
from watchdog.text import clean_line, duration

UNHEARD_AFTER_S = 120.0
"""After so long a page that no receiver and no fallback has taken counts as unheard."""


@dataclass(frozen=True, slots=True)
class Point:
    """One observation of the past. `at` in Unix seconds, `measurements` by name (units in the names).

    `summary` does not name its `subject`. `weight`: it stands for so many, the others were thinned out.
    """

    at: float
    verdict: Verdict
    reason: str
    duration_s: float
    summary: str
    measurements: Mapping[str, float]
    subject: str = ""
    weight: int = 1

    @property
    def statement(self) -> str:
        """What it says, as a person reads it on its own."""
        return statement_of(self.subject, self.summary)


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key now: its tracking state, its last observation (None if none was kept), its open incident's id."""

    key: str
    state: TrackState
    last: Point | None
    incident_id: str | None

    @property
    def phase(self) -> Phase:
        return self.state.phase


@dataclass(frozen=True, slots=True)
class ReceiverView:
    """One receiver: undelivered rows, when it last proved to work, when and how it last failed, failures in a row.

    `proven_address` is the hash of the address that last took a message; "" for none, or one of an older version.
    """

    name: str
    waiting: int
    delivered_at: float | None
    failed_at: float | None
    failures: int
    detail: str
    proven_address: str = ""


@dataclass(frozen=True, slots=True)
class BlindWindow:
    """A time in which we saw nothing of `key` ("" for everything). `ended_at` is None while it lasts."""

    began_at: float
    ended_at: float | None
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """That somebody looks at an incident: since when, why, and who."""

    at: float
    reason: str
    author: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is now, at `at` (Unix seconds). `latest_at` is the newest observation: older than it should be
    means that no daemon writes here. `storage` is None, or why the state is in memory only. `acknowledged` is by
    incident id.
    """

    at: float
    latest_at: float | None
    keys: tuple[KeyView, ...]
    open_incidents: tuple[Incident, ...]
    receivers: tuple[ReceiverView, ...]
    silences: tuple[Silence, ...]
    blind: tuple[BlindWindow, ...]
    storage: str | None = None
    acknowledged: Mapping[str, Acknowledged] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """What became of one message: its row, where it stands, how often it was tried, when it was written and closed."""

    row: int
    receiver: str
    incident_id: str
    kind: NotificationKind
    state: DeliveryState
    attempt: int
    created_at: float
    done_at: float | None
    why: str
    detail: str
    duration_s: float | None

    @property
    def is_done(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state not in (DeliveryState.QUEUED, DeliveryState.LEASED)


class Sample(NamedTuple):
    """One observation of the past in numbers; None = not measured. `at` in Unix seconds."""

    at: float
    verdict: Verdict
    reason: str
    duration_s: float
    ttft_s: float | None
    tokens_per_s: float | None


class Cost(NamedTuple):
    """What probes asked of a server: probes sent again, requests of these, tokens the server counted, in how many."""

    resent_probes: int
    resent: int
    completion_tokens: int
    counted_probes: int


_POINT = "at, verdict, reason, duration_s, summary, measurements, weight"


class Reader:
    """Reads the state of a daemon, running or not. Times are Unix seconds."""

    def __init__(self, connection: sqlite3.Connection, storage: str | None = None) -> None:
        """Use `Reader.open` or `Store.read`; `storage` is why the state is in memory only, or None."""
        self._db = connection
        self._storage = storage

    @classmethod
    @contextmanager
    def open(cls, state_dir: Path) -> Iterator[Self]:
        """For a command. Raises `StoreError` in plain words if there is nothing to read or it may not be read, also
        for what SQLite complains about inside.
        """
        with files.opened(files.open_for_reading, state_dir) as connection:
            yield cls(connection)

    def snapshot(self, now: float) -> Snapshot:
        """Everything that is at `now`; blind windows of the last day."""
        still_open = self.open_incidents()
        by_key = {found.key: found.id for found in still_open}
        latest = self._db.execute("SELECT at FROM observations ORDER BY id DESC LIMIT 1").fetchone()
        return Snapshot(
            at=now,
            latest_at=None if latest is None else float(latest[0]),
            keys=tuple(
                KeyView(key, state, self._last_point(key), by_key.get(key)) for key, state in self._tracks().items()
            ),
            open_incidents=still_open,
            receivers=self._receiver_views(),
            silences=self.silences(now),
            blind=self.blind_windows(now - 86400.0),
            storage=self._storage,
            acknowledged=self.acknowledged(),
        )

    def _tracks(self) -> dict[str, TrackState]:
        rows = self._db.execute("SELECT key, state FROM tracks ORDER BY key")
        return {key: track_from_text(text) for key, text in rows}

    def states(self) -> dict[str, TrackState]:
        """Every tracked key with its state.

        A healthy key writes no state for every pass, so its last pass is looked up in the history.
        """
        found = self._tracks()
        for key, state in found.items():
            row = self._db.execute(
                "SELECT at FROM observations WHERE key = (SELECT id FROM keys WHERE key = ?) AND verdict = 0"
                " ORDER BY id DESC LIMIT 1",
                (key,),
            ).fetchone()
            if row is not None and (state.last_good_at is None or state.last_good_at < row[0]):
                found[key] = replace(state, last_good_at=float(row[0]))
        return found

    def keys(self) -> tuple[str, ...]:
        """Every key that was ever observed, by name."""
        return tuple(row[0] for row in self._db.execute("SELECT key FROM keys ORDER BY key"))

    def memory(self, check_key: str) -> Json | None:
        """What the last committed run of a check remembered; `PLAN` is what the daemon runs by."""
        row = self._db.execute("SELECT value FROM memory WHERE check_key = ?", (check_key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def _last_point(self, key: str) -> Point | None:
        row = self._db.execute(
            f"SELECT {_POINT} FROM observations WHERE key = (SELECT id FROM keys WHERE key = ?)"  # noqa: S608 - a constant
            " ORDER BY id DESC LIMIT 1",
            (key,),
        ).fetchone()
        return None if row is None else _point(key, row)

    def history(self, key: str, since_at: float, until_at: float, limit: int = 100_000) -> tuple[Point, ...]:
        """Observations of `key` from `since_at` up to (not including) `until_at`, oldest first; the newest `limit`."""
        rows = self._db.execute(
            f"SELECT {_POINT} FROM observations WHERE key = (SELECT id FROM keys WHERE key = ?)"  # noqa: S608 - a constant
            " AND at >= ? AND at < ? ORDER BY id DESC LIMIT ?",
            (key, since_at, until_at, limit),
        ).fetchall()
        return tuple(_point(key, row) for row in reversed(rows))

    def samples(self, key: str, since_at: float, until_at: float) -> tuple[Sample, ...]:
        """The numbers of the observations of `key` from `since_at` up to (not including) `until_at`, oldest first.

        One that stands for others, which were thinned out, is there as often.
        """
        rows = self._db.execute(
            "SELECT at, verdict, reason, duration_s, json_extract(measurements, '$.ttft_s'),"
            " json_extract(measurements, '$.tokens_per_s'), weight FROM observations"
            " WHERE key = (SELECT id FROM keys WHERE key = ?) AND at >= ? AND at < ? ORDER BY id",
            (key, since_at, until_at),
        )
        found: list[Sample] = []
        for at, verdict, *numbers, weight in rows:
            found += [Sample(at, VERDICTS[verdict], *numbers)] * weight
        return tuple(found)

    def cost(self, key: str, since_at: float, until_at: float) -> Cost:
        """The sums over the observations of `key` from `since_at` up to (not including) `until_at`."""
        row = self._db.execute(
            "SELECT sum((resent > 0) * weight), sum(resent * weight), sum(tokens * weight),"
            " sum((tokens IS NOT NULL) * weight) FROM (SELECT weight, json_extract(measurements, '$.resent') AS resent,"
            " json_extract(measurements, '$.completion_tokens') AS tokens FROM observations"
            " WHERE key = (SELECT id FROM keys WHERE key = ?) AND at >= ? AND at < ?)",
            (key, since_at, until_at),
        ).fetchone()
        return Cost(*(round(value or 0) for value in row))

    def open_incidents(self) -> tuple[Incident, ...]:
        """Every open incident, oldest first."""
        rows = self._db.execute("SELECT body FROM incidents WHERE status = 'firing' ORDER BY id")
        return tuple(incident_from_text(row[0]) for row in rows)

    def incidents(self, since_at: float, until_at: float) -> tuple[Incident, ...]:
        """Incidents that were open at some time between `since_at` and `until_at`, oldest first."""
        rows = self._db.execute(
            "SELECT body FROM incidents WHERE opened_at < ? AND coalesce(closed_at, ?) >= ? ORDER BY id",
            (until_at, until_at, since_at),
        )
        return tuple(incident_from_text(row[0]) for row in rows)

    def incident(self, incident_id: str) -> Incident | None:
        """The incident with this id, open or closed; None if there is none."""
        row = self._db.execute("SELECT body FROM incidents WHERE id = ?", (incident_id,)).fetchone()
        return None if row is None else incident_from_text(row[0])

    def last_incident_id(self) -> str:
        """The greatest incident id ever given, "" if none."""
        return str(self._db.execute("SELECT max(id) FROM incidents").fetchone()[0] or "")

    def silences(self, since_at: float) -> tuple[Silence, ...]:
        """Silences that were not over at `since_at`, by their end."""
        rows = self._db.execute("SELECT * FROM silences WHERE ends_at > ? ORDER BY ends_at", (since_at,))
        return tuple(silence_from_row(row) for row in rows)

    def acknowledged(self) -> dict[str, Acknowledged]:
        """Who acknowledged which incident, by incident id."""
        rows = self._db.execute("SELECT incident, at, reason, author FROM acknowledgements")
        return {key: Acknowledged(at, clean_line(reason), clean_line(author)) for key, at, reason, author in rows}

    def deliveries(self, incident_id: str | None = None, since_at: float = 0.0) -> tuple[DeliveryView, ...]:
        """What became of the messages of one incident, or of all that were written since `since_at`; in queue order."""
        rows = self._db.execute(
            "SELECT row, receiver, incident, kind, state, attempt, created_at, done_at, why, detail, duration_s"
            " FROM outbox WHERE (? IS NULL OR incident = ?) AND created_at >= ? ORDER BY row",
            (incident_id, incident_id, since_at),
        )
        return tuple(
            DeliveryView(row[0], row[1], row[2], NotificationKind(row[3]), DeliveryState(row[4]), *row[5:])
            for row in rows
        )

    def unheard_page(self, now: float) -> str | None:
        """Why our alerts do not arrive, None while they do: then nobody may rely on us any more.

        `now` is Unix seconds; only a page whose incident is not a test alert counts.
        """
        row = self._db.execute(
            "SELECT incident, min(created_at) FROM outbox WHERE kind IN ('FIRING', 'NEW') AND severity = 'page'"
            " AND incident IN (SELECT incident FROM outbox WHERE state IN ('queued', 'leased')"
            " AND kind IN ('FIRING', 'NEW') AND severity = 'page' AND created_at <= ?)"
            " AND incident IN (SELECT id FROM incidents)"  # a test alert is none
            " GROUP BY incident HAVING sum(state = 'delivered') = 0 ORDER BY 2 LIMIT 1",
            (now - UNHEARD_AFTER_S,),
        ).fetchone()
        if row is None:
            return None
        incident, since = row
        return f"the page of incident {incident} has reached no receiver for {duration(max(0.0, now - since))}"

    def receivers(self) -> tuple[str, ...]:
        """Every receiver that ever took or refused a message, or has one waiting, by name."""
        found = self._db.execute("SELECT name FROM receivers UNION SELECT receiver FROM outbox ORDER BY 1")
        return tuple(row[0] for row in found)

    def _receiver_views(self) -> tuple[ReceiverView, ...]:
        waiting = depths(self._db)
        proven = {row[0]: row[1:] for row in self._db.execute("SELECT * FROM receivers")}
        names = sorted({*waiting, *proven})
        return tuple(ReceiverView(name, waiting.get(name, 0), *proven.get(name, (None, None, 0, ""))) for name in names)

    def blind_windows(self, since_at: float) -> tuple[BlindWindow, ...]:
        """Times without sight that were not over at `since_at`, oldest first: of everything, and of single keys."""
        found = [
            BlindWindow(began_at, ended_at, "", reason)
            for began_at, ended_at, reason in self._db.execute(
                "SELECT began_at, ended_at, reason FROM blind_windows WHERE ended_at >= ?", (since_at,)
            )
        ]
        rows = self._db.execute(
            "SELECT body FROM incidents WHERE key LIKE 'self/blind/%' AND (closed_at IS NULL OR closed_at >= ?)",
            (since_at,),
        )
        for row in rows:
            blind = incident_from_text(row[0])
            found.append(BlindWindow(blind.since, blind.closed_at, BLIND.subject_of(blind.key), blind.reason))
        return tuple(sorted(found, key=lambda window: window.began_at))


def _point(key: str, row: tuple[float, int, str, float, str, str | None, int]) -> Point:
    at, verdict, reason, duration_s, statement, measurements, weight = row
    subject, summary = split_statement(statement, key.partition("/")[2].partition("/")[0])
    numbers = json.loads(measurements) if measurements else {}
    return Point(at, VERDICTS[verdict], reason, duration_s, summary, numbers, subject, weight)
