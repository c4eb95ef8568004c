"""The log file of `run --log-file`: bounded, closed, and without secrets."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from watchdog import logs
from watchdog.config import Secret


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, hook = logging.getLogger(), sys.excepthook
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:], root.level, sys.excepthook = before, level, hook
    structlog.reset_defaults()


def test_a_log_file_stays_bounded_and_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_LIMIT_BYTES", 10_000)
    file = tmp_path / "made" / "daemon.log"
    logs.configure(secrets=[Secret("s3cr3t-word")], file=file)
    for number in range(1000):
        structlog.get_logger("test").info("line", number=number, url="json://s3cr3t-word@x")
    kept = sorted(file.parent.iterdir())
    assert len(kept) == 1 + logs.FILES_KEPT
    assert all(path.stat().st_size <= 10_000 and path.stat().st_mode & 0o077 == 0 for path in kept)
    assert json.loads(file.read_text().splitlines()[-1])["number"] == 999
    assert "s3cr3t" not in "".join(path.read_text() for path in kept)


def test_a_reload_writes_on_in_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    for number in range(2):
        logs.configure(file=file)
        structlog.get_logger("test").info("line", number=number)
    assert [json.loads(line)["number"] for line in file.read_text().splitlines()] == [0, 1]
    assert sum(handler.__class__.__name__ == "_File" for handler in logging.getLogger().handlers) == 1


def test_a_crash_and_a_refused_start_go_to_the_log(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    logs.configure(file=file)
    complain = logs.log_crashes()
    complain("config.yaml:1:1: servrs: unknown key")
    try:
        raise RuntimeError("broken")
    except RuntimeError as error:
        sys.excepthook(RuntimeError, error, error.__traceback__)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["problem"] == "config.yaml:1:1: servrs: unknown key"
    assert "RuntimeError: broken" in lines[1]["exception"]
