"""Lines that people reported, and lines made from the drivers' own texts, each with the severities that are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watchdog.kernlog.file_scan import LogScan
from watchdog.kernlog.matcher import Matcher
from watchdog.model import Severity
from watchdog.rulebook import load_rules

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kernel"
BOOTS = sorted((FIXTURES / "boots").glob("*.txt"))
MATCHER = Matcher(load_rules())


def severity_alone(line: str) -> str:
    """What a log with this one line in it gives: a continuation line alone is an info."""
    finding = MATCHER.classify(line)
    if finding is None:
        return "none"
    return "info" if finding.detail else finding.severity.value


@pytest.mark.parametrize("name", ["reported.jsonl", "widened.jsonl", "blind.jsonl"])
def test_every_line_gets_one_of_the_severities_that_are_right(name: str) -> None:
    cases = [json.loads(line) for line in (FIXTURES / name).read_text("utf-8").splitlines()]
    assert len(cases) >= 75
    wrong = [
        (severity_alone(case["line"]), case) for case in cases if severity_alone(case["line"]) not in case["expect"]
    ]
    assert wrong == []


@pytest.mark.parametrize("boot", BOOTS, ids=lambda path: path.stem)
def test_a_healthy_machine_boots_in_silence(boot: Path) -> None:
    scan = LogScan(MATCHER, every_line=True)
    found = [*scan.feed(boot.read_bytes()), *scan.finish()]
    assert len(found) >= 40
    loud = [(line.finding.rule, line.line.message) for line in found if line.finding and line.severity != Severity.INFO]
    assert loud == []


def test_there_is_a_boot_of_each_kind_of_machine() -> None:
    assert [path.stem for path in BOOTS] == ["dgx-spark", "jetson", "raspberry-pi", "x86-server"]


SPARK_PORT = "pcieport 0000:00:00.0: AER: Correctable error message received from 0000:00:00.0"


@pytest.mark.parametrize(("count", "worst"), [(1, Severity.INFO), (60, Severity.WARN), (600, Severity.PAGE)])
def test_corrected_errors_of_a_sparks_nic_link_speak_only_when_there_are_many(count: int, worst: Severity) -> None:
    log = "".join(f"[  100.{stamp:06}] {SPARK_PORT}\n" for stamp in range(count))
    found = list(LogScan(MATCHER, every_line=True).feed(log.encode()))
    assert max((line.severity for line in found if line.severity), key=lambda severity: severity.rank) == worst
    loud = list(LogScan(MATCHER).feed(log.encode()))
    assert bool(loud) == (worst != Severity.INFO)


def test_no_memory_for_the_gpu_driver_alone_never_pages_however_often() -> None:
    text = "NVRM: nvCheckOkFailedNoLog: Check failed: No memory [NV_ERR_NO_MEMORY] (0x00000051) returned from a @ b:1"
    log = "".join(f"[  100.{stamp:06}] {text}\n" for stamp in range(200))
    found = list(LogScan(MATCHER).feed(log.encode()))
    assert len(found) == 200
    assert {line.severity for line in found} == {Severity.WARN}


def test_a_rule_that_says_ignore_it_is_an_info() -> None:
    loud = [rule.id for rule in load_rules() if "ignore" in rule.advice and rule.severity not in (Severity.INFO, None)]
    assert loud == []
