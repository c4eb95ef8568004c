"""The thread that owns the database, on a database in memory: what shares a transaction, and what waits for none."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from watchdog.errors import StoreError
from watchdog.model import Observation, Severity, TrackState, Verdict
from watchdog.store import Commit, Reader, Requests, writes
from watchdog.store.files import connect_new, open_database
from watchdog.store.in_memory import Reserve, open_memory_fallback, restore_to_disk
from watchdog.store.writer_thread import Trouble, Writer
from watchdog.store.writes import apply, tidy

NOW = 1_795_000_000.0


class Rig:
    """A writer whose connection can be read behind its back; it lingers for an hour, so nothing is done by chance."""

    def __init__(self, trouble: Trouble | None = None) -> None:
        self.disk = connect_new()
        self.statements: list[str] = []
        self.disk.set_trace_callback(self.statements.append)
        self.writer = Writer(self.disk, trouble, linger_s=3600.0, reserve=Reserve(Path("/nowhere/reserve")))

    def trouble(self) -> Trouble | None:
        return self.writer.trouble

    def count(self, statement: str) -> int:
        return sum(one.startswith(statement) for one in self.statements)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.writer.close()


def remember(key: str) -> Callable[[sqlite3.Connection], Any]:
    return lambda connection: apply(connection, Commit(memory=(key, "x")))


def broken(_connection: sqlite3.Connection) -> None:
    message = "boom"
    raise ValueError(message)


def remembered(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT check_key FROM memory ORDER BY check_key")]


async def test_what_nobody_waits_for_shares_the_transaction_of_the_next_job_that_somebody_does(rig: Rig) -> None:
    for key in "abc":
        rig.writer.do_soon(remember(key))
    assert await rig.writer.do(remembered) == ["a", "b", "c"]
    assert rig.count("COMMIT") == 1


async def test_jobs_nobody_waits_for_are_done_once_they_are_many(rig: Rig) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for _ in range(255):
        rig.writer.do_soon(lambda _: None)
    await asyncio.sleep(0.05)
    assert rig.count("BEGIN") == 0
    rig.writer.do_soon(lambda _: loop.call_soon_threadsafe(done.set))
    async with asyncio.timeout(10):
        await done.wait()


async def test_a_job_that_fails_takes_no_other_one_with_it(rig: Rig) -> None:
    rig.writer.do_soon(remember("before"))
    rig.writer.do_soon(broken)
    rig.writer.do_soon(remember("behind"))
    assert await rig.writer.do(remembered) == ["before", "behind"]
    with pytest.raises(StoreError, match="could not be written: boom"):
        await rig.writer.do(broken)
    with pytest.raises(StoreError, match="could not be written: boom"):
        rig.writer.do_now(broken)
    assert rig.trouble() is None


async def test_only_what_must_survive_a_power_cut_waits_for_the_disk_and_the_next_job_no_longer_does(rig: Rig) -> None:
    for durable in (False, True, True, False):
        await rig.writer.do(remembered, durable=durable)
    levels = [one for one in rig.statements if one.startswith("PRAGMA synchronous")]
    assert levels == [f"PRAGMA synchronous = {level}" for level in ("NORMAL", "FULL", "NORMAL")]


def test_a_closed_store_finishes_its_jobs_and_takes_no_more(rig: Rig, tmp_path: Path) -> None:
    written = tmp_path / "written"
    rig.writer.do_soon(lambda _: written.touch())
    rig.writer.close()
    assert written.exists()
    with pytest.raises(StoreError, match="is closed"):
        rig.writer.do_soon(remembered)


async def test_a_disk_that_fails_moves_the_state_to_memory_with_the_job_and_back_once_it_is_well(rig: Rig) -> None:
    await rig.writer.do(remember("before"))

    def fails_on_disk(connection: sqlite3.Connection) -> list[str]:
        if connection is rig.disk:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return remembered(connection)

    assert await rig.writer.do(fails_on_disk) == ["before"]
    assert rig.trouble() == Trouble("disk I/O error")
    assert rig.writer.moves == 1
    await rig.writer.do(remember("during"), durable=True)

    def still_broken() -> sqlite3.Connection:
        message = "read-only"
        raise OSError(message)

    assert not await rig.writer.mend(still_broken)
    assert rig.trouble() == Trouble("read-only")
    fresh = connect_new()
    assert await rig.writer.mend(lambda: fresh)
    assert rig.trouble() is None
    assert rig.writer.moves == 2
    assert await rig.writer.do(remembered) == ["before", "during"]
    assert remembered(fresh) == ["before", "during"]


async def test_a_statement_that_is_wrong_is_not_blamed_on_the_disk(rig: Rig) -> None:
    with pytest.raises(StoreError, match="no such table"):
        await rig.writer.do(lambda connection: connection.execute("SELECT 1 FROM unknown"))
    assert rig.trouble() is None


async def test_a_disk_that_was_bad_from_the_start_is_read_once_and_left_alone() -> None:
    rig = Rig(Trouble("cannot open"))
    await rig.writer.do(remember("a"))
    assert remembered(rig.disk) == []
    rig.writer.close()


# Moving to memory and back


def passed(key: str, at: float, verdict: Verdict = Verdict.PASS) -> Observation:
    return Observation(key=key, verdict=verdict, reason="ok", severity=Severity.PAGE, summary="fine", at=at)


def test_what_happened_in_memory_is_added_on_disk_under_its_own_keys() -> None:
    disk, memory = connect_new(), connect_new()
    apply(disk, Commit(observations=(passed("a", NOW), passed("b", NOW))))
    apply(memory, Commit(observations=(passed("b", NOW + 1), passed("c", NOW + 2))))
    memory.execute("INSERT INTO blind_windows (began_at, ended_at, reason) VALUES (5, 6, 'paused')")
    restore_to_disk(memory, disk)
    reader = Reader(disk)
    assert reader.keys() == ("a", "b", "c")
    assert [point.at for point in reader.history("b", 0, 2e9)] == [NOW, NOW + 1]
    assert [point.at for point in reader.history("c", 0, 2e9)] == [NOW + 2]
    assert disk.execute("SELECT began_at, ended_at, reason FROM blind_windows").fetchall() == [(5, 6, "paused")]


def test_rows_queued_in_memory_get_numbers_far_behind_those_on_disk() -> None:
    memory = open_memory_fallback(connect_new())
    row = "INSERT INTO outbox (receiver, incident, kind, severity, title, body, created_at, due_at)"
    number = memory.execute(row + " VALUES ('r', 'i', 'firing', 'page', 't', 'b', 1, 1)").lastrowid
    assert number == 1_000_001


# Reading


def test_the_last_pass_of_a_healthy_key_is_found_in_the_history() -> None:
    """A failure behind it is none, and an older pass than the one that is known changes nothing."""
    disk = connect_new()
    apply(disk, Commit(tracks={"a": TrackState(), "b": TrackState(last_good_at=NOW + 9), "c": TrackState()}))
    seen = (passed("a", NOW), passed("a", NOW + 1), passed("a", NOW + 2, Verdict.FAIL), passed("b", NOW))
    apply(disk, Commit(observations=seen))
    assert {key: state.last_good_at for key, state in Reader(disk).states().items()} == {
        "a": NOW + 1,
        "b": NOW + 9,
        "c": None,
    }


def test_observations_that_are_young_and_few_enough_stay() -> None:
    disk = connect_new()
    apply(disk, Commit(observations=(passed("a", NOW), passed("a", NOW + 10))))
    assert not tidy(disk, NOW + 100, 101.0, 1e9)
    assert len(Reader(disk).history("a", 0, 2e9)) == 2
    assert not tidy(disk, NOW + 105, 100.0, 1e9)
    assert [point.at for point in Reader(disk).history("a", 0, 2e9)] == [NOW + 10]


def test_many_old_passes_are_thinned_and_every_figure_stays_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "THIN_BEYOND_ROWS", 900)
    monkeypatch.setattr(writes, "_STRETCH", 500)
    disk, keys, chance = connect_new(), [f"generation/s{number}" for number in range(8)], random.Random(1)
    seen = [
        replace(
            passed(key, NOW + 120.0 * turn, Verdict.FAIL if chance.random() < 0.05 else Verdict.PASS),
            reason="ok", measurements={"ttft_s": chance.random(), "completion_tokens": 5.0, "resent": 1.0},
        )
        for turn in range(300) for key in keys
    ]  # fmt: skip
    apply(disk, Commit(observations=tuple(seen)))

    def figures() -> list[object]:
        read = Reader(disk)
        samples = [read.samples(key, 0, 2e9) for key in keys]
        return [[Counter(one.verdict for one in row) for row in samples], [read.cost(key, 0, 2e9) for key in keys]]

    before, (medians, rows) = figures(), _medians(disk, keys)
    assert not tidy(disk, NOW + 86400 + 1000, 30 * 86400.0, 1e9), "younger than a day"
    while tidy(disk, NOW + 3 * 86400, 30 * 86400.0, 1e9):
        pass
    assert figures() == before
    after, left = _medians(disk, keys)
    assert left < rows / 3
    assert all(abs(one - other) < 0.25 for one, other in zip(medians, after, strict=True))
    failed = sum(one.verdict is Verdict.FAIL for key in keys for one in Reader(disk).history(key, 0, 2e9))
    assert failed == sum(one.verdict is Verdict.FAIL for one in seen), "no failure is thinned out"


def _medians(disk: sqlite3.Connection, keys: list[str]) -> tuple[list[float], int]:
    rows = disk.execute("SELECT count(*) FROM observations").fetchone()[0]
    read = Reader(disk)
    return [statistics.median(one.ttft_s or 0.0 for one in read.samples(key, 0, 2e9)) for key in keys], rows


def test_more_rows_than_the_limit_lose_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "OBSERVATION_LIMIT", 100)
    disk = connect_new()
    apply(disk, Commit(observations=tuple(passed("a", NOW + number) for number in range(130))))
    tidy(disk, NOW + 200, 1e6, 1e9)
    assert [point.at for point in Reader(disk).history("a", 0, 2e9)] == [NOW + number for number in range(30, 130)]


def test_the_cost_of_probes_that_told_no_tokens_is_nothing() -> None:
    disk = connect_new()
    cost = Reader(disk).cost("a", 0, 2e9)
    assert cost == (0, 0, 0, 0)


# Commands beside the daemon, and what may wait


def test_what_sqlite_complains_about_is_told_in_plain_words(tmp_path: Path) -> None:
    open_database(tmp_path, NOW).connection.close()
    for used in (Reader, Requests):
        with pytest.raises(StoreError, match=r"state\.db is damaged \(odd\)"), used.open(tmp_path):
            raise sqlite3.DatabaseError("odd")


def test_a_step_is_written_at_once_unless_it_is_said_to_be_in_no_hurry_and_does_not_matter() -> None:
    assert not Commit().can_wait
    assert Commit(hurried=False).can_wait
    assert not Commit(hurried=False, memory=("a", 1)).can_wait
    assert Commit(hurried=False, memory=("a", 1), forgettable=True).can_wait


def told(database: sqlite3.Connection) -> list[str]:
    return [row[0] for row in database.execute("SELECT id FROM incidents ORDER BY id")]


def open_incidents(*ids: str) -> sqlite3.Connection:
    database = connect_new()
    rows = [(one, "generation/a", "firing", "page", 1.0, None, "{}") for one in ids]
    database.executemany("INSERT INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?)", rows).close()
    return database


def test_the_reserve_gives_back_the_last_whole_half(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve, size = Reserve(path), path.stat().st_size
    for ids in (("a",), ("a", "b"), ("a", "b", "c")):
        reserve.keep(open_incidents(*ids))
    assert path.stat().st_size == size
    with path.open("r+b") as file:
        file.seek(size // 2 + 40)
        file.write(b"killed in the middle of it")
    again = connect_new()
    assert Reserve(path).restore(again)
    assert told(again) == ["a", "b"]


def test_a_reserve_that_is_cleared_or_nonsense_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(path)
    reserve.keep(open_incidents("a"))
    reserve.clear()
    for content in (path.read_bytes(), b"", b"x" * 131072, b"\xff" * 100):
        path.write_bytes(content)
        again = connect_new()
        assert not Reserve(path).restore(again)
        assert told(again) == []


def test_more_than_the_reserve_holds_keeps_what_is_newest(tmp_path: Path) -> None:
    path, database = tmp_path / "reserve", connect_new()
    chance = random.Random(1)
    rows = [(f"{n:04}", "k", "firing", "page", float(n), None, chance.randbytes(400).hex()) for n in range(500)]
    database.executemany("INSERT INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?)", rows).close()
    Reserve(path).keep(database)
    again = connect_new()
    assert Reserve(path).restore(again)
    assert 50 < len(told(again)) < 500
    assert told(again)[-1] == "0499"
