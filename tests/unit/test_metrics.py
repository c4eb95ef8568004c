"""Counters: there from the start, bounded, and gone with what they are about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.alerting_path import configuration, line_seen, observed, receiver
from watchdog.config import Config
from watchdog.model import Severity, TransitionKind, Verdict
from watchdog.web.metrics import MOST_VALUES, UNFINISHED, Metrics, StateMetrics, probe_exposition


def lines_of(metrics: Metrics, state: StateMetrics | None = None) -> dict[str, float]:
    body, _ = metrics.exposition("", state or StateMetrics())
    rows = [line.rpartition(" ") for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(configuration(), version="1.2.3")


def test_what_has_not_happened_yet_is_there_as_zero(metrics: Metrics) -> None:
    """Otherwise the first failure is no increase, and no rule sees it."""
    metrics.know_kinds(["pcie.aer.fatal"])
    seen = lines_of(metrics)
    for series in (
        'probes_total{reason="no_token",server="deepseek",verdict="fail"}',
        'probes_total{reason="ok",server="deepseek",verdict="pass"}',
        'probe_first_token_seconds_count{server="deepseek"}',
        'scans_total{host="worker",reason="silent",verdict="fail"}',
        'kernel_findings_total{host="head",kind="pcie.aer.fatal"}',
        'kernel_lines_read_total{host="head"}',
        'deliveries_total{receiver="phone",result="timeout"}',
        'incidents_total{change="opened",severity="page"}',
    ):
        assert seen[f"inference_watchdog_{series}"] == 0.0
    assert seen['inference_watchdog_build_info{version="1.2.3"}'] == 1.0


def test_observations_are_counted_where_they_belong(metrics: Metrics) -> None:
    numbers = {"ttft_s": 0.3, "duration_s": 0.6, "tokens_per_s": 40.0}
    metrics.observed(observed(Verdict.PASS, measurements=numbers))
    metrics.observed(observed(Verdict.FAIL))
    metrics.observed(observed(Verdict.PASS, "kernel_log/worker", measurements={"lines": 12.0}))
    metrics.observed(line_seen(count=3))
    seen = lines_of(metrics)
    assert seen['inference_watchdog_probes_total{reason="no_token",server="deepseek",verdict="fail"}'] == 1
    assert seen['inference_watchdog_probe_first_token_seconds_bucket{le="0.5",server="deepseek"}'] == 1
    assert seen['inference_watchdog_probe_first_token_seconds_bucket{le="0.25",server="deepseek"}'] == 0
    assert seen['inference_watchdog_probe_duration_seconds_count{server="deepseek"}'] == 1
    assert seen['inference_watchdog_probe_tokens_per_second{server="deepseek"}'] == 40
    assert seen['inference_watchdog_kernel_lines_read_total{host="worker"}'] == 12
    assert seen['inference_watchdog_kernel_findings_total{host="worker",kind="pcie.aer.fatal"}'] == 3


def test_labels_never_grow_without_end_and_strangers_have_none(metrics: Metrics) -> None:
    for number in range(3 * MOST_VALUES):
        metrics.observed(line_seen(kind=f"made.up.{number}"))
        metrics.observed(observed(Verdict.FAIL, reason=f"made_up_{number}"))
        metrics.observed(observed(Verdict.FAIL, f"generation/stranger-{number}"))
    seen = lines_of(metrics)
    assert len([name for name in seen if "made.up" in name]) <= MOST_VALUES
    assert len([name for name in seen if "made_up" in name]) <= MOST_VALUES
    assert not [name for name in seen if "stranger" in name]
    assert seen['inference_watchdog_kernel_findings_total{host="worker",kind="other"}'] > 0


def test_what_leaves_the_configuration_leaves_the_metrics(metrics: Metrics) -> None:
    metrics.observed(observed(Verdict.PASS, measurements={"tokens_per_s": 40.0}))
    metrics.follow(replace(configuration(receiver("mail")), servers=()))
    seen = lines_of(metrics)
    assert not [name for name in seen if "deepseek" in name or 'receiver="phone"' in name]
    assert 'inference_watchdog_deliveries_total{receiver="mail",result="delivered"}' in seen


def test_a_large_fleet_does_not_prepare_every_failure() -> None:
    servers = tuple(replace(configuration().servers[0], name=f"s{number}") for number in range(500))
    body, _ = Metrics(Config(servers=servers), version="1").exposition("", StateMetrics())
    assert body.count(b"probes_total{") == 500


def test_the_state_at_the_moment_of_the_scrape_is_shown(metrics: Metrics) -> None:
    state = StateMetrics(
        open_incidents={"page": 2}, firing={"generation/deepseek": 1}, blind_s={"generation/deepseek": 7.5},
        waiting={"phone": 4}, storage_ok=False,
    )  # fmt: skip
    seen = lines_of(metrics, state)
    assert seen['inference_watchdog_incidents_open{severity="page"}'] == 2
    assert seen['inference_watchdog_check_firing{check="generation/deepseek"}'] == 1
    assert seen['inference_watchdog_blind_seconds_total{check="generation/deepseek"}'] == 7.5
    assert seen['inference_watchdog_outbox_depth{receiver="phone"}'] == 4
    assert seen["inference_watchdog_storage_ok"] == 0


def test_changes_of_incidents_are_counted_by_severity(metrics: Metrics) -> None:
    from tests.support.month_of_history import outage

    metrics.changed(outage(1, 0.0, None), TransitionKind.OPENED)
    name = f'inference_watchdog_incidents_total{{change="opened",severity="{Severity.PAGE}"}}'
    assert lines_of(metrics)[name] == 1


def test_an_unfinished_scraped_probe_is_a_failure_that_says_why() -> None:
    text = probe_exposition("deepseek", None, "")[0].decode()
    assert 'inference_watchdog_probe_success{server="deepseek"} 0.0' in text
    assert f'reason="{UNFINISHED}"' in text
    text = probe_exposition("deepseek", observed(Verdict.PASS, measurements={"ttft_s": 0.25}), "")[0].decode()
    assert 'inference_watchdog_probe_success{server="deepseek"} 1.0' in text
    assert 'inference_watchdog_probe_last_first_token_seconds{server="deepseek"} 0.25' in text
