"""One reading of a host's kernel log with every answer scripted: what is asked for, and what blindness comes to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.clock import ManualClock
from tests.support.scripted_session import BOOT, HEADER, ScriptedSession, framed, record
from watchdog.checks.kernel_log import KernelLogCheck
from watchdog.checks.kernel_pages import Found
from watchdog.checks.kernel_stream import _nothing_to_follow_error
from watchdog.config import HostSettings
from watchdog.journal.frame import Hello
from watchdog.kernlog.matcher import Matcher
from watchdog.model import CheckResult, Observation, Verdict
from watchdog.reasons import HostReason
from watchdog.rulebook import load_rules
from watchdog.ssh import Answer, HostError, Session

HOST = HostSettings(name="worker", address="192.0.2.11", user="monitor", known_hosts="/dev/null")
MATCHER = Matcher(load_rules())
HELLO = framed("journalctl=systemd 257", f"boot={BOOT}")
STRANGER = HEADER.replace("uid=0", "uid=1000")
XID = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."
RING = "6,{number},5000000000,-;{text}"


class Rig:
    """One check, and the sessions that its logins get."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.check = KernelLogCheck(HOST, MATCHER, ManualClock(1_795_000_000.0))
        self.asked: list[str] = []
        self._session = ScriptedSession()
        monkeypatch.setattr("watchdog.checks.kernel_log.reading", self._reading)

    @asynccontextmanager
    async def _reading(self, *_: object, **__: object) -> AsyncIterator[Session]:
        yield self._session

    async def run(self, *answers: tuple[str, Answer]) -> CheckResult:
        self._session = ScriptedSession(*answers)
        result = await self.check.run(None, 1_795_000_000.0)
        self.asked = self._session.asked
        return result


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def condition(result: CheckResult) -> Observation:
    return result.observations[0]


async def test_a_journal_is_read_to_its_end_and_its_findings_come_with_the_condition(rig: Rig) -> None:
    seen = (await rig.run(HELLO, framed(record(1), record(2, XID)))).observations
    assert rig.asked == ["read1 hello", f"read1 journal {BOOT} - 4000"]
    assert (seen[0].verdict, seen[0].measurements["lines"]) == (Verdict.PASS, 2.0)
    assert seen[0].summary == "kernel log read to its end, 2 new lines (journal)"
    assert [one.reason for one in seen[1:]] == ["gpu.fell_off"]


async def test_the_next_reading_goes_on_behind_the_last_line(rig: Rig) -> None:
    await rig.run(HELLO, framed(record(1), record(2)))
    result = await rig.run(HELLO, framed(record(2), record(3)))
    assert rig.asked == ["read1 hello", f"read1 journal {BOOT} s=1;i=2 4000"]
    assert condition(result).summary == "kernel log read to its end, 1 new line (journal)"


async def test_a_line_that_is_no_record_fails_the_reading_and_the_others_count(rig: Rig) -> None:
    seen = condition(await rig.run(HELLO, framed(record(1), "damage", "damage")))
    assert (seen.verdict, seen.reason, seen.measurements["lines"]) == (Verdict.FAIL, "corrupt", 1.0)
    assert seen.summary == "2 lines of the answer could not be parsed"


async def test_a_page_that_breaks_off_is_taken_as_far_as_it_came(rig: Rig) -> None:
    """They may be the last words of a dying machine."""
    seen = (await rig.run(HELLO, (HEADER + "\n" + record(1, XID) + "\n", Answer(None, "")))).observations
    assert (seen[0].verdict, seen[0].reason) == (Verdict.FAIL, "truncated")
    assert [one.reason for one in seen[1:]] == ["gpu.fell_off"]


async def test_a_host_without_a_journal_is_read_from_the_ring_buffer(rig: Rig) -> None:
    result = await rig.run(framed(), framed(RING.format(number=1, text=XID)))
    assert rig.asked == ["read1 hello", "read1 kmsg"]
    assert condition(result).summary == "kernel log read to its end, 1 new line (ring buffer /dev/kmsg, no journal)"
    assert [one.reason for one in result.observations[1:]] == ["gpu.fell_off"]


@pytest.mark.parametrize(
    ("hello", "ring", "reason", "words"),
    [
        (framed(), framed(rc=77, why="kmsg"), "no_journal", "the host keeps no journal, and this user may not read"),
        (framed(), framed(rc=70, why="x"), "no_journal", "the host keeps no journal, and the reader failed"),
        (framed("journalctl=systemd 257"), framed(rc=77, why="kmsg"), "no_journal", "the host keeps no journal"),
        (framed(), framed(), "empty_boot", "neither the journal nor /dev/kmsg shows a kernel line"),
    ],
)
async def test_a_host_that_shows_no_kernel_line_anywhere_is_not_read(
    rig: Rig, hello: tuple[str, Answer], ring: tuple[str, Answer], reason: str, words: str
) -> None:
    answers = (hello, framed(), ring) if "journalctl" in hello[0] else (hello, ring)
    seen = condition(await rig.run(*answers))
    assert (seen.verdict, seen.reason) == (Verdict.FAIL, reason)
    assert seen.summary.startswith(words)


async def test_a_journal_without_a_line_of_the_running_boot_is_not_read_unless_the_ring_has_one(rig: Rig) -> None:
    seen = condition(await rig.run(HELLO, framed(), framed(rc=77, why="kmsg")))
    assert (seen.verdict, seen.reason) == (Verdict.FAIL, "empty_boot")
    result = await rig.run(HELLO, framed(), framed(RING.format(number=1, text="fine")))
    assert condition(result).verdict is Verdict.PASS


async def test_a_user_outside_the_groups_of_the_journal_is_told_so(rig: Rig) -> None:
    hello = framed("journalctl=systemd 257", f"boot={BOOT}", header=STRANGER)
    seen = condition(await rig.run(hello, framed()))
    assert (seen.verdict, seen.reason) == (Verdict.FAIL, "no_permission")
    assert rig.asked[-1].startswith("read1 journal")


# The live stream, and what a reading came to


@pytest.mark.parametrize(
    ("uid", "journalctl", "reason"),
    [
        (1000, "systemd 257", HostReason.NO_PERMISSION),
        (0, "systemd 257", HostReason.NO_JOURNAL),
        (1000, "", HostReason.NO_JOURNAL),
    ],
)
def test_a_stream_without_a_line_to_begin_with_says_what_is_in_the_way(
    uid: int, journalctl: str, reason: HostReason
) -> None:
    hello = Hello(BOOT, 1.0, 1.0, uid, frozenset(), journalctl, (BOOT,))
    assert _nothing_to_follow_error(HOST, hello).reason is reason


def test_of_several_troubles_of_one_reading_the_first_is_told() -> None:
    found = Found()
    first, second = HostError(HostReason.GAP, "first"), HostError(HostReason.CORRUPT, "second")
    for trouble in (None, first, None, second):
        found.note(trouble)
    assert found.trouble is first
