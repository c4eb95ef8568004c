"""The state on disk: shared by commands, locked against a second daemon, corrupt, full, old, and big."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.alerting_path import KEY, Station, configuration, line_seen, observed, receiver
from watchdog.cli import main
from watchdog.errors import StateLockedError, StoreError
from watchdog.model import Notification, NotificationKind, Severity, Silence, Text, Verdict
from watchdog.store import Commit, Queued, Reader, Requests, Store
from watchdog.store.files import start_error
from watchdog.store.schema import MIGRATIONS
from watchdog.store.writer_thread import Writer

NOW = 1_795_000_000.0
DAY_S = 86400.0


async def test_a_second_daemon_on_the_same_state_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    store = Store.open(tmp_path, NOW)
    with pytest.raises(StateLockedError, match=f"process {os.getpid()}"):
        Store.open(tmp_path, NOW)
    await store.close()
    await Store.open(tmp_path, NOW).close()


async def test_a_second_daemon_is_refused_also_after_the_lock_file_was_removed(tmp_path: Path) -> None:
    store = Store.open(tmp_path, NOW)
    (tmp_path / "lock").unlink()
    with pytest.raises(StateLockedError, match="is already running"):
        Store.open(tmp_path, NOW)
    await store.close()
    await Store.open(tmp_path, NOW).close()


@pytest.mark.parametrize("how", ["deleted", "moved", "the database alone"])
async def test_a_state_that_is_deleted_or_moved_is_told_and_written_anew_from_memory(tmp_path: Path, how: str) -> None:
    state = tmp_path / "state"
    async with Station(state) as station:
        phone = station.sinks["phone"]
        await station.look(line_seen(), memory={"cursor": "after the line"})
        if how == "moved":
            state.rename(tmp_path / "elsewhere")
        elif how == "deleted":
            shutil.rmtree(state)
        else:
            (state / "state.db").unlink()
        await station.pass_time(5, step_s=5)
        assert in_memory(station.store)
        for _ in range(3):
            await station.fail()
        assert sorted(title.split(":")[0] for title in phone.titles[1:]) == ["FIRING deepseek", "FIRING self/storage"]
        await station.pass_time(60, step_s=5)
        assert not in_memory(station.store)
        assert "self/storage: recovered" in phone.titles[-1]
        before = list(phone.kinds)
        await station.restart()
        assert station.store.memory(line_seen().key) == {"cursor": "after the line"}
        for _ in range(2):
            await station.ok()
        assert phone.kinds == [*before, "RESOLVED"]


async def test_a_second_daemon_that_took_the_place_of_a_lost_state_keeps_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with Station(state) as station:
        state.rename(tmp_path / "elsewhere")
        second = Store.open(state, NOW)
        await station.pass_time(120, step_s=5)
        assert in_memory(station.store)
        await second.close()
        await station.pass_time(60, step_s=5)
        assert not in_memory(station.store)


async def test_the_state_is_readable_by_nobody_else(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state", NOW)
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state" / "state.db").stat().st_mode & 0o077 == 0
    await store.close()


@pytest.mark.parametrize("existing", [False, True])
async def test_every_file_of_the_state_is_closed_to_others_in_an_open_directory_too(
    tmp_path: Path, existing: bool
) -> None:
    """Also when the directory is somebody's own, and when an older version left the files open."""
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        if existing:
            other = sqlite3.connect(tmp_path / "state.db")
            other.execute("PRAGMA journal_mode = WAL")
            other.execute("CREATE TABLE other (x)")
        store = Store.open(tmp_path, NOW)
        await store.commit(Commit(observations=(observed(at=NOW),)))
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir() if file.name != "lock"}
        assert modes == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm", "reserve"), 0o600)
        await store.close()
        with Requests.open(tmp_path) as ask:
            ask.add_silence(Silence(id="s", matcher={"server": "x"}, starts_at=5, ends_at=6, reason="why"))
            assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("state.db*")} == {0}
        if existing:
            other.close()
    finally:
        os.umask(before)


async def damaged_in_the_middle(state_dir: Path) -> None:
    """A database whose first pages are good: what opening alone does not notice."""
    store = Store.open(state_dir, NOW)
    for number in range(300):
        await store.commit(Commit(observations=(observed(at=NOW + number, summary="x" * 500),)))
    await store.close()
    path = state_dir / "state.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(20 * 4096)
        file.write(b"\xa5" * (size - 20 * 4096))


async def test_a_damaged_database_is_told_in_plain_words_whatever_is_read(tmp_path: Path) -> None:
    await damaged_in_the_middle(tmp_path)
    with pytest.raises(StoreError, match=r"state\.db is damaged .* Restart the daemon"):  # noqa: SIM117 - all of it
        with Reader.open(tmp_path) as reader:
            reader.history(KEY, 0, 2e9)
    with pytest.raises(StoreError, match="is damaged"), Requests.open(tmp_path):
        pass


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",), ("history", "--days", "60", "--observations"), ("report", "--days", "60"),
        ("silence", "--for", "1h", "--reason", "x", "server=deepseek"), ("unsilence", "s1"),
        ("ack", "--reason", "x", "i1"),
    ],
)  # fmt: skip
async def test_no_command_prints_a_traceback_or_reports_success_on_a_damaged_database(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    await damaged_in_the_middle(tmp_path)
    command, *rest = arguments
    program = [sys.executable, "-m", "watchdog", command, "--state-dir", str(tmp_path), *rest]
    done = await asyncio.to_thread(subprocess.run, program, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode != 0, done.stdout
    assert "damaged" in done.stderr


def test_a_reader_without_any_state_says_so_plainly(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has `inference-watchdog run` been started there"), Reader.open(tmp_path):
        pass
    (tmp_path / "state.db").write_bytes(b"this is no database, it only looks like a file" * 100)
    with pytest.raises(StoreError, match=r"state\.db is damaged .* renames the file"), Reader.open(tmp_path):
        pass


async def test_a_command_reads_and_asks_beside_a_running_daemon(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            await station.fail(measurements={"ttft_s": 1.25})
        with Reader.open(tmp_path) as reader:
            snapshot = reader.snapshot(station.clock.wall())
            (point, *_rest) = reader.history(KEY, 0, 2e9)
        (incident,) = snapshot.open_incidents
        view = next(view for view in snapshot.keys if view.key == KEY)
        assert (view.incident_id, view.state.fails, view.last and view.last.reason) == (incident.id, 3, "no_token")
        assert (point.verdict, point.measurements) == (Verdict.FAIL, {"ttft_s": 1.25})
        with Requests.open(tmp_path) as ask:
            ask.acknowledge(incident.id, station.clock.wall(), "known", "me")
            ask.queue(
                [
                    Queued(
                        Notification("test1", "phone", NotificationKind.FIRING, Severity.INFO),
                        Text("FIRING x", "y"),
                        NOW,
                    )
                ]
            )
            with pytest.raises(StoreError, match="no open incident"):
                ask.acknowledge("nothing", NOW, "", "")
            with pytest.raises(StoreError, match="no active silence"):
                ask.end_silence("nothing", NOW)
            with pytest.raises(StoreError, match="must end after it starts"):
                ask.add_silence(Silence(id="s", matcher={"server": "x"}, starts_at=5, ends_at=5, reason=""))
            with pytest.raises(StoreError, match="at least one label"):
                ask.add_silence(Silence(id="s", matcher={}, starts_at=5, ends_at=6, reason=""))
        await station.pass_time(5, step_s=5)
        assert station.ingest.open_incidents[0].acknowledged_at is not None
        assert station.sinks["phone"].titles[-1] == "FIRING x"


@pytest.mark.parametrize("damage", ["overwritten", "truncated", "not a database"])
async def test_a_corrupt_database_is_set_aside_and_told_and_everything_goes_on(tmp_path: Path, damage: str) -> None:
    async with Station(tmp_path) as station:
        for number in range(400):
            await station.store.commit(Commit(observations=(observed(Verdict.PASS, at=NOW + number),)))
    path = tmp_path / "state.db"
    content = bytearray(path.read_bytes())
    if damage == "overwritten":
        content[4096:12288] = os.urandom(8192)
    elif damage == "truncated":
        del content[len(content) // 2 :]
    else:
        content[:100] = b"x" * 100
    path.write_bytes(content)
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        assert phone.kinds == ["NEW"]
        assert "was renamed to" in phone.titles[0]
        assert [file.name for file in tmp_path.glob("state.db.corrupt-*")]
        for _ in range(3):
            await station.fail()
        assert phone.kinds == ["NEW", "FIRING"]
        await station.restart()
        assert phone.kinds == ["NEW", "FIRING"]


async def test_a_full_disk_stops_nothing_is_told_and_is_made_good_later(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        await station.ok()
        await fill_up(station.store)
        for _ in range(3):
            await station.fail()
        assert sorted(title.split(":")[0] for title in phone.titles) == ["FIRING deepseek", "FIRING self/storage"]
        assert in_memory(station.store)
        await station.look(line_seen(), memory={"cursor": "after the line"})
        assert "NEW" in phone.kinds
        await station.pass_time(60, step_s=20)  # `mend` opens the file anew, without the limit: there is room again
        assert not in_memory(station.store)
        assert "self/storage: recovered" in phone.titles[-1]
        before = list(phone.kinds)
        await station.restart()
        assert station.store.memory(line_seen().key) == {"cursor": "after the line"}
        for _ in range(2):
            await station.ok()
        assert phone.kinds == [*before, "RESOLVED"]
        points = await station.store.read_in_turn(lambda reader: reader.history(KEY, 0, 2e9))
        assert [point.verdict.value[0] for point in points] == list("pfffpp")


def in_memory(store: Store) -> bool:
    """Whether the disk is not used at the moment."""
    return store.trouble is not None


async def fill_up(store: Store) -> None:
    """Let no page more be written: what a full disk does."""
    await store._do(lambda db: db.execute("PRAGMA max_page_count = 1").fetchone())
    big = observed(Verdict.PASS, key="generation/other", summary="x" * 150)
    for _ in range(200):
        await store.commit(Commit(observations=(big,)))
    assert in_memory(store), "the database never got full"


async def test_a_store_in_memory_can_be_looked_at(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await fill_up(station.store)
        await station.store.commit(Commit(observations=(observed(Verdict.PASS, at=NOW),)))
        assert len(await station.store.read(lambda reader: reader.history(KEY, 0, NOW + 1))) == 1


@pytest.mark.parametrize("named", ["file", "file/state", "file/deeper/state"])
def test_a_file_in_place_of_the_state_directory_stops_the_start(tmp_path: Path, named: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StoreError, match="cannot be a directory"):
        Store.open(tmp_path / named, NOW)
    assert (tmp_path / "file").read_text() == "not a directory"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_directory_that_others_may_write_into_stops_the_start(tmp_path: Path, mode: int) -> None:
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    state_dir.chmod(mode)
    with pytest.raises(StoreError, match=rf"others may write into .* \(mode {mode:04o}\).*chmod 700"):
        Store.open(state_dir, NOW)
    assert list(state_dir.iterdir()) == []


@pytest.mark.parametrize("name", ["lock", "state.db", "state.db-wal", "reserve"])
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_in_place_of_a_file_of_the_state_stops_the_start_and_is_not_followed(
    tmp_path: Path, name: str, there: bool
) -> None:
    victim, state_dir = tmp_path / "victim", tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    if there:
        victim.write_text("precious")
    (state_dir / name).symlink_to(victim)
    with pytest.raises(StoreError, match="is a link or no file"):
        Store.open(state_dir, NOW)
    assert victim.exists() == there
    assert not there or victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere: a closed directory is NOT TESTED")
def test_a_directory_of_somebody_else_stops_the_start_before_it_is_locked(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o500)
    with pytest.raises(StoreError, match="is not writable: permission denied"):
        Store.open(tmp_path / "state", NOW)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "permission denied; give it to the account"),
        (OSError(errno.EROFS, "Read-only file system"), "read-only file system"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/x"), "/x is in the way"),
        (OSError(errno.ENOSPC, "No space left on device"), None),
        (OSError(errno.EIO, "Input/output error"), None),
    ],
)
def test_only_a_disk_that_fails_is_lived_with(tmp_path: Path, error: OSError, words: str | None) -> None:
    refused = start_error(tmp_path, error)
    assert (refused is None) if words is None else (words in str(refused))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 600 KiB."""
    mount, where = shutil.which("mount"), tmp_path / "disk"
    where.mkdir()
    made = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(where)], check=False)
    if not made or made.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail("a tmpfs cannot be mounted here")
        pytest.skip("a tmpfs cannot be mounted here: a really full disk is NOT TESTED")
    yield where
    subprocess.run(["umount", str(where)], check=True)


@pytest.mark.real
async def test_a_really_full_file_system_loses_no_alert_not_even_over_a_restart(small_disk: Path) -> None:
    async with Station(small_disk / "state") as station:
        phone = station.sinks["phone"]
        await station.ok()
        for _ in range(3):
            await station.fail("kernel_log/head", reason="key_refused")
        fill(small_disk / "ballast")
        for _ in range(3):
            for number in range(40):
                await station.ok(f"generation/other-{number}")
            await station.fail()
        assert [title for title in phone.titles if title.startswith("FIRING deepseek")]
        assert [title for title in phone.titles if "self/storage" in title]
        await station.stop()
        fill(small_disk / "more-ballast")
        await station.start()
        for _ in range(2):
            await station.ok("kernel_log/head")
            await station.ok()
        assert "RESOLVED head: recovered after 0 s" in phone.titles
        assert phone.kinds.count("RESOLVED") == 2, "also of what was opened while the disk was full"
        for name in ("ballast", "more-ballast"):
            (small_disk / name).unlink()
        await station.pass_time(60, step_s=20)
        assert not in_memory(station.store)
        await station.restart()
        snapshot = await station.store.read_in_turn(lambda reader: reader.snapshot(station.clock.wall()))
        assert snapshot.open_incidents == ()


@pytest.mark.parametrize("still_full", [False, True], ids=["room again", "still full"])
@pytest.mark.real
async def test_what_was_told_while_the_disk_was_full_ends_also_after_a_kill(small_disk: Path, still_full: bool) -> None:
    async with Station(small_disk / "state") as station:
        phone = station.sinks["phone"]
        await station.ok()
        fill(small_disk / "ballast")
        for number in range(200):
            await station.ok(f"generation/other-{number}")
        assert in_memory(station.store)
        for _ in range(3):
            await station.fail()
        await station.look(line_seen())
        (fired,) = [one.incident_id for one, text in phone.accepted if text.title.startswith("FIRING deepseek")]
        before = len(phone.accepted)
        left = await killed(station)
        if not still_full:
            (small_disk / "ballast").unlink()
        await station.start()
        assert in_memory(station.store) == still_full
        await station.look(line_seen())
        for _ in range(3):
            await station.ok()
        since = [(one.kind.is_end, one.incident_id) for one, _ in phone.accepted[before:]]
        assert since.count((True, fired)) == 1
        assert all(is_end for is_end, _ in since), "nothing is told anew: the line is known, too"
        await asyncio.to_thread(left.close)


async def killed(station: Station) -> Writer:
    """End as SIGKILL does: nothing is written any more, and the lock is free. Gives what still has files open."""
    assert station._task is not None
    station._task.cancel()
    await asyncio.gather(station._task, return_exceptions=True)
    station._task = None
    assert station.store._lock is not None
    station.store._lock.close()
    return station.store._writer


def fill(ballast: Path) -> None:
    """Write until nothing more fits."""
    file = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (65536, 4096, 512, 1):
            with suppress(OSError):
                while os.write(file, b"x" * size) == size:
                    pass
    finally:
        os.close(file)


async def test_one_job_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    store = Store.open(tmp_path, NOW, linger_s=0.2)
    good = [store.commit(Commit(observations=(observed(at=NOW + number),))) for number in range(5)]
    bad = store.commit(Commit(memory=("check", {1, 2})))
    results = await asyncio.gather(*good, bad, return_exceptions=True)
    assert [isinstance(result, StoreError) for result in results] == [False] * 5 + [True]
    assert len(await store.read_in_turn(lambda reader: reader.history(KEY, 0, 2e9))) == 5
    await store.close()


async def test_an_alert_goes_out_though_its_observation_cannot_be_stored(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        with pytest.raises(StoreError):
            await station.look(line_seen(), memory={"a set is no JSON": {1}})
        await station.quiet()
        assert station.sinks["phone"].kinds == ["NEW"]


async def test_many_takes_at_once_share_a_few_commits(tmp_path: Path) -> None:
    store = Store.open(tmp_path, NOW)
    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    await store._do(lambda db: db.set_trace_callback(count))
    for number in range(500):
        store.note(Commit(observations=(observed(at=NOW + number),), hurried=False))
    assert len(await store.read_in_turn(lambda reader: reader.history(KEY, 0, 2e9))) == 500
    await asyncio.gather(*(store.commit(Commit(observations=(observed(at=NOW + number),))) for number in range(500)))
    await store._do(lambda db: db.set_trace_callback(None))
    assert commits < 15
    await store.close()


async def test_what_is_old_is_deleted_but_nothing_that_still_matters(tmp_path: Path) -> None:
    async with Station(tmp_path, configuration(receiver("phone"), receiver("mail"))) as station:
        for _ in range(3):
            await station.fail()
        await station.look(line_seen())
        await station.pass_time(3700, step_s=600)  # the line goes quiet; the outage stays open
        station.clock.jump_wall(40 * DAY_S)
        await station.pass_time(1200, step_s=600)
        assert await station.store.read_in_turn(lambda reader: reader.history(KEY, 0, 2e9)) == ()
        assert len(await station.store.read_in_turn(lambda reader: reader.incidents(0, 3e9))) == 2
        for _ in range(2):
            await station.ok()
        assert station.sinks["phone"].kinds[-1] == "RESOLVED"
        station.clock.jump_wall(401 * DAY_S)
        await station.pass_time(2400, step_s=600)
        assert await station.store.read_in_turn(lambda reader: reader.incidents(0, 3e9)) == ()
        assert await station.store.read_in_turn(lambda reader: reader.deliveries()) == ()


async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    await Store.open(tmp_path, NOW).close()
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.close()
    with pytest.raises(StoreError, match="newer inference-watchdog"):
        Store.open(tmp_path, NOW)
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_a_service_manager_does_not_try_again_with_a_database_of_a_newer_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(Store.open(tmp_path, NOW).close())
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.close()
    config = tmp_path / "config.yaml"
    config.write_text(
        "servers: [{name: a, base_url: 'http://127.0.0.1:9/v1'}]\n"
        "receivers: [{name: phone, url: 'json://127.0.0.1:9'}]\n"
    )
    config.chmod(0o600)
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(config), "--state-dir", str(tmp_path)])
    assert ended.value.code == 64
    assert "newer inference-watchdog" in capsys.readouterr().err


@pytest.mark.slow
async def test_thirty_days_of_one_server_and_two_hosts_stay_far_below_fifty_mebibytes(tmp_path: Path) -> None:
    store = Store.open(tmp_path, NOW, linger_s=0.0)
    measured = {"ttft_s": 0.8123, "duration_s": 1.9182, "completion_tokens": 5.0, "prompt_tokens": 21.0}
    vitals = {
        "memory_available_bytes": 6.1e10,
        "gpu_busy_percent": 96.0,
        "gpu_power_w": 38.2,
        "gpu_temperature_c": 61.0,
    }
    batch = []
    for number in range(21_600):
        at = NOW + number * 120
        batch.append(observed(Verdict.PASS, at=at, measurements=measured, summary="text after 0.81 s, 1.92 s in all"))
        if number % 5 == 0:
            for host in ("head", "worker"):
                batch.append(observed(Verdict.PASS, f"kernel_log/{host}", at=at, summary="412 lines read, complete"))
                batch.append(observed(Verdict.PASS, f"vitals/{host}", at=at, measurements=vitals, summary="up 12 d"))
        if len(batch) > 500:
            await store.commit(Commit(observations=tuple(batch)))
            batch = []
    await store.close()
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    print(f"30 days of history: {size / 2**20:.1f} MiB")
    assert size < 25 * 2**20
    began = asyncio.get_running_loop().time()
    await Store.open(tmp_path, NOW).close()
    print(f"opening it again, with its check: {asyncio.get_running_loop().time() - began:.3f} s")
