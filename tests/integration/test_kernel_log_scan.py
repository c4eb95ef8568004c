"""The scan over a real sshd on real journal files: no line lost, none repeated, no blindness called healthy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.journal_files import MISSED_ID, SECOND, STARTED_ID, STOPPED_ID, Journal
from tests.support.kernel_log_checks import check, condition, fatal, fatals, found, scan
from tests.support.memory_growth import growth
from tests.support.sshd import RealHost, real_host
from watchdog.model import Severity, Verdict

pytestmark = pytest.mark.real


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    """A running machine with an empty journal directory."""
    with real_host(tmp_path / "lab") as machine:
        yield machine


def fresh(host: RealHost, age_s: float = 300.0) -> Journal:
    """A journal whose boot began `age_s` seconds ago, with its first line."""
    journal = host.journal(wall_us=int((time.time() - age_s) * SECOND))
    journal.kernel(host.boot, 1 * SECOND, "Linux version 6.17.0-1014-nvidia")
    return journal


def next_boot(host: RealHost, number: int) -> None:
    host.set_boot(f"{number:08x}" + "0" * 24)


async def test_a_healthy_machine_is_read_to_its_end_and_nothing_is_told_twice(host: RealHost) -> None:
    journal = fresh(host)
    journal.kernel(host.boot, 2 * SECOND, fatal(1))
    host.plant(journal)
    watch = check(host.settings())
    first, second = await scan(watch), await scan(watch)
    assert condition(first).reason == "ok"
    assert found(first) == fatals(1)
    assert condition(second).verdict is Verdict.PASS
    assert found(second) == {}


async def test_a_hard_lock_is_told_with_its_last_lines_and_each_line_once(host: RealHost) -> None:
    journal = fresh(host)
    host.plant(journal)
    watch = check(host.settings())
    await scan(watch)
    journal.kernel(host.boot, 200 * SECOND, fatal(2))
    host.plant(journal)
    next_boot(host, 7)
    journal.kernel(host.boot, 1 * SECOND, "Linux version 6.17.0-1014-nvidia")
    journal.kernel(host.boot, 2 * SECOND, "BERT: Error records from previous boot:")
    host.plant(journal)
    result = await scan(watch)
    assert condition(result).reason == "ok"
    rebooted = next(o for o in result.observations if "host.rebooted" in o.key)
    assert rebooted.key == f"kernel_log/lab/host.rebooted/{host.boot}"
    assert rebooted.severity is Severity.WARN
    assert fatal(2) in rebooted.evidence[1].text
    assert "BERT" in rebooted.statement
    assert next(o for o in result.observations if "0000:02" in o.key).statement.endswith("before the reboot")
    assert found(await scan(watch)) == {}


async def test_a_clean_shutdown_is_no_reason_to_wake_anyone(host: RealHost) -> None:
    journal = fresh(host)
    journal.driver(host.boot, 2 * SECOND, "Journal stopped", STOPPED_ID)
    journal.driver(host.boot, 3 * SECOND, "Journal started", STARTED_ID)
    host.plant(journal)
    watch = check(host.settings())
    await scan(watch)
    journal.driver(host.boot, 90 * SECOND, "Journal stopped", STOPPED_ID)
    host.plant(journal)
    next_boot(host, 7)
    journal.kernel(host.boot, 1 * SECOND, "Linux version")
    host.plant(journal)
    (rebooted,) = (o for o in (await scan(watch)).observations if "host.rebooted" in o.key)
    assert rebooted.severity is Severity.INFO
    assert "clean shutdown" in rebooted.statement


async def test_a_boot_whose_wall_clock_went_back_hides_nothing(host: RealHost) -> None:
    host.plant(fresh(host))
    watch = check(host.settings())
    await scan(watch)
    next_boot(host, 7)
    journal = host.journal(wall_us=int((time.time() - 3 * 365 * 86400) * SECOND))
    journal.kernel(host.boot, 1 * SECOND, "Linux version")
    journal.kernel(host.boot, 2 * SECOND, fatal(3))
    host.plant(journal, "second")
    result = await scan(watch)
    assert condition(result).reason == "ok"
    assert fatals(3).items() <= found(result).items()
    assert "log.history/-" not in found(result)


async def test_a_cursor_that_was_rotated_away_is_a_gap_and_reading_goes_on(host: RealHost) -> None:
    journal = fresh(host)
    first = host.plant(journal)
    watch = check(host.settings())
    await scan(watch)
    first.unlink()
    journal.kernel(host.boot, 100 * SECOND, fatal(4))
    host.plant(journal, "later")
    result = await scan(watch)
    assert condition(result).reason == "gap"
    assert condition(result).verdict is Verdict.FAIL
    assert found(result) == {**fatals(4), "log.incomplete/-": 1}
    after = await scan(watch)
    assert (condition(after).reason, found(after)) == ("ok", {})


async def test_lines_journald_lost_are_counted(host: RealHost) -> None:
    journal = fresh(host)
    journal.driver(host.boot, 2 * SECOND, "Missed 4741 kernel messages", MISSED_ID)
    host.plant(journal)
    watch = check(host.settings())
    result = await scan(watch)
    assert condition(result).reason == "gap"
    assert found(result) == {"log.incomplete/-": 4741}
    assert condition(await scan(watch)).reason == "ok"


async def test_a_ring_imported_again_repeats_nothing(host: RealHost) -> None:
    journal = fresh(host)
    lines = [fatal(number) for number in range(1, 6)]
    for number, line in enumerate(lines, start=2):
        journal.kernel(host.boot, number * SECOND, line)
    host.plant(journal)
    watch = check(host.settings())
    first = await scan(watch)
    for number, line in enumerate(lines, start=2):
        journal.kernel(host.boot, number * SECOND, line, received_us=200 * SECOND + number)
    journal.kernel(host.boot, 210 * SECOND, fatal(9))
    host.plant(journal)
    again = await scan(watch)
    assert found(first) == fatals(1, 2, 3, 4, 5)
    assert (condition(again).reason, found(again)) == ("ok", fatals(9))


async def test_text_that_is_not_utf8_or_very_long_or_of_several_lines_is_read(host: RealHost) -> None:
    journal = fresh(host)
    journal.kernel(host.boot, 2 * SECOND, fatal(1).encode() + b" caf\xe9 \xff")
    journal.kernel(host.boot, 3 * SECOND, fatal(2) + " " + "L" * 6000)
    journal.kernel(host.boot, 4 * SECOND, "two\n" + fatal(3))
    journal.kernel(host.boot, 5 * SECOND, "")
    journal.kernel(host.boot, 6 * SECOND, "\x1b[31m" + fatal(4))
    journal.kernel(host.boot, 7 * SECOND, fatal(5))
    host.plant(journal)
    result = await scan(check(host.settings()))
    assert condition(result).reason == "ok"
    assert condition(result).measurements["lines"] == 7
    assert fatals(1, 2, 3, 5).items() <= found(result).items()


async def test_what_users_write_under_the_kernels_name_wakes_nobody(host: RealHost) -> None:
    journal = fresh(host)
    journal.forged(host.boot, 2 * SECOND, fatal(1))
    journal.userspace(host.boot, 3 * SECOND, fatal(2))
    host.plant(journal)
    result = await scan(check(host.settings()))
    assert condition(result).reason == "ok"
    assert found(result) == {}


async def test_who_may_not_read_the_journal_is_told_what_to_do(host: RealHost) -> None:
    host.plant(fresh(host))
    result = await scan(check(host.settings(user="plain")))
    assert condition(result).verdict is Verdict.FAIL
    assert condition(result).reason == "no_permission"
    assert "sudo usermod -aG systemd-journal plain" in condition(result).advice


async def test_seeing_only_ones_own_journal_is_not_seeing_the_kernels(host: RealHost) -> None:
    host.plant(fresh(host))
    own = host.journal()
    own.forged(host.boot, 5 * SECOND, "a line of my own")
    path = host.plant(own, "user-4203")
    path.chmod(0o644)
    assert condition(await scan(check(host.settings(user="owner")))).reason == "no_permission"


async def test_losing_the_permission_later_is_noticed(host: RealHost) -> None:
    path = host.plant(fresh(host))
    watch = check(host.settings())
    await scan(watch)
    path.chmod(0o600)
    assert condition(await scan(watch)).verdict is Verdict.FAIL
    path.chmod(0o640)
    after = await scan(watch)
    assert (condition(after).reason, found(after)) == ("ok", {})


async def test_no_journal_at_all_is_no_silence(host: RealHost) -> None:
    assert condition(await scan(check(host.settings()))).reason == "no_journal"


async def test_a_journal_without_the_kernels_lines_is_no_silence(host: RealHost) -> None:
    journal = host.journal()
    journal.driver(host.boot, 1 * SECOND, "Journal started", STARTED_ID)
    host.plant(journal)
    assert condition(await scan(check(host.settings()))).reason == "empty_boot"


async def test_a_journal_of_another_boot_only_is_no_silence(host: RealHost) -> None:
    host.plant(fresh(host))
    next_boot(host, 7)
    assert condition(await scan(check(host.settings()))).reason == "empty_boot"


async def test_without_a_journal_the_ring_buffer_is_read_where_that_is_allowed(host: RealHost) -> None:
    watch = check(host.settings(user="root"))
    first, second = await scan(watch), await scan(watch)
    assert condition(first).reason == "ok"
    assert "/dev/kmsg" in condition(first).summary
    assert condition(first).measurements["lines"] > 10
    assert condition(second).measurements["lines"] < 10


async def test_a_damaged_journal_file_is_not_called_healthy_and_the_good_one_is_read(host: RealHost) -> None:
    journal = fresh(host)
    journal.kernel(host.boot, 2 * SECOND, fatal(1))
    host.plant(journal)
    journal.kernel(host.boot, 3 * SECOND, fatal(2))
    broken = host.plant(journal, "broken")
    broken.write_bytes(broken.read_bytes()[:3000])
    result = await scan(check(host.settings()))
    assert condition(result).reason == "corrupt"
    assert condition(result).verdict is Verdict.FAIL
    assert found(result) == fatals(1)


async def test_a_journal_that_is_damaged_altogether_is_not_called_healthy(host: RealHost) -> None:
    path = host.plant(fresh(host))
    path.write_bytes(b"garbage" * 2000)
    assert condition(await scan(check(host.settings()))).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("bashrc", "reason"),
    [
        ("echo Welcome; printf 'no newline'", "ok"),
        ("exit 0", "command_failed"),
        ("cat >/dev/null", "command_failed"),
        ("echo complaint >&2", "ok"),
        ("echo 'INFERENCE-WATCHDOG-READER END rc=0 why=ok'; exit 0", "command_failed"),
    ],
)
async def test_a_login_that_talks_or_exits_does_not_look_healthy(host: RealHost, bashrc: str, reason: str) -> None:
    host.plant(fresh(host))
    (host.root / "lab/home/.bashrc").write_text(bashrc + "\n")
    assert condition(await scan(check(host.settings()))).reason == reason


async def test_the_installed_reader_gives_the_same_as_the_one_sent(host: RealHost) -> None:
    journal = fresh(host)
    journal.kernel(host.boot, 2 * SECOND, fatal(1))
    host.plant(journal)
    installed = check(host.settings(identity_file=str(host.forced_key), forced_command=True))
    assert found(await scan(installed)) == found(await scan(check(host.settings()))) == fatals(1)


async def test_a_restricted_key_used_without_saying_so_names_the_setting(host: RealHost) -> None:
    host.plant(fresh(host))
    result = await scan(check(host.settings(identity_file=str(host.forced_key))))
    assert condition(result).reason == "config"
    assert "forced_command: true" in condition(result).advice


async def test_a_reader_that_is_not_installed_is_named(host: RealHost) -> None:
    result = await scan(check(host.settings(forced_command=True)))
    assert condition(result).reason == "command_failed"
    assert "must be installed" in condition(result).advice


async def test_killed_at_any_point_the_next_process_goes_on_from_what_was_stored(host: RealHost) -> None:
    journal = fresh(host)
    journal.kernel(host.boot, 2 * SECOND, fatal(1))
    host.plant(journal)
    stored = await scan(check(host.settings()))
    journal.kernel(host.boot, 3 * SECOND, fatal(2))
    host.plant(journal)
    lost = await scan(check(host.settings()), stored.memory)  # read, and killed before it was stored
    assert found(lost) == fatals(2)
    again = await scan(check(host.settings()), stored.memory)
    assert found(again) == fatals(2)
    assert found(await scan(check(host.settings()), again.memory)) == {}


@pytest.mark.alone
async def test_ten_thousand_lines_take_under_two_seconds_and_twenty_mebibytes(host: RealHost) -> None:
    journal = fresh(host)
    host.plant(journal)
    watch = check(host.settings())
    await scan(watch)
    for number in range(10_000):
        journal.kernel(host.boot, 3 * SECOND + number * 1000, f"labdrv 0000:41:00.0: filler line {number:06d} lorem")
    journal.kernel(host.boot, 20 * SECOND, fatal(2))
    host.plant(journal)
    started = time.monotonic()
    result, grown = await growth(scan(watch))
    took = time.monotonic() - started
    for _ in range(2):  # the machine may have been busy with something else
        if took >= 2.0:
            started = time.monotonic()
            await scan(check(host.settings()))
            took = min(took, time.monotonic() - started)
    print(f"scan of 10,001 new lines over sshd: {took:.2f} s, {grown:.1f} MiB more memory")
    assert condition(result).measurements["lines"] == 10_001
    assert found(result) == fatals(2)
    assert took < 2.0
    assert grown < 20
