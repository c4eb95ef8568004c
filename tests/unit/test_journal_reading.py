"""Single rules of the reading that the property tests do not name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.in_memory_journal import InMemoryJournal
from watchdog.journal.boot import FILLING, GAPS_LIMIT, UNTOUCHED, BootReading, Page
from watchdog.journal.reading import HostReading
from watchdog.journal.records import Record, RingRecord

NOW = 1_795_000_000.0


def started(lines: int = 3) -> tuple[InMemoryJournal, HostReading]:
    journal = InMemoryJournal()
    journal.boot()
    journal.print(lines)
    reading = HostReading()
    scan(journal, reading)
    return journal, reading


def scan(journal: InMemoryJournal, reading: HostReading) -> list[Page]:
    pages = []
    for boot in reading.begin(journal.hello, journal.hello.now):
        asked = reading.cursor(boot)
        pages.append(reading.page(boot, asked, journal.page(boot, asked, 1000), more=False))
    return pages


def test_the_tail_of_the_boot_before_is_read_first_and_marked_post_mortem() -> None:
    journal, reading = started()
    journal.print(2)
    journal.boot(clock_back_s=7200)
    tail, fresh = scan(journal, reading)
    assert [line.message for line in tail.lines] == ["line 4", "line 5"]
    assert all(line.post_mortem for line in tail.lines)
    assert [line.post_mortem for line in fresh.lines] == [False]


def test_boots_that_came_and_went_between_two_scans_are_read_too() -> None:
    journal, reading = started()
    journal.boot()
    journal.boot()
    pages = scan(journal, reading)
    assert [line.boot for page in pages for line in page.lines] == journal.boots[1:]
    assert [end.boot for end in reading.boot_ends] == journal.boots[:2]


def test_a_boot_that_stops_without_a_word_did_not_end_cleanly() -> None:
    journal, reading = started()
    journal.boot()
    scan(journal, reading)
    (end,) = reading.boot_ends
    assert not end.clean
    assert end.tail[-1][1] == "line 3"


def test_a_journal_that_was_stopped_last_ended_cleanly() -> None:
    journal, reading = started()
    journal.mark("stopped")  # the initrd's journal
    journal.mark("started")
    journal.print(1)
    journal.mark("shutdown")
    journal.mark("stopped")
    journal.boot()
    scan(journal, reading)
    assert [end.clean for end in reading.boot_ends] == [True]


def test_a_journal_that_came_back_after_a_stop_has_not_ended() -> None:
    journal, reading = started()
    journal.mark("stopped")
    journal.mark("started")
    journal.boot()
    scan(journal, reading)
    assert [end.clean for end in reading.boot_ends] == [False]


def test_an_ending_is_told_once() -> None:
    journal, reading = started()
    journal.boot()
    scan(journal, reading)
    assert reading.boot_ends
    reading.forget_ended()
    scan(journal, reading)
    assert reading.boot_ends == ()


def test_a_greeting_from_a_boot_that_has_ended_meanwhile_is_not_followed() -> None:
    journal, reading = started()
    old = journal.hello
    journal.boot()
    scan(journal, reading)
    reading.forget_ended()
    assert reading.begin(old, old.now) == ()
    assert reading.current == journal.boots[-1]


def test_nothing_visible_of_the_running_boot_is_blindness_and_no_loss() -> None:
    journal, reading = started()
    boot = journal.boots[-1]
    page = reading.page(boot, reading.cursor(boot), [], more=False)
    assert page.visible == 0
    assert page.losses == ()


def test_a_boot_whose_end_is_out_of_sight_is_a_loss_told_once() -> None:
    journal, reading = started()
    journal.boot()
    journal.records = [record for record in journal.records if record.boot == journal.boots[-1]]
    pages = scan(journal, reading)
    assert [len(page.losses) for page in pages] == [1, 0]
    assert [end.gone for end in reading.boot_ends] == [True]


def test_a_rotated_cursor_says_how_many_records_may_be_missing_at_most() -> None:
    journal, reading = started()
    journal.print(10)
    journal.rotate(keep=4)
    (page,) = scan(journal, reading)
    (loss,) = page.losses
    assert "at most 6 records" in loss.text
    assert len(page.lines) == 4


def test_a_new_boot_whose_beginning_was_rotated_away_before_anyone_read_it_is_a_loss() -> None:
    journal, reading = started()
    journal.boot()
    journal.print(5)
    journal.rotate(keep=3)
    tail, fresh = scan(journal, reading)
    assert [len(tail.losses), len(fresh.losses)] == [1, 1]
    assert "beginning" in fresh.losses[0].text


def test_files_moved_from_run_to_var_are_no_gap() -> None:
    journal, reading = started()
    journal.renumber()
    journal.print(1)
    (page,) = scan(journal, reading)
    assert page.losses == ()
    assert [line.message for line in page.lines] == ["line 4"]


def test_lost_lines_are_told_once_even_if_stream_and_scan_both_see_it() -> None:
    journal, reading = started()
    journal.miss(42)
    record = journal.records[-1]
    assert [loss.count for loss in reading.live(record, NOW).losses] == [42]
    (page,) = scan(journal, reading)
    assert page.losses == ()


def test_lines_older_than_an_hour_at_first_contact_are_history() -> None:
    journal = InMemoryJournal()
    journal.boot()
    journal.stamp_us += 7200 * 1_000_000
    journal.print(1)
    reading = HostReading()
    (page,) = scan(journal, reading)
    assert [line.history for line in page.lines] == [True, False]
    again = HostReading.from_json(json.loads(json.dumps(reading.to_json())))
    journal.boot()
    assert not [line for page in scan(journal, again) for line in page.lines if line.history]


def test_a_wall_clock_set_forward_since_does_not_make_fresh_lines_history() -> None:
    journal = InMemoryJournal()
    journal.boot()
    hello = replace(journal.hello, now=journal.hello.now + 10 * 365 * 86400)  # NTP corrected a dead clock after boot
    reading = HostReading()
    reading.begin(hello, hello.now)
    page = reading.page(hello.boot, "-", journal.page(hello.boot, "-", 9), more=False)
    assert [line.history for line in page.lines] == [False]
    assert all(line.at is not None and abs(line.at - hello.now) < 11 for line in page.lines)


def test_a_hosts_wrong_clock_is_translated_to_ours() -> None:
    journal = InMemoryJournal()
    journal.boot()
    reading = HostReading()
    ours = journal.hello.now + 3000
    reading.begin(journal.hello, ours)
    boot = journal.boots[-1]
    (line,) = reading.page(boot, "-", journal.page(boot, "-", 9), more=False).lines
    assert line.at == ours - 9.999


@pytest.mark.parametrize("stepped_s", [3600, -3600, 250, -250])
def test_a_stepped_wall_clock_of_the_host_moves_no_line(stepped_s: int) -> None:
    """Neither "in an hour" nor an hour ago: the kernel's own stamp says when a line was printed."""
    journal, reading = started()
    ours = journal.hello.now
    journal.wall_us += stepped_s * 1_000_000
    journal.stamp_us += 40_000_000
    journal.print(1)
    journal.stamp_us += 20_000_000
    boot = journal.boots[-1]
    reading.begin(journal.hello, ours + 60.001)
    asked = reading.cursor(boot)
    (line,) = reading.page(boot, asked, journal.page(boot, asked, 9), more=False).lines
    assert line.at == pytest.approx(ours + 40.001, abs=0.01)


def test_a_live_line_is_dated_by_when_it_came() -> None:
    journal, reading = started()
    journal.wall_us += 3_600_000_000
    journal.print(1)
    (line,) = reading.live(journal.records[-1], NOW + 5.25).lines
    assert line.at == NOW + 5.25


def test_lines_of_an_ended_boot_are_dated_by_when_that_boot_began_on_our_clock() -> None:
    journal, reading = started()
    journal.stamp_us += 100_000_000
    ours = journal.hello.now + 77
    reading.begin(journal.hello, ours)
    journal.print(1)
    reading = HostReading.from_json(json.loads(json.dumps(reading.to_json())))
    journal.boot(clock_back_s=86400)
    ended = reading.begin(journal.hello, ours + 60)[0]
    asked = reading.cursor(ended)
    (line,) = reading.page(ended, asked, journal.page(ended, asked, 9), more=False).lines
    assert line.at == pytest.approx(ours + 0.001, abs=0.01)
    boot = journal.boots[-1]
    reading.page(boot, "-", journal.page(boot, "-", 9), more=False)
    (end,) = reading.boot_ends
    assert end.restarted_at == ours + 60 - journal.hello.uptime_s


def test_three_equal_lines_in_one_microsecond_are_one() -> None:
    journal, reading = started()
    journal.print(1)
    last = journal.records[-1]
    twin = replace(last, cursor=last.cursor.replace(";i=", ";i=f"))
    boot = journal.boots[-1]
    page = reading.page(boot, reading.cursor(boot), [journal.records[-2], last, twin], more=False)
    assert len(page.lines) == 1


def test_a_page_that_another_reader_was_quicker_with_is_not_taken() -> None:
    journal, reading = started()
    boot = journal.boots[-1]
    asked = reading.cursor(boot)
    journal.print(2)
    scan(journal, reading)
    journal.print(1)
    before = reading.to_json()
    records = journal.page(boot, asked, 9)
    assert reading.page(boot, asked, records, more=False) == Page(stale=True)
    assert reading.page(boot, "-", records, more=False) == Page(stale=True)
    assert reading.page("f" * 32, "-", records, more=False) == Page(stale=True)
    assert reading.to_json() == before


def test_a_page_of_a_boot_that_is_read_to_its_end_is_not_taken() -> None:
    journal, reading = started()
    ended = journal.boots[-1]
    journal.boot()
    scan(journal, reading)
    assert reading.boots[ended].finished
    asked = reading.cursor(ended)
    assert reading.page(ended, asked, journal.page(ended, asked, 9), more=False) == Page(stale=True)


def test_a_page_tells_when_journald_took_its_first_and_its_last_new_line() -> None:
    journal, reading = started()
    journal.print(2)
    first, last = journal.records[-2:]
    journal.mark("started")  # no line, though it came later
    (page,) = scan(journal, reading)
    assert (page.first_us, page.last_us) == (first.received_us, last.received_us)


def ring(*numbers: int) -> list[RingRecord]:
    return [RingRecord(number, number * 10, True, f"entry {number}") for number in numbers]


def test_the_ring_buffer_is_read_once_and_its_losses_are_exact() -> None:
    journal = InMemoryJournal()
    journal.boot()
    reading = HostReading()
    boot = reading.begin(journal.hello, 0.0)[-1]
    assert len(reading.ring(boot, ring(5, 6, 7)).lines) == 3
    again = HostReading.from_json(json.loads(json.dumps(reading.to_json())))
    again.begin(journal.hello, 0.0)
    assert again.ring(boot, ring(6, 7)).lines == ()
    page = again.ring(boot, ring(12, 13))
    assert [line.message for line in page.lines] == ["entry 12", "entry 13"]
    assert [loss.count for loss in page.losses] == [4]


def test_a_line_of_the_ring_buffer_is_placed_by_the_uptime_on_our_clock() -> None:
    journal = InMemoryJournal()
    journal.boot()
    journal.stamp_us = 150 * 1_000_000
    reading = HostReading()
    ours = journal.hello.now + 3000
    boot = reading.begin(journal.hello, ours)[-1]
    (line,) = reading.ring(boot, [RingRecord(1, 100 * 1_000_000, True, "entry")]).lines
    assert line.at == pytest.approx(ours - 50, abs=0.001)
    assert line.monotonic_s == 100


def test_a_journal_that_appears_later_does_not_repeat_what_the_ring_buffer_gave() -> None:
    journal = InMemoryJournal()
    journal.boot()
    journal.print(4)
    reading = HostReading()
    boot = reading.begin(journal.hello, journal.hello.now)[-1]
    known = [RingRecord(n, record.stamp_us, True, record.message or "") for n, record in enumerate(journal.records)]
    assert len(reading.ring(boot, known).lines) == 5
    journal.print(1)
    (page,) = scan(journal, reading)
    assert [line.message for line in page.lines] == ["line 5"]


def test_memory_of_another_version_is_a_first_contact() -> None:
    assert HostReading.from_json({"version": 0, "current": "x"}).current is None
    assert HostReading.from_json(None).current is None


def test_the_stored_memory_does_not_change_under_the_feet_of_its_owner() -> None:
    journal, reading = started()
    stored = reading.to_json()
    before = json.dumps(stored)
    journal.print(5)
    scan(journal, reading)
    assert json.dumps(stored) == before


def test_the_last_words_of_a_dying_machine_that_only_the_stream_brought_are_kept() -> None:
    journal, reading = started()
    journal.print(1)
    lost_on_disk: Record = journal.records.pop()
    assert len(reading.live(lost_on_disk, NOW).lines) == 1
    journal.boot()
    scan(journal, reading)
    assert reading.boot_ends[0].tail[-1][1] == "line 4"


def test_lines_of_a_gap_that_the_ring_still_holds_are_taken_once_when_it_is_imported_again() -> None:
    journal, reading = started()
    journal.print(700)
    journal.rotate(keep=1)
    journal.import_again()
    journal.import_again()
    (page,) = scan(journal, reading)
    assert len(page.losses) == 1
    assert sorted(line.message for line in page.lines) == sorted(f"line {number}" for number in range(4, 704))


def test_a_beginning_that_comes_late_is_taken_though_later_lines_were_read_already() -> None:
    journal, reading = started()
    journal.boot()
    journal.print(700)
    journal.rotate(keep=1)
    journal.import_again()
    lines = [line for page in scan(journal, reading) for line in page.lines]
    assert len(lines) == 701


def test_an_ended_boot_whose_journal_is_gone_is_not_waited_for() -> None:
    journal, reading = started()
    journal.boot()
    old, current = reading.begin(journal.hello, journal.hello.now)
    for boot in (old, current):
        reading.give_up(boot)
    assert [end.boot for end in reading.boot_ends] == [old]
    assert not reading.page(current, "-", journal.page(current, "-", 1000), more=False).stale


# Gaps of one boot: stretches of stamps that nobody has read


def test_lines_that_are_held_for_a_gap_are_forgotten_when_nothing_new_can_come_around_them() -> None:
    at = BootReading(high_us=1_000_000, held={"old": 100_000, "in a gap": 300_000, "new": 995_000})
    at.gaps = [[250_000, 350_000, UNTOUCHED]]
    at.settle_live()
    assert (at.held, at.floor_us) == ({"in a gap": 300_000, "new": 995_000}, 100_000)


def test_of_too_many_gaps_the_oldest_two_become_one() -> None:
    at = BootReading(high_us=10_000_000)
    at.gaps = [[number * 100, number * 100 + 50, UNTOUCHED] for number in range(GAPS_LIMIT)]
    at.note_gap(20_000_000)
    assert len(at.gaps) == GAPS_LIMIT
    assert at.gaps[:2] == [[0, 150, UNTOUCHED], [200, 250, UNTOUCHED]]
    assert at.gaps[-1] == [9_990_001, 20_010_000, UNTOUCHED]


def test_a_gap_ends_where_its_lines_are_read_in_order_and_no_other_does() -> None:
    at = BootReading(high_us=2_000_000, last_us=50_000)
    at.gaps = [[100, 200, UNTOUCHED], [100_000, 900_000, FILLING]]
    assert at.take(500_000, "within", live=False)
    assert at.gaps == [[100, 200, UNTOUCHED], [490_000, 900_000, FILLING]]
    assert at.take(920_000, "behind", live=False)
    assert at.gaps == [[100, 200, UNTOUCHED]]
