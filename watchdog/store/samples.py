"""The numbers of past observations without their words: what plots and statistics are made of."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from watchdog.model import Verdict
from watchdog.store.writes import VERDICTS


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
