"""What an observation says in words: subject, summary, count and detail are kept apart and put together once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.diagnosis_cases import line as occurrence
from watchdog.checks.host_log import lost_lines, merge_occurrences
from watchdog.config import HostSettings
from watchdog.journal.boot import Loss
from watchdog.kernlog.grouping import observations
from watchdog.kernlog.lines import KernelLine, Origin
from watchdog.kernlog.matcher import Matcher
from watchdog.message import render
from watchdog.model import Incident, NotificationKind, Observation, split_statement
from watchdog.rulebook import load_rules
from watchdog.store.codec import incident_from_text, incident_to_text

NOW = 1_795_000_000.0
MATCHER = Matcher(load_rules())
ACS = "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0"
SUPPRESSED = "mlx5_cmd_out_err: 353031 callbacks suppressed"
HOST = HostSettings(name="worker", address="192.0.2.11", user="monitor", known_hosts="/dev/null")


def batch(*messages: str) -> Observation:
    lines = [KernelLine(text, NOW + place, None, Origin.KERNEL) for place, text in enumerate(messages)]
    (one,), _ = observations("worker", lines, MATCHER, NOW, None)
    return one


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((ACS,), (ACS,), ", 2 lines"),
        ((ACS,) * 2, (ACS,) * 3, ", 5 lines"),
        ((ACS, SUPPRESSED), (ACS,), ", at least 2 lines"),
        ((ACS,), (ACS, SUPPRESSED), ", at least 2 lines"),
    ],
)
def test_folded_batches_say_their_sum(first: tuple[str, ...], second: tuple[str, ...], said: str) -> None:
    (one,) = merge_occurrences((batch(*first), batch(*second)))
    assert one.statement == f"worker: Fatal PCIe error (0000:01:00.0){said}"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((5,), "kernel log incomplete, 5 lost lines"),
        ((5, 7), "kernel log incomplete, 12 lost lines"),
        ((None,), "kernel log incomplete, at least 1 lost line"),
        ((None, 7), "kernel log incomplete, at least 8 lost lines"),
    ],
)
def test_losses_say_how_many_lines_are_gone(counts: tuple[int | None, ...], said: str) -> None:
    (one,) = merge_occurrences(lost_lines(HOST, Loss("b" * 32, count, "a gap"), NOW) for count in counts)
    assert one.statement == f"worker: {said}"


def test_a_message_about_lost_lines_keeps_its_words_and_says_the_count_once() -> None:
    about = occurrence("log.incomplete", "worker", summary="kernel log incomplete", unit="lost line", count=5)
    text = render(about, NotificationKind.NEW, now=about.since, zone=None)
    assert text.title == "NEW worker: kernel log incomplete, 5 lost lines"
    assert text.body.startswith("worker: kernel log incomplete; 5 lost lines, first ")
    over = render(about, NotificationKind.QUIET, now=about.since + 4000, zone=None)
    assert "times" not in over.title + over.body
    assert "5 lost lines" in over.body


FULL = occurrence(subject="head", unit="line", at_least=True, detail=", before the reboot", look_only=True, count=4)


@pytest.mark.parametrize("incident", [FULL, replace(FULL, subject="", unit="", at_least=False, detail="")])
def test_an_incident_comes_back_from_its_row_as_it_was(incident: Incident) -> None:
    assert incident_from_text(incident_to_text(incident)) == incident


@pytest.mark.parametrize("labels", [{"host": "head"}, {"server": "head", "host": "worker"}, {"receiver": "head"}, {}])
def test_a_stored_summary_begins_with_its_subject_as_older_versions_wrote_it(labels: dict[str, str]) -> None:
    known = replace(FULL, labels=labels, unit="", at_least=False, detail="", look_only=False)
    raw = json.loads(incident_to_text(known))
    assert raw["summary"] == "head: pcie.aer.fatal"
    assert raw.keys().isdisjoint({"unit", "at_least", "detail", "look_only"})
    assert ("subject" in raw) == (not labels)
    assert incident_from_text(json.dumps(raw)) == known


def test_a_summary_that_only_looks_as_if_it_named_its_subject_stays_as_it_is() -> None:
    odd = replace(FULL, subject="", summary="head: no route")
    assert incident_from_text(incident_to_text(odd)) == odd


@pytest.mark.parametrize(
    ("text", "subject", "parts"),
    [
        ("head: no route", "head", ("head", "no route")),
        ("head:no route", "head", ("", "head:no route")),
        ("header: no route", "head", ("", "header: no route")),
        (": no route", "", ("", ": no route")),
    ],
)
def test_only_a_text_that_begins_with_its_subject_is_split(text: str, subject: str, parts: tuple[str, str]) -> None:
    assert split_statement(text, subject) == parts
