"""Where a command keeps its state: what can never be a directory is wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdog.cli import main
from watchdog.cli.options import chosen_state_dir, kept_state_dir
from watchdog.doctor.state import examine_state


@pytest.mark.parametrize("named", ["file", "file/state"])
@pytest.mark.parametrize("command", ["run", "status"])
def test_a_state_directory_that_is_a_file_ends_with_64(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: str, command: str
) -> None:
    (tmp_path / "file").write_text("not a directory")
    config = tmp_path / "config.yaml"
    config.write_text(
        "servers: [{name: a, base_url: 'http://127.0.0.1:9/v1'}]\n"
        "receivers: [{name: phone, url: 'json://127.0.0.1:9'}]\n"
    )
    config.chmod(0o600)
    options = ["--config", str(config)] if command == "run" else []
    with pytest.raises(SystemExit) as ended:
        main([command, *options, "--state-dir", str(tmp_path / named)])
    assert ended.value.code == 64
    assert f"{tmp_path / 'file'} is a file, not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("state_dir: kept", "kept"),
        ("state_dir: ${env:PLACE}/kept", "here/kept"),
        ("state_dir: kept\nservers: nonsense\nreceivers: [{url: '${env:NOBODY_SET_THIS}'}]", "kept"),
    ],
)
def test_a_command_finds_the_state_where_the_configuration_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, place: str
) -> None:
    (tmp_path / "config.yaml").write_text(text + "\n")
    monkeypatch.setenv("INFERENCE_WATCHDOG_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("PLACE", str(tmp_path / "here"))
    with pytest.raises(SystemExit):
        main(["status"])
    assert f"there is no state in {tmp_path / place} yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["servers: [", "state_dir: [a]", "state_dir: ~", "state_dir: ${env:NOBODY_SET_THIS}", ""]
)
def test_a_configuration_that_says_nothing_of_the_state_leaves_its_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    monkeypatch.setenv("INFERENCE_WATCHDOG_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "usual"))
    assert kept_state_dir(None) == tmp_path / "usual"
    assert kept_state_dir(str(tmp_path / "told")) == tmp_path / "told"


def test_the_doctor_names_the_file_that_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    (found,) = examine_state(chosen_state_dir(str(tmp_path / "file" / "state")))
    assert (found.grade.value, found.words) == ("fail", f"cannot be a directory: {tmp_path / 'file'} is a file")
