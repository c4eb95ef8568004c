"""Servers that do their worst: each gets its reason, nothing costs more than 1 MiB, and no verdict comes late."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import statistics
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import llm_server
from tests.support.certificate import self_signed
from tests.support.hostile_servers import hostile_servers
from tests.support.llm_server import LlmServer, Player, chat_reply, reply_with, routes
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.config import ProbeSettings, ServerSettings

HTML = "<!doctype html><html><head><title>Log in</title></head><body>Please log in</body></html>"


async def _probe(url: str, timeout_s: float = 0.6, client: ChatClient | None = None) -> ProbeOutcome:
    server = ServerSettings(name="s", base_url=url, model="m", probe=ProbeSettings(timeout_s=timeout_s))
    if client is not None:
        return await GenerationCheck(server, client).probe(None, 1000.0)
    async with ChatClient() as own:
        return await GenerationCheck(server, own).probe(None, 1000.0)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("player", "reason"),
    [
        (llm_server.endless_header, "malformed"),
        (llm_server.endless_headers, "malformed"),
        (llm_server.huge_body, "malformed"),
        (llm_server.endless_text, "malformed"),
        (llm_server.gzip_bomb(), "malformed"),
        (llm_server.not_http, "malformed"),
        (llm_server.redirect("/welcome"), "not_found"),
        (reply_with(HTML, 200, "text/html"), "malformed"),
        (reply_with(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'), "malformed"),
        (reply_with(b"\xff\xfe\x00\x01"), "malformed"),
        (reply_with("[1, 2, 3]"), "malformed"),
        (reply_with({"choices": "ok"}), "malformed"),
        (reply_with({"choices": [17, None, "x"]}), "malformed"),
        (llm_server.drip, "no_token"),
        (llm_server.drip_headers, "no_reply"),
        (llm_server.silence, "no_reply"),
        (llm_server.hang_up, "reset"),
        (llm_server.reset, "reset"),
    ],
)
async def test_a_hostile_server_gets_its_reason_by_the_deadline(player: Player, reason: str) -> None:
    async with LlmServer(routes(player, welcome=reply_with(chat_reply()))) as server:
        started = time.perf_counter()
        outcome = await _probe(server.url)
        elapsed = time.perf_counter() - started
    assert (outcome.verdict.value, outcome.reason.value) == ("fail", reason)
    assert elapsed < 0.6 + 0.1
    assert not server.asked("/welcome")


@pytest.mark.parametrize(
    "player", [llm_server.huge_body, llm_server.endless_text, llm_server.gzip_bomb(), llm_server.endless_headers]
)
async def test_a_reply_without_end_costs_little_memory(player: Player) -> None:
    """1 MiB of body is read; the rest of what is measured is the client's and the server's own buffers."""
    async with LlmServer(routes(player)) as server:
        await _probe(server.url)
        gc.collect()
        tracemalloc.start()
        await _probe(server.url)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8 << 20


async def test_a_refused_port_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        outcome = await _probe(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert (outcome.reason.value, outcome.alive) == ("refused", False)


async def test_a_port_whose_backlog_is_full_is_unreachable_at_the_deadline() -> None:
    """Linux drops the SYN when the backlog is full: what a firewall that drops looks like from here."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        holders = [socket.socket() for _ in range(4)]
        for holder in holders:
            holder.setblocking(False)
            holder.connect_ex(address)
        await asyncio.sleep(0.1)
        outcome = await _probe(f"http://127.0.0.1:{address[1]}/v1", 0.5)
        for holder in holders:
            holder.close()
    assert outcome.reason.value == "unreachable"


async def test_a_plain_port_spoken_to_in_tls_is_a_tls_fault() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        outcome = await _probe(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    assert outcome.reason.value == "tls"


async def test_a_certificate_that_nobody_signed_is_a_tls_fault_until_it_is_trusted(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with LlmServer(routes(reply_with(chat_reply())), tls=context) as server, ChatClient() as client:
        base = ServerSettings(name="s", base_url=server.url, model="m", probe=ProbeSettings(timeout_s=3))
        distrusted = await GenerationCheck(base, client).probe(None, 1000.0)
        trusted = await GenerationCheck(replace(base, ca_file=str(certificate)), client).probe(None, 1000.0)
        unchecked = await GenerationCheck(replace(base, verify_tls=False), client).probe(None, 1000.0)
    assert distrusted.reason.value == "tls"
    assert "not trusted" in distrusted.judgement.detail
    assert (trusted.reason.value, unchecked.reason.value) == ("ok", "ok")


async def test_a_silent_tls_port_is_told_from_an_unreachable_one() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        outcome = await _probe(f"https://127.0.0.1:{silent.getsockname()[1]}/v1", 0.4)
    assert outcome.reason.value == "no_reply"
    assert "TLS" in outcome.judgement.detail


async def test_a_name_that_does_not_exist_is_a_dns_fault() -> None:
    def no_such_name(*args: object, **more: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with ChatClient(no_such_name) as client:
        outcome = await _probe("http://llm.invalid/v1", client=client)
    assert outcome.reason.value == "dns"


@pytest.mark.alone
async def test_a_name_server_that_hangs_delays_neither_its_own_verdict_nor_others() -> None:
    release = threading.Event()

    def hang(host: str, *args: object, **more: object) -> list[object]:
        release.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "late")

    async with LlmServer(routes(reply_with(chat_reply()))) as server, ChatClient(hang) as client:
        started = time.perf_counter()
        hung = [_probe(f"http://host{n}.invalid/v1", 0.5, client) for n in range(40)]
        outcomes = await asyncio.gather(*hung, *(_probe(server.url, 0.5, client) for _ in range(10)))
        elapsed = time.perf_counter() - started
    release.set()
    assert {outcome.reason.value for outcome in outcomes[:40]} == {"dns"}
    assert {outcome.reason.value for outcome in outcomes[40:]} == {"ok"}
    assert elapsed < 0.8


@pytest.mark.alone
async def test_a_hanging_metrics_page_is_evidence_and_delays_nothing() -> None:
    async with LlmServer(routes(llm_server.silence, metrics=llm_server.silence)) as server:
        started = time.perf_counter()
        outcome = await _probe(server.url, 0.8)
        elapsed = time.perf_counter() - started
    assert elapsed < 0.8 + 0.1
    assert outcome.reason.value == "no_reply"
    assert "cannot tell busy from hung" in outcome.summary()


@pytest.mark.slow
@pytest.mark.alone
async def test_two_hundred_hostile_connections_get_their_verdicts_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A verdict is out within 100 ms of its deadline whatever the server does; the p99 is printed."""
    release = threading.Event()

    def hang(host: str, *args: object, **more: object) -> list[object]:
        release.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "late")

    timeout_s = 3.0

    async def lateness(client: ChatClient, url: str, start_s: float) -> float:
        await asyncio.sleep(start_s)
        started = time.perf_counter()
        outcome = await _probe(url, timeout_s, client)
        assert outcome.verdict.value == "fail"
        return time.perf_counter() - started - timeout_s

    async with hostile_servers() as ports, ChatClient(hang) as client:
        urls = [*(f"http://127.0.0.1:{port}/v1" for port in ports.values()), "http://host{n}.invalid/v1"]
        starts = [(urls[n % len(urls)].format(n=n), n * 0.02) for n in range(200)]
        late = await asyncio.gather(*(lateness(client, url, start_s) for url, start_s in starts))
    release.set()
    p99 = statistics.quantiles(late, n=100)[98]
    with capsys.disabled():
        print(f"\nlateness over 200 hostile connections: p99 {p99 * 1000:.1f} ms, worst {max(late) * 1000:.1f} ms")
    assert p99 < 0.1
