"""Whether the files that we run from are still the ones we were started from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from watchdog.selfwatch.installation import Files, Installation


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "package" / "__init__.py"
    place.parent.mkdir()
    place.write_text("one")
    return place


def test_files_that_stay_are_the_same(file: Path) -> None:
    installation = Installation([str(file)])
    assert [installation.files() for _ in range(5)] == [Files.SAME] * 5
    assert installation.problem is None


def test_new_files_count_once_they_have_settled(file: Path) -> None:
    installation = Installation([str(file)])
    file.unlink()
    assert installation.files() is Files.GONE
    file.write_text("two")
    assert [installation.files() for _ in range(3)] == [Files.SAME, Files.SAME, Files.REPLACED]


def test_an_installer_that_is_still_at_work_is_waited_for(file: Path) -> None:
    installation = Installation([str(file), __file__])
    for text in ("two", "three", "four"):
        file.with_name("new").write_text(text)
        file.with_name("new").rename(file)
        assert installation.files() is Files.SAME


def test_files_that_are_gone_are_a_problem_only_while_sending_is_not_loaded(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "apprise", raising=False)
    installation = Installation([str(file)])
    file.unlink()
    assert installation.files() is Files.GONE
    assert installation.problem is not None
    monkeypatch.setitem(sys.modules, "apprise", sys)
    assert installation.problem is None


def test_our_own_files_are_found() -> None:
    assert Installation().files() is Files.SAME
