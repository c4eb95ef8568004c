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
    resent: float | None


def samples(connection: sqlite3.Connection, key: str, since_at: float, until_at: float) -> tuple[Sample, ...]:
    """Observations of `key` from `since_at` up to (not including) `until_at`, oldest first."""
    rows = connection.execute(
        "SELECT at, verdict, reason, duration_s, json_extract(measurements, '$.ttft_s'),"
        " json_extract(measurements, '$.tokens_per_s'), json_extract(measurements, '$.resent') FROM observations"
        " WHERE key = (SELECT id FROM keys WHERE key = ?) AND at >= ? AND at < ? ORDER BY id",
        (key, since_at, until_at),
    )
    return tuple([Sample(row[0], VERDICTS[row[1]], *row[2:]) for row in rows])
