"""The one exit code of `check` for all that it saw, and numbers that no option takes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.support.alerting_path import line_seen, observed
from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING, cli
from watchdog.cli.check import worst_exit_code
from watchdog.model import Observation, Severity, Verdict

PASS = observed(Verdict.PASS)
PAGE = observed(Verdict.FAIL)
WARN = observed(Verdict.FAIL, "generation/qwen", severity=Severity.WARN)
NONSENSE = observed(Verdict.PASS, "generation/qwen", reason="garbage")
UNKNOWN = observed(Verdict.UNKNOWN)
HOST_DOWN = observed(Verdict.FAIL, "kernel_log/worker", reason="unreachable")
VITALS_BLIND = observed(Verdict.UNKNOWN, "vitals/worker")
OTHER_VITALS_BLIND = observed(Verdict.UNKNOWN, "vitals/head")
LINE_WARN = line_seen(severity=Severity.WARN)


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ([PASS], EXIT_OK),
        ([PASS, NONSENSE], EXIT_WARNING),
        ([PASS, WARN], EXIT_WARNING),
        ([WARN, UNKNOWN], EXIT_UNKNOWN),
        ([PAGE, UNKNOWN, WARN], EXIT_CRITICAL),
        ([PASS, HOST_DOWN, VITALS_BLIND], EXIT_CRITICAL),
        ([HOST_DOWN, OTHER_VITALS_BLIND], EXIT_CRITICAL),
        ([observed(Verdict.FAIL, "kernel_log/worker", severity=Severity.WARN), VITALS_BLIND], EXIT_WARNING),
        ([observed(Verdict.FAIL, "kernel_log/worker", severity=Severity.WARN), OTHER_VITALS_BLIND], EXIT_UNKNOWN),
        ([LINE_WARN, VITALS_BLIND], EXIT_UNKNOWN),
        ([VITALS_BLIND, PASS], EXIT_UNKNOWN),
    ],
)
def test_a_page_beats_an_unknown_beats_a_warning(seen: list[Observation], code: int) -> None:
    assert worst_exit_code(seen) == code
    assert worst_exit_code(seen[::-1]) == code


@pytest.mark.parametrize("number", ["nan", "-nan", "inf", "-inf", "Infinity", "1e999"])
@pytest.mark.parametrize(
    "option",
    [("probe", "http://192.0.2.1/v1", "--timeout"), ("report", "--days"), ("history", "--days"),
     ("test-alert", "--timeout")],
)  # fmt: skip
def test_a_number_that_is_not_finite_is_wrong_usage(option: tuple[str, ...], number: str) -> None:
    result = CliRunner().invoke(cli, [*option, number])
    assert result.exit_code == 2, result.output  # click's own code, which `main` makes 64
    assert "is not a finite number" in result.output
