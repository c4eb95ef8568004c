"""The real Prometheus of Debian scrapes the real daemon: formats, rules, dashboard, and probes on its schedule."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.system_programs import free_port, listening, program
from watchdog.demo.hosts import FATAL_AER
from watchdog.demo.rig import Mode, Rig

pytestmark = [pytest.mark.real, pytest.mark.slow]
PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = PACKAGING / "prometheus"
DASHBOARD = PACKAGING / "grafana" / "inference-watchdog.json"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass
class Scene:
    rig: Rig
    daemon: DaemonProcess
    url: str

    @property
    def address(self) -> str:
        return self.url.split("/")[2]

    async def get(self, path: str, **headers: str) -> tuple[int, str, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path, headers=headers) as reply:
            return reply.status, reply.headers["Content-Type"], await reply.text()


@asynccontextmanager
async def watching(tmp_path: Path, web: str = "", probe: str = "{interval: 1s, timeout: 0.8s}") -> AsyncIterator[Scene]:
    rig = Rig(tmp_path, lambda _alert: None)
    await rig.start()
    config = rig.write_config(probe=probe, kernel_log="{interval: 2s, timeout: 2s}")
    with config.open("a") as file:
        file.write(f"web: {{listen: '127.0.0.1:0'{web}}}\n")
    daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log")
    await daemon.start()
    try:
        await until(lambda: daemon.saw("web_listening"), what="the web part")
        url = next(event["url"] for event in daemon.events() if event["event"] == "web_listening")
        yield Scene(rig, daemon, url)
    finally:
        await daemon.kill(signal.SIGTERM)
        await rig.stop()


@asynccontextmanager
async def prometheus(tmp_path: Path, scrape_configs: list[dict[str, Any]]) -> AsyncIterator[str]:
    """A Prometheus with our rules; gives its address."""
    port, config = free_port(), tmp_path / "prometheus.yml"
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES / "recording.yml"), str(RULES / "alerts.yml")],
        "scrape_configs": scrape_configs,
    }
    config.write_text(json.dumps(settings))  # JSON is YAML
    command = (
        program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )  # fmt: skip
    async with listening(port, *command, log=tmp_path / "prometheus.log"):
        async with aiohttp.ClientSession() as session, asyncio.timeout(20):
            while (await session.get(f"http://127.0.0.1:{port}/-/ready")).status != 200:
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/api/v1/"


async def asked(address: str, path: str, **params: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(address + path, params=params) as reply:
        said = await reply.json()
        assert said["status"] == "success", said
        return said["data"]


async def result_of(address: str, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await asked(address, "query", query=query))["result"]
    return found


async def until_it_gives(address: str, query: str, timeout_s: float = 30.0) -> list[dict[str, Any]]:
    async with asyncio.timeout(timeout_s):
        while not (found := await result_of(address, query)):
            await asyncio.sleep(0.3)
    return found


def dashboard_queries() -> Iterator[tuple[str, str]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "10s").replace("$server", ".*").replace("$host", ".*")
            yield panel["title"], query


def test_the_rules_are_valid_and_do_what_their_tests_say() -> None:
    for command in (("check", "rules", "alerts.yml", "recording.yml"), ("test", "rules", "tests.yml")):
        done = subprocess.run([program("promtool"), *command], cwd=RULES, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_that_rules_and_dashboard_name_exists() -> None:
    """A renamed metric would leave a rule that never fires."""
    from tests.support.alerting_path import configuration
    from watchdog.web.metrics import Metrics, StateMetrics

    metrics = Metrics(configuration(), version="1")
    exposed = set(re.findall(r"^# TYPE (\S+)", metrics.exposition("", StateMetrics())[0].decode(), re.MULTILINE))
    recorded = set(re.findall(r"record: (\S+)", (RULES / "recording.yml").read_text()))
    text = (RULES / "alerts.yml").read_text() + (RULES / "recording.yml").read_text() + DASHBOARD.read_text()
    named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"(?<!:)\binference_watchdog_[a-z_]+", text)}
    assert named - exposed == {"inference_watchdog_probe_success"}  # that one is /probe's
    assert set(re.findall(r"server:[a-z_]+:[a-z0-9_]+", text)) == recorded


async def test_prometheus_scrapes_the_daemon_and_every_query_of_the_dashboard_gives_data(tmp_path: Path) -> None:
    async with watching(tmp_path) as scene:
        job = {"job_name": "inference-watchdog", "static_configs": [{"targets": [scene.address]}]}
        async with prometheus(tmp_path, [job]) as address:
            await until_it_gives(address, 'inference_watchdog_probes_total{verdict="pass"} > 3')
            scene.rig.chat.mode = Mode.FROZEN
            scene.rig.machines["worker"].log(*FATAL_AER)
            await until_it_gives(address, 'inference_watchdog_incidents_open{severity="page"} > 0')
            firing = await until_it_gives(address, 'ALERTS{alertname="InferenceServerNotGenerating"}')
            assert firing[0]["metric"]["check"] == "generation/deepseek"
            scene.rig.chat.mode = Mode.OK
            await until_it_gives(address, 'increase(inference_watchdog_deliveries_total{result="delivered"}[20s]) > 0')
            await asyncio.sleep(3)
            empty = [(title, query) for title, query in dashboard_queries() if not await result_of(address, query)]
            assert empty == []
            rules = (await asked(address, "rules"))["groups"]
            assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
            (target,) = (await asked(address, "targets"))["activeTargets"]
            assert (target["health"], target["lastError"]) == ("up", "")
            findings = await result_of(address, 'inference_watchdog_kernel_findings_total{host="worker"} > 0')
            assert "pcie.aer.fatal" in {one["metric"]["kind"] for one in findings}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
async def test_promtool_finds_no_fault_in_the_exposition(tmp_path: Path, accept: str) -> None:
    async with watching(tmp_path) as scene:
        await until(lambda: scene.daemon.saw("observation", check="generation/deepseek"), what="a probe")
        status, content_type, text = await scene.get("metrics", Accept=accept)
        assert status == 200
        assert content_type.startswith(OPENMETRICS if accept else "text/plain; version=0.0.4")
        assert text.endswith("# EOF\n") is bool(accept)
        if not accept:
            done = subprocess.run(
                [program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_prometheus_drives_the_schedule_and_two_of_them_share_each_probe(tmp_path: Path) -> None:
    def job(name: str, target: str) -> dict[str, Any]:
        return {
            "job_name": name,
            "metrics_path": "/probe",
            "static_configs": [{"targets": ["deepseek"]}],
            "relabel_configs": [
                {"source_labels": ["__address__"], "target_label": "__param_server"},
                {"target_label": "__address__", "replacement": target},
            ],
        }

    async with watching(tmp_path, ", probe_on_scrape: true", "{interval: 2s, timeout: 900ms}") as scene:
        await asyncio.sleep(2.5)
        assert not scene.daemon.saw("observation", check="generation/deepseek"), "nobody has asked yet"
        async with prometheus(tmp_path, [job("one", scene.address), job("two", scene.address)]) as address:
            seen = await until_it_gives(address, "inference_watchdog_probe_success == 1")
            assert seen[0]["metric"]["server"] == "deepseek"
            await asyncio.sleep(5)
            started = 'count_values("at", inference_watchdog_probe_started_timestamp_seconds{job="%s"})'
            values = [await result_of(address, started % name) for name in ("one", "two")]
            assert all(values)
            ran = await asked(address, "query", query="changes(inference_watchdog_probe_started_timestamp_seconds[5s])")
            assert all(2 <= float(one["value"][1]) <= 5 for one in ran["result"]), "one probe a second at most"
            scene.rig.chat.mode = Mode.FROZEN
            failed = await until_it_gives(address, "inference_watchdog_probe_success == 0")
            assert failed
            await until(lambda: scene.daemon.saw("incident opened"), what="our own incident, as from any other probe")
