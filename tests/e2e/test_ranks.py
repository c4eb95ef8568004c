"""A rank hangs: NCCL's own record on a real host, asked over real SSH, and the page that names the rank."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.namespaces import CableBetweenNamespaces, inside
from tests.support.ras_answers import recorded
from tests.support.receivers import WebhookSink
from tests.support.sshd import RealHost, require_sshd
from watchdog.demo.rig import ChatServer, Mode

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.timeout(120)]
HERE, THERE = "10.213.9.1", "10.213.9.2"


@dataclass
class RasService:
    """NCCL's service in the host's namespace: plays `answers` in turn, the last one for ever; None: never answers."""

    answers: list[bytes | None]
    asked_at: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began = time.monotonic()
        self.asked_at.append(began)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.sent.append(await reader.readline() + await reader.readline())
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        self.took_s.append(time.monotonic() - began)
        writer.close()


@dataclass
class Night:
    """What a test sees."""

    chat: ChatServer
    sink: WebhookSink
    daemon: DaemonProcess
    ras: RasService


@asynccontextmanager
async def night(tmp_path: Path, answers: list[bytes | None], reader: str = "") -> AsyncIterator[Night]:
    """A server that hangs with frozen counters on a real host; NCCL there gives these answers.

    `reader` is the text of the reader installed there as the key's forced command; "": none is.
    """
    require_sshd()
    if shutil.which("ip") is None:
        pytest.skip("ip is missing: apt-get install iproute2")
    cable = CableBetweenNamespaces("iwn", HERE, THERE)
    host = RealHost(tmp_path / "host", f"ListenAddress {THERE}")
    journal = host.journal(wall_us=int(time.time() * 1e6))
    journal.kernel(host.boot, 1_000_000, "Linux version 6.17.0")
    host.plant(journal)
    chat, sink, ras = ChatServer(), WebhookSink(), RasService(answers)
    key, forced = (host.forced_key, "true") if reader else (host.key, "false")
    if reader:
        (host.root / "lab/reader").write_text(reader)
    known = host.known_hosts.read_text().replace("127.0.0.1", THERE)
    host.known_hosts.write_text(known)
    try:
        with inside(cable.there):
            host.start()
            service = await asyncio.start_server(ras.serve, "127.0.0.1", 28028)
        with inside(cable.here):
            await chat.start()
            await sink.up()
        chat.mode = Mode.FROZEN
        config = tmp_path / "config.yaml"
        config.write_text(
            f"servers:\n  - name: deepseek\n    base_url: '{chat.base_url}'\n    hosts: [worker]\n"
            "    probe: {interval: 60s, timeout: 2s, confirm: 1s, watch: 0s}\n"
            f"hosts:\n  - name: worker\n    address: {THERE}\n    port: {host.port}\n    user: watch\n"
            f"    identity_file: {key}\n    known_hosts: {host.known_hosts}\n    forced_command: {forced}\n"
            "    kernel_log: {follow: false}\n"
            f"receivers:\n  - {{name: phone, url: '{sink.url()}'}}\n"
        )
        netns = ("ip", "netns", "exec", cable.here)
        daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "daemon.log", inside=netns)
        await daemon.start()
        try:
            yield Night(chat, sink, daemon, ras)
        finally:
            await daemon.kill()
            service.close()
    finally:
        await sink.down()
        await chat.stop()
        host.stop()
        cable.close()


def failed_at(seen: Night) -> bool:
    return seen.daemon.saw("observation", check="generation/deepseek", verdict="fail")


def pages(seen: Night) -> list[dict[str, Any]]:
    return [one for one in seen.sink.arrived if "deepseek" in one["title"]]


async def test_a_rank_that_skipped_a_collective_is_named_by_the_page(tmp_path: Path) -> None:
    async with night(tmp_path, [recorded("json")["skip-3s"]]) as seen:
        await until(lambda: failed_at(seen), what="the first failed probe")
        failed = time.monotonic()
        await until(lambda: seen.daemon.saw("next_probe", why="proven_dead"), what="the proof")
        assert time.monotonic() - failed <= 15, "evidence within 15 s of the failed probe"
        assert seen.ras.asked_at[1] - seen.ras.asked_at[0] >= 10
        assert set(seen.ras.sent) == {b"set format json\nverbose status\n"}
        await until(lambda: pages(seen), what="the page")
        (page,) = pages(seen)
        assert page["title"].startswith("FIRING deepseek")
        assert "rank 1 (worker) has not launched AllReduce 2692; rank 0 waits in it" in page["message"]
        assert "UTC worker vitals: " in page["message"]
        assert "; NCCL: rank 1 (worker) has not launched" in page["message"], "as evidence with its time, too"
        assert not seen.daemon.saw("check_bug")


async def test_a_query_that_hangs_ends_by_our_limit_and_is_a_sign(tmp_path: Path) -> None:
    async with night(tmp_path, [None]) as seen:
        await until(lambda: seen.daemon.saw("next_probe", why="proven_dead"), what="the proof")
        assert 5 <= seen.ras.took_s[0] <= 12
        await until(lambda: pages(seen), what="the page")
        assert "takes the question how its ranks are, and does not answer" in pages(seen)[0]["message"]


async def test_a_healthy_record_with_still_counts_proves_nothing(tmp_path: Path) -> None:
    busy = recorded("json")
    async with night(tmp_path, [busy["graph-0"], busy["graph-1"]]) as seen:
        await until(lambda: len(seen.ras.asked_at) >= 2, what="both looks")
        await asyncio.sleep(5)
        assert not seen.daemon.saw("next_probe", why="proven_dead")
        assert seen.daemon.saw("next_probe", why="unproven")
        assert pages(seen) == []
        assert len(seen.ras.asked_at) == 2


async def test_an_older_reader_is_left_in_peace_and_breaks_nothing(tmp_path: Path) -> None:
    from watchdog.ssh.session import script

    older = script().decode().replace(" | nccl/2", "").replace("    echo can=nccl", "    :")
    async with night(tmp_path, [recorded("json")["skip-3s"]], reader=older) as seen:
        await until(lambda: failed_at(seen), what="the first failed probe")
        await until(lambda: seen.daemon.saw("observation", check="vitals/worker", verdict="pass"), what="the vitals")
        seen.chat.mode = Mode.OK
        await asyncio.sleep(3)
        assert seen.ras.asked_at == []
        loud = [line for line in seen.daemon.events() if line.get("level") in {"warning", "error"}]
        assert [line for line in loud if "worker" in str(line)] == []
