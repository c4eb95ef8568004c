"""The nearest equivalent with Debian's packages: blackbox exporter, Prometheus and Alertmanager, started by hand.

The blackbox module posts the same question and wants a visible character in `content`. It cannot stream: whether a
stream is whole, when its first token came and why a reply is bad is beyond it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import FakeServers, free_port, start, stop

PROGRAMS = ("prometheus-blackbox-exporter", "prometheus", "prometheus-alertmanager")
GROUP = "theirs"

BLACKBOX = r"""
modules:
  chat:
    prober: http
    timeout: 10s
    http:
      method: POST
      headers: {Content-Type: application/json}
      body: '{"model":"tiny","messages":[{"role":"user","content":"Reply with ok"}],"max_tokens":5,"temperature":0}'
      valid_status_codes: [200]
      preferred_ip_protocol: ip4
      fail_if_body_matches_regexp: ['"error"\s*:\s*[{"]']
      fail_if_body_not_matches_regexp: ['"content"\s*:\s*"(\\[^nrt]|\\[nrt]|[^"\\])*[^"\\\s]']
"""
ALERTMANAGER = """
route: {{receiver: hook, group_by: [alertname, instance], group_wait: 0s, group_interval: 5s, repeat_interval: 4h}}
receivers: [{{name: hook, webhook_configs: [{{url: '{webhook}', send_resolved: true}}]}}]
"""
RULES = """
groups:
- name: llm
  interval: {interval_s}s
  rules: [{{alert: LLMDown, expr: probe_success == 0, for: 0s, labels: {{severity: page}}}}]
"""
PROMETHEUS = """
global: {{scrape_interval: {interval_s}s, scrape_timeout: {timeout_s}s, evaluation_interval: {interval_s}s}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alertmanager}']}}]}}]}}
scrape_configs:
- job_name: llm
  metrics_path: /probe
  params: {{module: [chat]}}
  file_sd_configs: [{{files: [targets.json]}}]
  relabel_configs:
  - {{source_labels: [__address__], target_label: __param_target}}
  - {{source_labels: [__param_target], target_label: instance}}
  - {{target_label: __address__, replacement: '127.0.0.1:{blackbox}'}}
"""


@dataclass(frozen=True, slots=True)
class Stack:
    """The three processes."""

    processes: tuple[asyncio.subprocess.Process, ...]

    @property
    def pids(self) -> list[int]:
        """Theirs."""
        return [process.pid for process in self.processes]


def missing() -> list[str]:
    """The programs of the stack that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


@contextlib.asynccontextmanager
async def running(
    fake: FakeServers, servers: list[str], interval_s: int, webhook: str, directory: Path
) -> AsyncIterator[Stack]:
    """The stack: probes `servers` every `interval_s` seconds and tells `webhook`; it writes below `directory`."""
    directory.mkdir()
    blackbox, prometheus, alertmanager = free_port(), free_port(), free_port()
    (directory / "blackbox.yml").write_text(BLACKBOX)
    (directory / "alertmanager.yml").write_text(ALERTMANAGER.format(webhook=webhook))
    (directory / "rules.yml").write_text(RULES.format(interval_s=interval_s))
    (directory / "prometheus.yml").write_text(
        PROMETHEUS.format(
            interval_s=interval_s, timeout_s=min(interval_s, 10), blackbox=blackbox, alertmanager=alertmanager
        )
    )
    targets = [f"{fake.base_url(GROUP, server)}/chat/completions" for server in servers]
    (directory / "targets.json").write_text(json.dumps([{"targets": targets}]))
    commands = (
        [
            "prometheus-blackbox-exporter",
            f"--config.file={directory}/blackbox.yml",
            f"--web.listen-address=127.0.0.1:{blackbox}",
        ],
        [
            "prometheus-alertmanager",
            f"--config.file={directory}/alertmanager.yml",
            f"--storage.path={directory}/alertmanager",
            f"--web.listen-address=127.0.0.1:{alertmanager}",
            "--cluster.listen-address=",
        ],
        [
            "prometheus",
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/tsdb",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ],
    )
    async with contextlib.AsyncExitStack() as started:
        processes = []
        for command in commands:
            process = await start(*command, log=directory / f"{command[0]}.log")
            started.push_async_callback(stop, process)
            processes.append(process)
        yield Stack(tuple(processes))
