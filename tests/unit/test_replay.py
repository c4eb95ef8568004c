"""`replay`: the real tracker, policy and message over a recording."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.support.alerting_path import configuration
from watchdog.cli import cli
from watchdog.cli.check import observation_json
from watchdog.ingest.replay import RecordingError, Replay, default_plan, read_recording, with_thresholds
from watchdog.model import NotificationKind, Severity
from watchdog.policy import AlertPlan

NIGHT = """
# the server freezes at 03:04; a kernel line came before that
{"at": "03:02:08", "check": "generation/deepseek", "verdict": "pass"}
{"at": "03:03:20", "check": "kernel_log/worker/pcie.aer.fatal/0000:01:00.0", "verdict": "fail"}
{"at": "03:10:08", "check": "generation/deepseek", "verdict": "fail", "reason": "no_token"}
{"at": "03:12:08", "check": "generation/deepseek", "verdict": "fail", "reason": "no_token"}
{"at": "03:14:08", "check": "generation/deepseek", "verdict": "fail", "reason": "no_token"}
{"at": "03:30:41", "check": "generation/deepseek", "verdict": "pass"}
{"at": "03:32:41", "check": "generation/deepseek", "verdict": "pass"}
"""


def played(text: str, *options: str) -> str:
    result = CliRunner().invoke(cli, ["replay", "-", *options], input=text)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_night_is_told_as_it_would_have_been() -> None:
    lines = played(NIGHT).splitlines()
    assert lines[0] == "03:03:20  you: NEW worker: pcie.aer.fatal"
    assert lines[1].startswith("03:14:08  you: FIRING deepseek")
    assert lines[2] == "03:32:41  you: RESOLVED deepseek: recovered after 23 min"
    assert lines[3] == "7 observations, 3 messages."
    assert lines[4].startswith("Still open at the end: kernel_log/worker/pcie.aer.fatal")


def test_another_threshold_pages_sooner() -> None:
    rows = [json.loads(line) for line in played(NIGHT, "--failures", "2", "--json").splitlines()]
    (firing,) = [row for row in rows if row["kind"] == "FIRING"]
    assert firing["at"] % 86400 == 3 * 3600 + 12 * 60 + 8
    assert {row["receiver"] for row in rows} == {"you"}


def test_time_goes_on_between_and_after_the_lines() -> None:
    """Reminders while it is open, and an occurrence that goes quiet."""
    titles = played(NIGHT.replace("03:30:41", "05:30:41").replace("03:32:41", "05:32:41"), "--then", "2h")
    assert "03:14:08  you: FIRING" in titles
    assert " you: STILL FIRING" in titles
    assert "QUIET worker" in titles


def test_a_night_over_midnight_goes_on_the_next_day() -> None:
    text = "\n".join(
        f'{{"at": "{at}", "check": "generation/a", "verdict": "fail"}}' for at in ("23:58", "00:00", "00:02:00")
    )
    assert played(text).startswith("00:02:00  you: FIRING a")


def test_what_check_writes_can_be_played_and_what_history_writes_too() -> None:
    recording = read_recording([NIGHT.splitlines()[2], NIGHT.splitlines()[4]])
    row = {**observation_json(recording.observations[1]), "at": 1_795_970_000.25}
    (seen,) = read_recording([json.dumps(row)]).observations
    assert replace(seen, at=0.0, labels={}) == replace(recording.observations[1], at=0.0, labels={})


def test_a_busy_server_warns_as_the_check_would() -> None:
    (seen,) = read_recording(['{"at": 1, "check": "generation/a", "verdict": "fail", "reason": "busy"}']).observations
    assert seen.severity is Severity.WARN


def test_a_configuration_brings_its_own_receivers_and_thresholds() -> None:
    plan = AlertPlan.from_config(configuration())
    recording = read_recording(NIGHT.splitlines())
    replay = Replay(with_thresholds(plan, 1, None), has_dates=recording.has_dates)
    said = [message for seen in recording.observations for message in replay.play(seen)]
    assert {message.receiver for message in said} == {"phone"}
    assert [message.kind for message in said if message.key.startswith("generation")] == [
        NotificationKind.FIRING,
        NotificationKind.RESOLVED,
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: invalid JSON"),
        ("[1]", "line 1: expected one JSON object a line"),
        ('{"at": 1, "check": "x/y"}', "line 1: `verdict` is missing"),
        ('{"at": 1, "check": "x/y", "verdict": "bad"}', "line 1: `verdict` must be one of pass, fail, unknown"),
        ('{"at": "soon", "check": "x/y", "verdict": "pass"}', "line 1: `at` must look like"),
        ('{"at": true, "check": "x/y", "verdict": "pass"}', "line 1: `at` must be a time"),
        ('{"at": 1, "check": 7, "verdict": "pass"}', "line 1: `check` must be text"),
        ('{"at": 1, "check": "x/y", "verdict": "fail", "evidence": [3]}', "line 1: `evidence` must be a list"),
        ('{"at": 1, "check": "x/y", "verdict": "fail", "count": "many"}', "line 1: `count` must be a number"),
        ("# only a comment", "this file has no observation"),
    ],
)
def test_a_line_that_cannot_be_played_is_named(line: str, problem: str) -> None:
    with pytest.raises(RecordingError) as caught:
        read_recording([line])
    assert str(caught.value).startswith(problem)


def test_dates_and_bare_times_are_not_mixed() -> None:
    lines = [NIGHT.splitlines()[2], '{"at": 1795970000, "check": "generation/a", "verdict": "pass"}']
    with pytest.raises(RecordingError, match="some lines have a date"):
        read_recording(lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("at", "check", "verdict", "reason", "severity", "summary", "evidence", "labels", "count", "nature", "advice")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(("fail", "pass", "page", "a/b", 1e9))))
def test_any_object_is_either_played_or_refused_in_words(raw: dict[str, object]) -> None:
    try:
        recording = read_recording([json.dumps(raw)])
    except RecordingError:
        return
    replay = Replay(default_plan(recording), has_dates=recording.has_dates)
    for seen in recording.observations:
        replay.play(seen)


@pytest.mark.parametrize(("verdict", "reason"), [("pass", "ok"), ("fail", "failed"), ("unknown", "unknown")])
def test_a_verdict_without_a_reason_is_its_own(verdict: str, reason: str) -> None:
    line = json.dumps({"at": "03:02:00", "check": "generation/deepseek", "verdict": verdict})
    (seen,) = read_recording([line]).observations
    assert seen.reason == reason


def test_explain_says_when_a_failing_server_would_be_probed_again_and_why() -> None:
    told = played(
        '{"at": "03:00:00", "check": "generation/deepseek", "verdict": "pass"}\n'
        '{"at": "03:02:00", "check": "generation/deepseek", "verdict": "fail", "reason": "engine_dead"}\n'
        '{"at": "03:04:12", "check": "generation/deepseek", "verdict": "fail", "reason": "no_token"}\n',
        "--explain",
    ).splitlines()
    assert told[0] == (
        "03:02:00  deepseek: engine_dead; next probe after 10s, at most 15s: confirming the server's own words"
    )
    assert told[1] == "03:04:12  deepseek: no_token; next probe at its regular time: nothing proves that it is dead"


def test_what_a_recorded_probe_measured_decides_its_patience_as_it_did_then() -> None:
    """A refused port that had lasted for 30 s might have been a restart: the daemon waited, and so does the replay."""
    lines = [
        f'{{"at": "03:00:{second:02}", "check": "generation/a", "verdict": "fail", "reason": "refused", '
        f'"measurements": {{"down_s": {second}}}}}'
        for second in (0, 15, 30)
    ]
    shown = played("\n".join(lines), "--explain")
    assert "a restart would be over by then" in shown
    assert "FIRING" not in shown
