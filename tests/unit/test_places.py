"""Where a command keeps its state: what can never be a folder is wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdog.cli import main
from watchdog.cli.places import chosen_state_dir
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
    assert f"{tmp_path / 'file'} is a file, not a folder" in capsys.readouterr().err


def test_the_doctor_names_the_file_that_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    (found,) = examine_state(chosen_state_dir(str(tmp_path / "file" / "state")))
    assert (found.grade.value, found.words) == ("fail", f"cannot be a folder: {tmp_path / 'file'} is a file")
