"""`validate`: exit codes, the plan for a person and as JSON, all problems at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.config_files import ENVIRON, FIXTURES, SECRETS, lay_out
from watchdog.cli import main

FULL = Path(__file__).parents[2] / "config" / "full.yaml"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that the examples mention."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


def validate(*arguments: str) -> int:
    """Run the command as the command line does; gives the exit code."""
    with pytest.raises(SystemExit) as caught:
        main(["validate", *arguments])
    return int(caught.value.code or 0)


def test_a_good_file_shows_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lay_out(tmp_path, FULL)
    assert validate("--config", str(path)) == 0
    shown = capsys.readouterr()
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert lines[0] == f"{path} is valid: 6 checks, 3 receivers."
    assert lines[3:9] == [
        "generation/deepseek 2m 1m 3 failures in a row 2 passes in a row phone, mail mail",
        "generation/hikari 2m 1m 3 failures in a row 2 passes in a row phone, mail, prometheus mail, prometheus",
        "kernel_log/head 10m 1m 3 failures in a row 2 passes in a row phone, mail mail",
        "kernel_log/worker 10m 1m 3 failures in a row 2 passes in a row phone, mail, prometheus mail, prometheus",
        "vitals/head 10m 30s 3 failures in a row 2 passes in a row phone, mail mail",
        "vitals/worker 10m 30s 3 failures in a row 2 passes in a row phone, mail, prometheus mail, prometheus",
    ]
    assert "mail gets what phone did not accept after 3 tries." in lines
    (latest,) = [line for line in lines if "pages at the latest" in line]
    assert latest.endswith(
        " after: the engine's own error 30s, a crash 1m50s, a hang with one more sign 1m40s, a hang without 7m, "
        "a model that loads 17m."
    )
    assert latest.startswith("deepseek")
    assert shown.err == ""
    assert not any(secret in shown.out for secret in SECRETS)


def test_the_plan_as_json_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lay_out(tmp_path, FULL)
    assert validate("--config", str(path), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["good"] is True
    assert shown["file"] == str(path)
    assert shown["warnings"] == shown["errors"] == []
    assert shown["checks"][0] == {
        "check": "generation/deepseek",
        "interval_s": 120.0,
        "timeout_s": 60.0,
        "failures": 3,
        "successes": 2,
        "page_within_s": {"engine_error": 30, "crash": 110, "hang_proven": 100, "hang": 420, "loading": 1020},
        "heard_by": {"page": ["phone", "mail"], "warn": ["mail"], "info": []},
    }
    assert shown["receivers"][0] == {
        "receiver": "phone",
        "min_severity": "page",
        "fallback": "mail",
        "fallback_after": 3,
        "sends": "this service knows no loudness: a page looks like any message",
        "acknowledge": False,
        "escalate": {"after_s": 300.0, "every_s": 300.0, "to": ["mail"]},
    }


def test_warnings_are_shown_and_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1:8000'}]\nreceivers: [{name: b, url: '${env:PHONE_URL}'}]\n"
    )
    path = lay_out(tmp_path, source)
    assert validate("--config", str(path)) == 0
    assert f"{path}:1:31: warning: servers[0].base_url: does not end in /v1" in capsys.readouterr().err
    assert validate("--config", str(path), "--json") == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["line"], warning["column"], warning["path"]) == (1, 31, "servers[0].base_url")


def test_a_bad_file_shows_every_problem_and_exits_64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lay_out(tmp_path, FIXTURES / "bad" / "unknown-key.yaml")
    assert validate("--config", str(path)) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{path}:4:5: servers[0].modle: unknown key (did you mean model?)" in shown.err
    assert shown.err.endswith("4 problems; `run` would refuse to start.\n")


def test_a_bad_file_as_json_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lay_out(tmp_path, FIXTURES / "bad" / "unknown-key.yaml")
    assert validate("--config", str(path), "--json") == 64
    shown = json.loads(capsys.readouterr().out)
    assert shown["good"] is False
    assert set(shown) == {"file", "good", "errors", "warnings", "checks", "receivers"}
    assert len(shown["errors"]) == 4
    assert set(shown["errors"][0]) == {"file", "line", "column", "path", "problem", "hint"}


def test_without_an_option_the_variable_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lay_out(tmp_path, FULL)
    monkeypatch.setenv("INFERENCE_WATCHDOG_CONFIG", str(path))
    assert validate() == 0
    assert str(path) in capsys.readouterr().out


def test_wrong_usage_exits_64(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate("--no-such-option") == 64
    assert "No such option" in capsys.readouterr().err
