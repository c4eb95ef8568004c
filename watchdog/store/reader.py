"""Reading the state, beside a running daemon or inside it. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from watchdog.model import DeliveryState, Incident, Json, NotificationKind, Phase, Silence, TrackState, Verdict
from watchdog.store import files
from watchdog.store.codec import incident_from_text, load, silence_from_row, track_from_text
from watchdog.store.writes import VERDICTS, depths
from watchdog.text import clean_line

# What commands, status and report read. Everything here takes a connection and changes nothing.


@dataclass(frozen=True, slots=True)
class Point:
    """One observation of the past. `at` in Unix seconds, `measurements` by name (units in the names)."""

    at: float
    verdict: Verdict
    reason: str
    duration_s: float
    summary: str
    measurements: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key now: its tracking state, its last observation (None if none was kept), its open incident's id."""

    key: str
    state: TrackState
    last: Point | None
    incident_id: str | None

    @property
    def phase(self) -> Phase:
        """Where its tracking stands."""
        return self.state.phase


@dataclass(frozen=True, slots=True)
class ReceiverView:
    """One receiver: undelivered rows, when it last proved to work, when and how it last failed, failures in a row."""

    name: str
    waiting: int
    delivered_at: float | None
    failed_at: float | None
    failures: int
    detail: str


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


_POINT = "at, verdict, reason, duration_s, summary, measurements"


def _point(row: tuple[float, int, str, float, str, str | None]) -> Point:
    at, verdict, reason, duration_s, summary, measurements = row
    return Point(at, VERDICTS[verdict], reason, duration_s, summary, load(measurements) if measurements else {})


def tracks(connection: sqlite3.Connection) -> dict[str, TrackState]:
    """Every tracked key with its state."""
    return {
        key: track_from_text(text) for key, text in connection.execute("SELECT key, state FROM tracks ORDER BY key")
    }


def open_incidents(connection: sqlite3.Connection) -> tuple[Incident, ...]:
    """Every open incident, oldest first."""
    rows = connection.execute("SELECT body FROM incidents WHERE status = 'firing' ORDER BY id")
    return tuple(incident_from_text(row[0]) for row in rows)


def silences(connection: sqlite3.Connection, now: float) -> tuple[Silence, ...]:
    """Silences that are not over at `now`."""
    rows = connection.execute("SELECT * FROM silences WHERE ends_at > ? ORDER BY ends_at", (now,))
    return tuple(silence_from_row(row) for row in rows)


def acknowledgements(connection: sqlite3.Connection) -> dict[str, float]:
    """When each acknowledged incident was acknowledged, by incident id."""
    return dict(connection.execute("SELECT incident, at FROM acknowledgements"))


def acknowledged(connection: sqlite3.Connection) -> dict[str, Acknowledged]:
    """Who acknowledged which incident, by incident id."""
    rows = connection.execute("SELECT incident, at, reason, author FROM acknowledgements")
    return {incident: Acknowledged(at, clean_line(reason), clean_line(author)) for incident, at, reason, author in rows}


def last_point(connection: sqlite3.Connection, key: str) -> Point | None:
    """The newest observation of `key`."""
    row = connection.execute(
        f"SELECT {_POINT} FROM observations WHERE key = (SELECT id FROM keys WHERE key = ?) ORDER BY id DESC LIMIT 1",  # noqa: S608 - a constant
        (key,),
    ).fetchone()
    return None if row is None else _point(row)


def last_pass_at(connection: sqlite3.Connection, key: str) -> float | None:
    """When `key` last passed, as far as the history goes back."""
    row = connection.execute(
        "SELECT at FROM observations WHERE key = (SELECT id FROM keys WHERE key = ?) AND verdict = 0"
        " ORDER BY id DESC LIMIT 1",
        (key,),
    ).fetchone()
    return None if row is None else float(row[0])


def with_last_good(state: TrackState, passed_at: float) -> TrackState:
    """`state` with the last pass that the history knows, if it is newer."""
    if state.last_good_at is not None and state.last_good_at >= passed_at:
        return state
    return replace(state, last_good_at=passed_at)


def history(
    connection: sqlite3.Connection, key: str, since_at: float, until_at: float, limit: int = 100_000
) -> tuple[Point, ...]:
    """Observations of `key` from `since_at` up to (not including) `until_at`, oldest first; only the newest `limit`."""
    rows = connection.execute(
        f"SELECT {_POINT} FROM observations WHERE key = (SELECT id FROM keys WHERE key = ?)"  # noqa: S608 - a constant
        " AND at >= ? AND at < ? ORDER BY id DESC LIMIT ?",
        (key, since_at, until_at, limit),
    ).fetchall()
    return tuple(_point(row) for row in reversed(rows))


def incidents(connection: sqlite3.Connection, since_at: float, until_at: float) -> tuple[Incident, ...]:
    """Incidents that were open at some time between `since_at` and `until_at`, oldest first."""
    rows = connection.execute(
        "SELECT body FROM incidents WHERE opened_at < ? AND coalesce(closed_at, ?) >= ? ORDER BY id",
        (until_at, until_at, since_at),
    )
    return tuple(incident_from_text(row[0]) for row in rows)


def incident(connection: sqlite3.Connection, incident_id: str) -> Incident | None:
    """One incident, open or closed."""
    row = connection.execute("SELECT body FROM incidents WHERE id = ?", (incident_id,)).fetchone()
    return None if row is None else incident_from_text(row[0])


def deliveries(
    connection: sqlite3.Connection, incident_id: str | None = None, since_at: float = 0.0
) -> tuple[DeliveryView, ...]:
    """What became of the messages of one incident, or of all that were written since `since_at`; in queue order."""
    rows = connection.execute(
        "SELECT row, receiver, incident, kind, state, attempt, created_at, done_at, why, detail, duration_s FROM outbox"
        " WHERE (? IS NULL OR incident = ?) AND created_at >= ? ORDER BY row",
        (incident_id, incident_id, since_at),
    )
    return tuple(
        DeliveryView(row[0], row[1], row[2], NotificationKind(row[3]), DeliveryState(row[4]), *row[5:]) for row in rows
    )


def receivers(connection: sqlite3.Connection) -> tuple[ReceiverView, ...]:
    """Every receiver that was ever used or has something waiting, by name."""
    waiting = depths(connection)
    proven = {row[0]: row[1:] for row in connection.execute("SELECT * FROM receivers")}
    names = sorted({*waiting, *proven})
    return tuple(ReceiverView(name, waiting.get(name, 0), *proven.get(name, (None, None, 0, ""))) for name in names)


def blind_windows(connection: sqlite3.Connection, since_at: float) -> tuple[BlindWindow, ...]:
    """Times without sight since `since_at`: of everything (sleep, no network), and of single keys; oldest first."""
    found = [
        BlindWindow(began_at, ended_at, "", reason)
        for began_at, ended_at, reason in connection.execute(
            "SELECT began_at, ended_at, reason FROM blind_windows WHERE ended_at >= ?", (since_at,)
        )
    ]
    rows = connection.execute(
        "SELECT body FROM incidents WHERE key LIKE 'self/blind/%' AND (closed_at IS NULL OR closed_at >= ?)",
        (since_at,),
    )
    for row in rows:
        blind = incident_from_text(row[0])
        found.append(BlindWindow(blind.since, blind.closed_at, blind.key.removeprefix("self/blind/"), blind.reason))
    return tuple(sorted(found, key=lambda window: window.began_at))


def snapshot(connection: sqlite3.Connection, now: float, storage: str | None = None) -> Snapshot:
    """Everything that is at `now`; blind windows of the last day."""
    still_open = open_incidents(connection)
    by_key = {found.key: found.id for found in still_open}
    states = tracks(connection)
    views = tuple(KeyView(key, state, last_point(connection, key), by_key.get(key)) for key, state in states.items())
    latest = connection.execute("SELECT at FROM observations ORDER BY id DESC LIMIT 1").fetchone()
    return Snapshot(
        at=now,
        latest_at=None if latest is None else float(latest[0]),
        keys=views,
        open_incidents=still_open,
        receivers=receivers(connection),
        silences=silences(connection, now),
        blind=blind_windows(connection, now - 86400.0),
        storage=storage,
        acknowledged=acknowledged(connection),
    )


def states(connection: sqlite3.Connection) -> dict[str, TrackState]:
    """Tracking states; a healthy key writes no state for every pass, so its last pass is looked up."""
    found = tracks(connection)
    for key, state in found.items():
        passed_at = last_pass_at(connection, key)
        if passed_at is not None:
            found[key] = with_last_good(state, passed_at)
    return found


# The numbers of past observations without their words: what plots and statistics are made of.


class Sample(NamedTuple):
    """One observation of the past in numbers; None = not measured. `at` in Unix seconds."""

    at: float
    verdict: Verdict
    reason: str
    duration_s: float
    ttft_s: float | None
    tokens_per_s: float | None


def samples(connection: sqlite3.Connection, key: str, since_at: float, until_at: float) -> tuple[Sample, ...]:
    """Observations of `key` from `since_at` up to (not including) `until_at`, oldest first."""
    rows = connection.execute(
        "SELECT at, verdict, reason, duration_s, json_extract(measurements, '$.ttft_s'),"
        " json_extract(measurements, '$.tokens_per_s') FROM observations"
        " WHERE key = (SELECT id FROM keys WHERE key = ?) AND at >= ? AND at < ? ORDER BY id",
        (key, since_at, until_at),
    )
    return tuple([Sample(row[0], VERDICTS[row[1]], *row[2:]) for row in rows])


class Cost(NamedTuple):
    """What probes asked of a server: probes sent again, requests of these, tokens the server counted, in how many."""

    resent_probes: int
    resent: int
    completion_tokens: int
    counted_probes: int


def cost(connection: sqlite3.Connection, key: str, since_at: float, until_at: float) -> Cost:
    """The sums over the observations of `key` from `since_at` up to (not including) `until_at`."""
    row = connection.execute(
        "SELECT sum(resent > 0), sum(resent), sum(tokens), count(tokens) FROM ("
        " SELECT json_extract(measurements, '$.resent') AS resent,"
        " json_extract(measurements, '$.completion_tokens') AS tokens FROM observations"
        " WHERE key = (SELECT id FROM keys WHERE key = ?) AND at >= ? AND at < ?)",
        (key, since_at, until_at),
    ).fetchone()
    return Cost(*(round(value or 0) for value in row))


class Reader:
    """Reads the state of a daemon, running or not.

    `Reader.open` is for `with`, whose end turns whatever SQLite complains about inside into a plain `StoreError`.
    """

    def __init__(self, connection: sqlite3.Connection, storage: str | None = None, *, path: Path | None = None) -> None:
        """Use `Reader.open` or `Store.read`; `storage` is why the state is in memory only, or None."""
        self._db = connection
        self._storage = storage
        self._path = path

    @classmethod
    def open(cls, state_dir: Path) -> Self:
        """For a command."""
        return cls(files.open_for_reading(state_dir), path=state_dir / files.DATABASE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._db.close()
        if isinstance(error, sqlite3.Error) and self._path is not None:
            raise files.told(error, self._path) from error

    def snapshot(self, now: float) -> Snapshot:
        """Everything that is now."""
        return snapshot(self._db, now, self._storage)

    def history(self, key: str, since_at: float, until_at: float, limit: int = 100_000) -> tuple[Point, ...]:
        """Observations of `key`, oldest first."""
        return history(self._db, key, since_at, until_at, limit)

    def incidents(self, since_at: float, until_at: float) -> tuple[Incident, ...]:
        """Incidents that were open at some time in between, oldest first."""
        return incidents(self._db, since_at, until_at)

    def deliveries(self, incident_id: str | None = None, since_at: float = 0.0) -> tuple[DeliveryView, ...]:
        """What became of messages, in queue order."""
        return deliveries(self._db, incident_id, since_at)

    def memory(self, check_key: str) -> Json | None:
        """What the last committed run of a check remembered; `PLAN` is what the daemon runs by."""
        row = self._db.execute("SELECT value FROM memory WHERE check_key = ?", (check_key,)).fetchone()
        return None if row is None else load(row[0])

    def samples(self, key: str, since_at: float, until_at: float) -> tuple[Sample, ...]:
        """The numbers of the observations of `key`, oldest first."""
        return samples(self._db, key, since_at, until_at)

    def cost(self, key: str, since_at: float, until_at: float) -> Cost:
        """What the probes of `key` asked of their server."""
        return cost(self._db, key, since_at, until_at)

    def keys(self) -> tuple[str, ...]:
        """Every key that was ever observed, by name."""
        return tuple(row[0] for row in self._db.execute("SELECT key FROM keys ORDER BY key"))

    def receivers(self) -> tuple[str, ...]:
        """Every receiver that ever took or refused a message, or has one waiting, by name."""
        found = self._db.execute("SELECT name FROM receivers UNION SELECT receiver FROM outbox ORDER BY 1")
        return tuple(row[0] for row in found)

    def blind_windows(self, since_at: float) -> tuple[BlindWindow, ...]:
        """Times without sight that were not over at `since_at`, oldest first."""
        return blind_windows(self._db, since_at)

    def silences(self, since_at: float) -> tuple[Silence, ...]:
        """Silences that were not over at `since_at`, by their end."""
        return silences(self._db, since_at)
