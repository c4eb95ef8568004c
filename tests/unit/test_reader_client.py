"""Asking the reader on a host, without a host: what a whole answer, a cut one and a wrong one come to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.clock import ManualClock
from tests.support.scripted_session import BOOT, HEADER, ScriptedSession, framed, greeting, record
from watchdog.checks import reader_client
from watchdog.checks.examination import SAMPLE_LINES, _lines, described_lines, examine
from watchdog.config import HostSettings
from watchdog.journal.frame import Hello
from watchdog.reasons import HostReason
from watchdog.ssh import Answer, HostError, Session

HOST = HostSettings(name="worker", address="192.0.2.11", user="monitor", known_hosts="/dev/null")
KMSG = "6,{number},1000000,-;a line of the ring"


async def test_a_greeting_says_who_we_are_and_which_boots_there_are() -> None:
    hello = await reader_client.ask_hello(ScriptedSession(framed("journalctl=systemd 257", f"boot={BOOT}")))
    assert hello == greeting()


@pytest.mark.parametrize(
    "header",
    [
        HEADER.replace(f"boot={BOOT}", "boot=b"),
        HEADER.replace(f"boot={BOOT} ", ""),
        HEADER.replace("uid=0", "uid=root"),
    ],
    ids=["a boot id that is none", "no boot id", "a user number that is none"],
)
async def test_a_greeting_that_no_reader_sends_is_not_believed(header: str) -> None:
    with pytest.raises(HostError, match="greeting could not be parsed") as caught:
        await reader_client.ask_hello(ScriptedSession(framed(header=header)))
    assert caught.value.reason is HostReason.CORRUPT


@pytest.mark.parametrize("rc", [124, 137])
async def test_a_list_of_boots_that_was_not_finished_is_a_timeout_of_the_host(rc: int) -> None:
    with pytest.raises(HostError, match="could not list the boots") as caught:
        await reader_client.ask_hello(ScriptedSession(framed(f"boots_rc={rc}")))
    assert caught.value.reason is HostReason.TIMEOUT


@pytest.mark.parametrize(
    ("text", "answer", "reason", "words"),
    [
        (HEADER + "\n", Answer(None, ""), HostReason.TRUNCATED, "the connection broke"),
        ("Welcome!\n", Answer(1, ""), HostReason.COMMAND_FAILED, r'\(exit status 1\); the login printed "Welcome!"'),
        ("", Answer(127, "sh: not found\nmore"), HostReason.COMMAND_FAILED, r"\(exit status 127\): sh: not found$"),
        (HEADER + "\n", Answer(0, ""), HostReason.TRUNCATED, r"cut short \(exit status 0\)"),
        (framed()[0], Answer(137, "Killed"), HostReason.TRUNCATED, r"cut short \(exit status 137\): Killed"),
        (*framed(rc=69, why="no-journalctl"), HostReason.NO_JOURNAL, "no journalctl"),
        (*framed(rc=70, why="journalctl-124"), HostReason.TIMEOUT, "did not finish in time"),
        (
            *framed(rc=70, why="journalctl-1", stderr="Permission denied"),
            HostReason.NO_PERMISSION,
            "user monitor may not read",
        ),
        (*framed(rc=70, why="journalctl-1", stderr="odd"), HostReason.COMMAND_FAILED, r"\(journalctl-1\): odd"),
    ],
)
async def test_an_answer_without_both_ends_of_its_frame_is_no_answer(
    text: str, answer: Answer, reason: HostReason, words: str
) -> None:
    with pytest.raises(HostError, match=words) as caught:
        await reader_client.ask(ScriptedSession((text, answer)), "read1 kmsg", lambda _: None)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("", None),
        ("Permission denied", HostReason.NO_PERMISSION),
        ("Journal file /var/log/x is truncated, ignoring file.", HostReason.CORRUPT),
        ("something else", HostReason.STDERR),
    ],
)
async def test_a_whole_answer_is_doubted_for_what_the_host_complains_of(stderr: str, reason: HostReason | None) -> None:
    asked = await reader_client.ask(ScriptedSession(framed(stderr=stderr)), "read1 kmsg", lambda _: None)
    assert (asked.trouble and asked.trouble.reason) == reason


def test_a_page_counts_what_is_no_record_and_takes_no_line_more_than_was_asked_for() -> None:
    page = reader_client.RecordCollector(most=2)
    page.take(record(1).encode())
    page.take(b"not a record")
    assert (len(page.records), page.lines, page.bad) == (1, 2, 1)
    with pytest.raises(HostError, match="more than the 2 lines") as caught:
        page.take(record(2).encode())
    assert caught.value.reason is HostReason.CORRUPT


async def test_a_ring_buffer_that_was_overwritten_meanwhile_is_read_again() -> None:
    overwritten = framed(KMSG.format(number=1), rc=75, why="overrun")
    session = ScriptedSession(overwritten, overwritten, framed(KMSG.format(number=8), " SUBSYSTEM=pci"))
    records, trouble = await reader_client.ring(session)
    assert [found.sequence for found in records] == [8]
    assert trouble is None
    with pytest.raises(HostError, match="faster than it can be read"):
        await reader_client.ring(ScriptedSession(*[overwritten] * 3))


async def test_lines_of_the_ring_buffer_that_are_no_records_are_counted() -> None:
    records, trouble = await reader_client.ring(ScriptedSession(framed("damage", KMSG.format(number=1), "damage")))
    assert len(records) == 1
    assert trouble is not None
    assert trouble.summary == "2 lines of the answer could not be parsed"


async def test_a_ring_buffer_that_may_not_be_read_is_not_asked_for_again() -> None:
    session = ScriptedSession(framed(rc=77, why="kmsg"))
    with pytest.raises(HostError, match="may not read /dev/kmsg"):
        await reader_client.ring(session)
    assert session.asked == ["read1 kmsg"]


@pytest.mark.parametrize(
    ("host_ahead_s", "offset_s"), [(0.0, 0.0), (1.4, 0.0), (-1.4, 0.0), (1.6, 1.6), (-2.0, -2.0), (90.04, 90.0)]
)
async def test_a_clock_that_is_off_by_less_than_can_be_measured_is_right(host_ahead_s: float, offset_s: float) -> None:
    """The host gives whole seconds, cut off, so that half a second more is the likeliest."""
    heard = ManualClock(1_795_000_000.0 + 0.5 - host_ahead_s)
    answer = await reader_client.ask_vitals(ScriptedSession(framed()), heard)
    assert answer.clock_offset_s == pytest.approx(offset_s)


async def test_vitals_without_the_time_of_the_host_say_nothing_of_its_clock() -> None:
    session = ScriptedSession(framed(header=HEADER.replace("now=1795000000 ", "")))
    assert (await reader_client.ask_vitals(session, ManualClock())).clock_offset_s is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [(framed(rc=70, why="awk"), "awk"), ((HEADER + "\n", Answer(0, "")), "no proper end"), (framed(header="x"), "ok")],
)
async def test_vitals_without_a_good_end_are_none(answer: tuple[str, Answer], why: str) -> None:
    with pytest.raises(HostError, match=rf"gave no vitals \({why}\)"):
        await reader_client.ask_vitals(ScriptedSession(answer), ManualClock())


# One look for `init` and `doctor`


async def test_one_look_compares_the_clocks_and_tells_how_sure_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host answers somewhere between two looks at our clock, and gives whole seconds, cut off."""
    clock = ManualClock(1_795_000_000.0)

    class SlowSession(ScriptedSession):
        async def ask(self, request: str, take: Callable[[bytes], None], **options: Any) -> Answer:
            if request == "read1 hello":
                clock.stand_still(3.0)
            return await super().ask(request, take, **options)

    @asynccontextmanager
    async def logged_in(*_: object, **__: object) -> AsyncIterator[Session]:
        yield SlowSession(framed("journalctl=systemd 257", f"boot={BOOT}"), framed(record(1)))

    monkeypatch.setattr("watchdog.checks.examination.reading", logged_in)
    found = await examine(HOST, clock, 5.0)
    assert (found.offset_s, found.unsure_s) == (-1.0, 2.0)
    assert (found.lines, found.source, found.trouble, found.forced_command) == (1, "journal", None, False)


async def test_a_key_that_is_bound_to_the_reader_is_looked_at_again_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    logins: list[bool] = []
    refused = framed(rc=64, why="request")

    @asynccontextmanager
    async def logged_in(host: HostSettings, *_: object, **__: object) -> AsyncIterator[Session]:
        logins.append(host.forced_command)
        yield ScriptedSession(*[framed()] * 2) if host.forced_command else ScriptedSession(refused)

    monkeypatch.setattr("watchdog.checks.examination.reading", logged_in)
    assert (await examine(HOST, ManualClock(), 5.0)).forced_command
    assert logins == [False, True]
    refused = framed(rc=70, why="awk")
    with pytest.raises(HostError, match=r"\(awk\)"):
        await examine(HOST, ManualClock(), 5.0)
    assert logins == [False, True, False]


async def test_one_look_takes_its_sample_of_lines_from_the_journal() -> None:
    session = ScriptedSession(framed(record(1), record(2)))
    assert await _lines(session, HOST, greeting()) == (2, "journal", None)
    assert session.asked == [f"read1 journal {BOOT} - {SAMPLE_LINES}"]


async def test_one_look_at_an_empty_journal_goes_on_with_the_ring_buffer() -> None:
    session = ScriptedSession(framed(), framed(KMSG.format(number=1)))
    assert await _lines(session, HOST, greeting()) == (1, "kernel ring buffer", None)


@pytest.mark.parametrize("seen", [greeting(journalctl=""), greeting(boots=())])
async def test_one_look_asks_no_journal_that_is_not_there_and_says_when_the_ring_is_empty_too(seen: Hello) -> None:
    session = ScriptedSession(framed())
    count, source, trouble = await _lines(session, HOST, seen)
    assert (count, source) == (0, "kernel ring buffer")
    assert trouble is not None
    assert trouble.reason is HostReason.EMPTY_BOOT
    assert session.asked == ["read1 kmsg"]


async def test_one_look_by_a_user_outside_the_groups_of_the_journal_asks_for_nothing() -> None:
    session = ScriptedSession()
    count, source, trouble = await _lines(session, HOST, greeting(uid=1000))
    assert (count, source) == (0, "journal")
    assert trouble is not None
    assert trouble.reason is HostReason.NO_PERMISSION
    assert session.asked == []


async def test_one_look_that_the_reader_refuses_keeps_its_reason() -> None:
    count, source, trouble = await _lines(ScriptedSession(framed(rc=70, why="x")), HOST, greeting())
    assert (count, source) == (0, "journal")
    assert trouble is not None
    assert trouble.reason is HostReason.COMMAND_FAILED


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 kernel lines"), (1, "1 kernel line"), (19, "19 kernel lines"), (20, "at least 20 kernel lines")],
)
def test_a_sample_of_lines_is_not_said_to_be_all_of_them(count: int, words: str) -> None:
    assert described_lines(count) == words
