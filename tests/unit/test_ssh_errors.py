"""Failures of an SSH connection: where they happened decides what they mean, never how they are worded."""

from __future__ import annotations

import asyncssh
import pytest
from asyncssh import constants

from tests.support.diagnosis_cases import probe, scene, trouble
from watchdog.checks.host_log import reading_condition
from watchdog.checks.reader_client import _reader_error
from watchdog.config import HostSettings
from watchdog.diagnosis import HostView
from watchdog.diagnosis.extract import host_facts
from watchdog.diagnosis.facts import Fact
from watchdog.model import Verdict
from watchdog.reasons import HostReason
from watchdog.ssh import HostError, Stage
from watchdog.ssh.errors import ConnectionProgress, closed_error, error_from_exception, timeout_error

HOST = HostSettings(name="worker", address="192.0.2.11", user="monitor", known_hosts="/dev/null", jump="gate")
STEPS = ("connected", "exchanged", "authenticated")


def progress(stage: Stage) -> ConnectionProgress:
    reached = list(Stage).index(stage)
    made = ConnectionProgress(**dict.fromkeys(STEPS[:reached], True))  # type: ignore[arg-type]  # all of them bool
    made.running = "vitals" if stage is Stage.COMMAND else ""
    return made


@pytest.mark.parametrize("stage", Stage)
def test_a_connection_knows_its_stage(stage: Stage) -> None:
    assert progress(stage).stage is stage
    assert timeout_error(HOST, progress(stage), 30).stage is stage


@pytest.mark.parametrize(
    ("stage", "fact"),
    [
        (Stage.CONNECTING, Fact.HOST_GONE),
        (Stage.GREETING, Fact.HOST_SILENT),
        (Stage.LOGIN, Fact.HOST_SILENT),
        (Stage.SESSION, Fact.HOST_ANSWERS),
        (Stage.COMMAND, Fact.HOST_ANSWERS),
    ],
)
def test_a_deadline_says_whether_the_host_lives_in_any_words(stage: Stage, fact: Fact) -> None:
    error = timeout_error(HOST, progress(stage), 30)
    error.summary = "x"
    away = {Fact.HOST_AWAY} if fact is not Fact.HOST_ANSWERS else set()
    assert facts_after(error) == {fact} | away


def facts_after(error: HostError) -> set[Fact]:
    incident = trouble("generation/deepseek")
    seen = reading_condition(HOST, error, incident.since + 60, 30.0, 0, "journal")
    assert seen.verdict is Verdict.FAIL
    return set(host_facts(HostView(name="worker", kernel_log=seen), scene(probe())))


@pytest.mark.parametrize("why", ["journalctl-124", "journalctl-137"])
def test_a_journalctl_that_hangs_on_the_host_does_not_make_the_host_gone(why: str) -> None:
    error = _reader_error(1, why, "", "monitor")
    assert error.reason is HostReason.TIMEOUT
    assert facts_after(error) == {Fact.HOST_ANSWERS}


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        (Stage.CONNECTING, HostReason.RESET),
        (Stage.GREETING, HostReason.RESET),
        (Stage.LOGIN, HostReason.RESET),
        (Stage.SESSION, HostReason.RESET),
        (Stage.COMMAND, HostReason.TRUNCATED),
    ],
)
def test_a_connection_that_breaks_says_when(stage: Stage, reason: HostReason) -> None:
    error = closed_error(HOST, progress(stage))
    assert (error.reason, error.stage) == (reason, stage)
    assert error.logged_in == (stage in {Stage.SESSION, Stage.COMMAND})


@pytest.mark.parametrize(
    ("code", "text", "reason", "ours"),
    [
        (constants.OPEN_CONNECT_FAILED, "Connection refused", HostReason.REFUSED, False),
        (constants.OPEN_CONNECT_FAILED, "No route to host", HostReason.UNROUTABLE, False),
        (constants.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed", HostReason.JUMP, True),
        (constants.OPEN_RESOURCE_SHORTAGE, "Connection refused", HostReason.JUMP, True),
    ],
)
def test_a_jump_host_that_forwards_nothing_says_nothing_about_the_host_behind_it(
    code: int, text: str, reason: HostReason, ours: bool
) -> None:
    error = error_from_exception(HOST, asyncssh.ChannelOpenError(code, text), progress(Stage.CONNECTING))
    assert (error.reason, error.ours) == (reason, ours)


def test_a_session_that_is_not_opened_says_that_the_host_answers() -> None:
    refused = asyncssh.ChannelOpenError(constants.OPEN_CONNECT_FAILED, "open failed")
    error = error_from_exception(HOST, refused, progress(Stage.SESSION))
    assert (error.reason, error.logged_in) == (HostReason.COMMAND_FAILED, True)
