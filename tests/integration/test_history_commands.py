"""`report`, `history` and `status --watch` over a month that the real store has written."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.support.alerting_path import KEY, Station, observed
from tests.support.month_of_history import write_month
from watchdog.cli import EXIT_WARNING, cli
from watchdog.cli.status import EXIT_CODES, watch_status
from watchdog.model import Verdict
from watchdog.overview.report import blind_times, report_json, report_of, report_text
from watchdog.overview.statistics import span_between
from watchdog.overview.status import Health
from watchdog.store import BlindWindow, Reader

NOW = 1_795_970_000.0
DAY_S = 86400.0


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("month")
    asyncio.run(write_month(directory, NOW, firing=True, extra=40))
    return directory


@pytest.fixture(autouse=True)
def at_the_end_of_the_month(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(time, "time", lambda: NOW)


def ran(month: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--state-dir", str(month)])
    assert result.exit_code == code, result.output
    return result.output


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_report_says_what_the_single_observations_say(month: Path) -> None:
    report = json.loads(ran(month, "report", "--days", "30", "--json"))
    seen = rows(ran(month, "history", "--days", "30", "--observations", "--limit", "99999", "--json", KEY))
    (server,) = report["servers"]
    passed = [row for row in seen if row["verdict"] == "pass"]
    assert server["answered"]["count"] == len(passed)
    assert server["answered"]["total"] == len(seen)
    assert server["answered"]["low"] < server["answered"]["share"] < server["answered"]["high"]
    assert server["reasons"] == {"ok": len(passed), "no_token": len(seen) - len(passed)}
    first = sorted(row["measurements"]["ttft_s"] for row in passed)
    assert server["first_token_s"]["p50"] == pytest.approx(first[len(first) // 2], rel=0.01)
    assert server["first_token_s"]["max"] == first[-1]
    assert server["cost"] == {
        "requests": len(seen), "completion_tokens": 5 * len(passed), "counted_probes": len(passed)
    }  # fmt: skip


def test_the_report_counts_incidents_findings_deliveries_and_blind_time(month: Path) -> None:
    report = json.loads(ran(month, "report", "--days", "30", "--json"))
    hosts = {host["host"]: host for host in report["hosts"]}
    assert hosts["worker"]["findings"]["pcie.aer.fatal"] == 3
    assert sum(host["findings"].get("pcie.aer.corrected", 0) for host in hosts.values()) == 40
    assert hosts["head"]["read"]["share"] == 1.0
    assert report["by_severity"] == {"page": 7, "warn": 40, "info": 0}
    assert report["detect_s"]["p50"] == pytest.approx(240.0)
    assert report["resolve_s"]["count"] == 5
    assert report["blind_s"][""] == pytest.approx(0.1 * DAY_S)
    (phone,) = report["receivers"]
    assert (phone["delivered"]["count"], phone["first_try"]["count"]) == (7, 6)


def test_the_report_in_words_has_every_part(month: Path) -> None:
    text = ran(month, "report", "--days", "30")
    for words in (
        "Server deepseek", "95 % interval", "no_token ×", "First token:       median", "Host worker", "Time to detect:",
        "Time to resolve:", "Blind to everything:", "phone: 7 messages delivered, 6 at the first attempt",
        "Cost of probing:",
    ):  # fmt: skip
        assert words in text, words


def test_an_empty_report_is_no_error(tmp_path: Path) -> None:
    from watchdog.store import Store

    asyncio.run(Store.open(tmp_path, NOW).close())
    assert "Incidents: 0" in ran(tmp_path, "report")
    assert "Nothing found for this time and filter." in ran(tmp_path, "history")


def test_history_lists_and_filters(month: Path) -> None:
    every = rows(ran(month, "history", "--days", "30", "--limit", "999", "--json"))
    assert len(every) == 47
    assert [row["since"] for row in every] == sorted(row["since"] for row in every)
    pages = rows(ran(month, "history", "--days", "30", "--severity", "page", "--json"))
    assert len(pages) == 7
    assert {row["labels"]["host"] for row in rows(ran(month, "history", "--days", "30", "--json", "head"))} == {"head"}
    assert len(rows(ran(month, "history", "--days", "30", "--json", "--reason", "pcie.aer.fatal"))) == 1
    assert len(rows(ran(month, "history", "--days", "30", "--limit", "3", "--json"))) == 3
    fails = rows(ran(month, "history", "--days", "1", "--verdict", "fail", "--json"))
    assert fails
    assert {row["verdict"] for row in fails} == {"fail"}


def test_one_incident_is_shown_with_its_lines_and_messages(month: Path) -> None:
    (fatal,) = rows(ran(month, "history", "--reason", "pcie.aer.fatal", "--json"))
    text = ran(month, "history", "--incident", fatal["id"])
    assert "CmpltTO" in text
    assert "FIRING to phone: delivered" in text
    one = json.loads(ran(month, "history", "--incident", fatal["id"], "--json"))
    assert one["deliveries"][0]["receiver"] == "phone"
    assert "there is no incident nope" in ran(month, "history", "--incident", "nope", code=2)


def test_blind_windows_that_overlap_count_once() -> None:
    windows = [BlindWindow(0, 50, "", "x"), BlindWindow(40, None, "", "x"), BlindWindow(10, 20, "a", "x")]
    assert blind_times(windows, 5, 100) == {"": 95, "a": 10}


async def test_a_report_of_a_real_night_counts_time_to_detect_and_to_resolve(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        begin = station.clock.wall()
        await _run(station, [Verdict.PASS] * 3 + [Verdict.FAIL] * 5 + [Verdict.UNKNOWN] + [Verdict.PASS] * 4)
        end = station.clock.wall()
    with Reader.open(tmp_path) as reader:
        report = report_of(reader, span_between(begin, end, None))
    said = report_json(report)
    assert said["detect_s"]["p50"] == pytest.approx(240.0)
    assert said["resolve_s"]["p50"] == pytest.approx(5 * 120 + 240)
    (server,) = report.servers
    assert (server.answered.count, server.answered.total, server.unknowns) == (7, 12, 1)
    (phone,) = said["receivers"]
    assert phone["delivered"]["count"] == 2
    assert "resolved after 14 min" in report_text(report, None)


async def _run(station: Station, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        await station.look(observed(verdict))
        await station.pass_time(120, step_s=120)


def test_status_watch_draws_the_whole_state_and_takes_nothing_as_markup(month: Path) -> None:
    terminal = {"TERM": "xterm"}  # whatever this run's own terminal can do
    screen = Console(
        file=io.StringIO(), force_terminal=True, width=160, height=50, color_system=None, _environ=terminal
    )
    with Reader.open(month) as reader:
        health = watch_status(reader, screen, rounds=1)
    assert health is Health.FIRING
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    for words in (
        "FIRING",
        "generation/deepseek",
        "kernel_log/worker",
        "in 85 s",
        "CmpltTO",
        "silence s1 on host=worker",
    ):
        assert words in text, words


def test_status_watch_needs_a_terminal_and_no_program(month: Path) -> None:
    assert "needs a terminal" in ran(month, "status", "--watch", code=2)
    assert "choose one" in ran(month, "status", "--watch", "--json", code=2)


async def test_a_slow_server_is_a_warning_everywhere(tmp_path: Path) -> None:
    await write_month(tmp_path, NOW, days=3, slow_now=6.0)
    text = await asyncio.to_thread(ran, tmp_path, "status")
    assert "slow         generation/deepseek" in text
    assert "slower than its own median" in text
    status = json.loads(await asyncio.to_thread(ran, tmp_path, "status", "--json"))
    (check,) = [one for one in status["checks"] if one["check"] == KEY]
    assert (status["health"], check["phase"]) == ("warning", "ok")
    assert check["drift"]["factor"] > 3
    assert EXIT_CODES[Health(status["health"])] == EXIT_WARNING
