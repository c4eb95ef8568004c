"""One night with nothing pretended: llama.cpp's server, two sshd with journals, a webhook, the daemon as a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.journal_files import SECOND, Journal
from tests.support.llama_server import LlamaServer, llama_server, tiny_model
from tests.support.receivers import WebhookSink
from tests.support.sshd import RealHost, real_host
from watchdog.store import Reader

pytestmark = [pytest.mark.slow, pytest.mark.real]
MLX5 = "mlx5_core 0000:01:00.0: wait_func:1132:(pid 141181): CREATE_DCT(0x710) timeout. Will cause a leak of a command"
AER = "pcieport 0002:00:00.0: AER: Uncorrectable (Fatal) error message received from 0002:01:00.0"


@dataclass
class Night:
    server: LlamaServer
    hosts: dict[str, RealHost]
    journals: dict[str, Journal]
    phone: WebhookSink
    daemon: DaemonProcess

    def print_line(self, host: str, stamp_s: int, line: str) -> None:
        """Let the kernel of `host` print `line`."""
        self.journals[host].kernel(self.hosts[host].boot, stamp_s * SECOND, line, priority=3)
        self.hosts[host].plant(self.journals[host])

    def titles(self, start: str) -> list[str]:
        return [title for title in self.phone.titles if title.startswith(start)]

    def all_noted(self) -> bool:
        """Whether the outbox holds no message that is still on its way."""
        with Reader.open(self.daemon.state_dir) as reader:
            return all(delivery.is_done for delivery in reader.deliveries())

    def body(self, start: str) -> str:
        return next(str(sent["message"]) for sent in self.phone.arrived if str(sent["title"]).startswith(start))


@pytest.fixture
async def night(tmp_path: Path) -> AsyncIterator[Night]:
    model = await tiny_model(tmp_path)
    with ExitStack() as stack:
        hosts = {name: stack.enter_context(real_host(tmp_path / name)) for name in ("head", "worker")}
        booted_us = round((time.time() - 30) * SECOND)
        journals = {name: host.journal(wall_us=booted_us) for name, host in hosts.items()}
        async with WebhookSink() as phone, llama_server(model) as server:
            daemon = DaemonProcess(tmp_path / "config.yaml", tmp_path / "state", tmp_path / "daemon.log")
            night = Night(server, hosts, journals, phone, daemon)
            for name in hosts:
                night.print_line(name, 1, "Linux version 6.17.0-1014-nvidia (buildd@bos03) #14-Ubuntu SMP")
            daemon.config.write_text(configuration(night))
            await daemon.start()
            yield night
            await daemon.kill()


def configuration(night: Night) -> str:
    lines = [
        "servers:",
        f"  - {{name: deepseek, base_url: '{night.server.url}', hosts: [head, worker],",
        "     probe: {interval: 2s, timeout: 2s}}",
        "hosts:",
    ]
    for name, host in night.hosts.items():
        lines += [
            f"  - {{name: {name}, address: 127.0.0.1, port: {host.port}, user: watch, identity_file: {host.key},",
            f"     known_hosts: {host.known_hosts}, kernel_log: {{interval: 3s, timeout: 3s, follow: false}}}}",
        ]
    return "\n".join([*lines, "receivers:", f"  - {{name: phone, url: '{night.phone.url()}', min_severity: page}}", ""])


async def healthy(night: Night) -> None:
    for key in ("generation/deepseek", "kernel_log/head", "kernel_log/worker"):
        await until(lambda key=key: night.daemon.saw("observation", check=key, verdict="pass"), 60, what=key)  # type: ignore[misc]


async def test_a_frozen_server_and_a_dying_card_each_page_once_though_the_daemon_is_killed_in_between(
    night: Night,
) -> None:
    await healthy(night)
    night.server.stop()
    await until(lambda: night.daemon.saw("observation", check="generation/deepseek", verdict="fail"), 60, what="a miss")
    assert await port_accepts(night.server.port), "the frozen server's port still accepts"
    await night.daemon.kill()
    night.print_line("worker", 100, MLX5)
    await night.daemon.start()
    await until(lambda: night.titles("FIRING deepseek"), 60, what="the trigger")
    await until(lambda: night.titles("NEW worker"), 60, what="the page about the card")
    # Killed between a delivery and its note in the outbox, a message rightly comes twice (at least once).
    await until(night.all_noted, 60, what="both deliveries are noted")
    await night.daemon.kill()
    await night.daemon.start()
    night.server.go_on()
    await until(lambda: night.titles("RESOLVED deepseek"), 60, what="the resolve")
    await asyncio.sleep(6)  # two more scans and probes
    assert len(night.titles("FIRING deepseek")) == 1
    assert len(night.titles("RESOLVED deepseek")) == 1
    assert len(night.titles("NEW")) == 1
    page = night.body("NEW worker")
    assert "0000:01:00.0" in page
    assert MLX5 in page


async def test_a_fatal_pcie_error_on_one_host_names_that_host_and_device(night: Night) -> None:
    await healthy(night)
    night.print_line("head", 100, AER)
    await until(lambda: night.titles("NEW head"), 60, what="the page")
    assert "0002:0" in night.body("NEW head")
    assert AER in night.body("NEW head")
    assert not night.titles("NEW worker")


async def port_accepts(port: int) -> bool:
    """Whether a connection to `port` comes about."""
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    return True
