"""What a page says, from three real probes over real sockets to the message: the right fault, and in its own words."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.alerting_path import Station
from tests.support.certificate import self_signed
from tests.support.journal_files import require
from tests.support.llm_server import LlmServer, Player, Request, reply_with, routes, silence
from tests.support.sshd import free_port
from watchdog.chat import ChatClient
from watchdog.checks.engine_probe import DRAINED
from watchdog.checks.generation import GenerationCheck
from watchdog.config import ProbeSettings, ServerSettings
from watchdog.engines.movement import Movement
from watchdog.model import Json, Observation, Severity

TIMEOUT_S = 2.0
IDLE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total 500\n"


def streamed(*events: Any, hold: bool = False) -> Player:
    """A stream of these events (JSON, or plain words), then the end, or silence."""

    async def play(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in events:
            writer.write(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(0.02)
        if hold:
            await asyncio.sleep(3600)

    return play


def chunk(text: str) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


class Page:
    """The one message that three failures brought, and the last of the failures."""

    def __init__(self, title: str, body: str, last: Observation) -> None:
        self.title, self.body, self.last = title, body, last
        self.text = f"{title}\n{body}"


async def page_of(tmp_path: Path, plays: Sequence[Player] = (), url: str = "", **server: Any) -> Page:
    """Probe three times, the last of `plays` for the rest; `url` may hold `{port}`."""
    async with Station(tmp_path) as station, ChatClient() as client:
        memory: Json | None = None
        last: Observation
        for number in range(3):
            play = plays[min(number, len(plays) - 1)] if plays else silence
            async with LlmServer(play) as running:
                settings = ServerSettings(
                    name="deepseek",
                    base_url=url.format(port=running.port) or running.url,
                    model="m",
                    probe=ProbeSettings(timeout_s=TIMEOUT_S),
                    **server,
                )
                check = GenerationCheck(settings, client)
                result = await check.run(memory, station.clock.wall())
            memory, last = result.memory or memory, result.observations[0]
            await station.ingest.take(check.key, result)
            await station.quiet()
            await station.clock.advance(120)
        ((_, text),) = station.sinks["phone"].accepted
        return Page(text.title, text.body, last)


@pytest.mark.parametrize("hold", [True, False], ids=["stalled", "truncated"])
async def test_where_text_came_nobody_is_told_that_there_was_none(tmp_path: Path, *, hold: bool) -> None:
    page = await page_of(tmp_path, [streamed(chunk("Good"), chunk(" day"), hold=hold)])
    assert page.last.reason == ("stalled" if hold else "truncated")
    assert "no text" not in page.text
    assert "no token" not in page.text
    assert "no whole reply for 4 min" in page.title


async def test_a_hung_front_over_an_idle_engine_is_blamed_on_the_front(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [routes(silence, metrics=reply_with(IDLE, 200, "text/plain"))])
    assert "front end or engine hangs" in page.title
    assert "look at: the gateway or API process in front of the engine" in page.body
    assert "GPU" not in page.body


async def test_a_stream_that_was_closed_is_no_question_of_busy_or_hung(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [streamed(chunk(""))])
    assert page.last.reason == "no_token"
    assert "busy" not in page.text
    assert "breaks off" in page.title


@pytest.mark.parametrize(
    ("hold", "rises", "movement"),
    [
        (False, False, Movement.UNKNOWN),
        (False, True, Movement.BUSY),
        (True, False, Movement.LOST),
        (True, True, Movement.LOST),
    ],
    ids=["closed, idle engine", "closed, works for others", "held, idle engine", "held, works for others"],
)
async def test_a_stream_closed_early_takes_our_request_back_and_one_that_is_held_does_not(
    *, hold: bool, rises: bool, movement: Movement
) -> None:
    """An engine that counts no request proves a lost one only while ours still waits."""
    made = 500

    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 9 * rises
        await reply_with(IDLE.replace("500", str(made)), 200, "text/plain")(request, writer)

    async with LlmServer(routes(streamed(chunk(""), hold=hold), metrics=metrics)) as running, ChatClient() as client:
        server = ServerSettings(name="s", base_url=running.url, model="m", probe=ProbeSettings(timeout_s=TIMEOUT_S))
        outcome = await GenerationCheck(server, client).probe(None, 1000.0)
    assert outcome.judgement.reason == "no_token"
    assert outcome.change.movement is movement
    assert ("front of it" in outcome.summary()) == (movement is Movement.LOST)
    assert outcome.severity is (Severity.WARN if movement is Movement.BUSY else Severity.PAGE)


async def test_an_error_said_in_plain_words_into_a_held_stream_is_quoted(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [streamed("Model worker crashed: CUDA error 700", hold=True)])
    assert "it said: Model worker crashed: CUDA error 700" in page.body


async def test_one_said_into_a_stream_that_ends_is_the_error_it_is(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [streamed("Error: engine thread panicked")])
    assert page.last.reason == "engine_dead"
    assert "engine thread panicked" in page.body


async def test_two_faults_in_one_incident_are_not_told_as_one_configuration(tmp_path: Path) -> None:
    refused = reply_with({"error": "Unauthorized"}, 401)
    dead = reply_with({"error": {"message": "EngineCore died", "type": "x", "code": 500}}, 500)
    page = await page_of(tmp_path, [refused, dead, refused])
    assert "configuration" not in page.title
    assert "different failures in turn (auth, then engine_dead, then auth)" in page.body


async def test_one_fault_is_said_once(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [reply_with({"error": "Unauthorized"}, 401)])
    assert page.body.count("refuses") == 1
    assert page.body.count("configuration:") == 1


async def test_503_from_what_may_be_no_proxy_speaks_of_none(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [reply_with("Service Unavailable", 503, "text/plain")])
    assert "proxy" not in page.text


# http:// and https:// mixed up


async def test_https_to_a_port_that_speaks_plain_http_is_said_at_once(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [reply_with({"choices": []})], url="https://127.0.0.1:{port}/v1")
    assert "this port speaks plain HTTP: use http:// in base_url" in page.body
    assert page.last.duration_s < TIMEOUT_S / 2
    assert "GPU" not in page.body


async def test_https_to_a_port_that_says_nothing_at_all_stays_unanswered(tmp_path: Path) -> None:
    page = await page_of(tmp_path, [silence], url="https://127.0.0.1:{port}/v1")
    assert page.last.reason == "no_reply"
    assert "plain HTTP" not in page.text


async def test_http_to_a_port_that_speaks_tls_is_said_though_the_port_only_hangs_up(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with LlmServer(reply_with({"choices": []}), tls=context) as secure:
        page = await page_of(tmp_path / "state", url=f"http://127.0.0.1:{secure.port}/v1")
    assert "this port speaks TLS: use https:// in base_url" in page.body


# Metrics that are taken from others by reading them


async def test_the_figures_of_tensorrt_llm_are_never_read_and_that_is_said(tmp_path: Path) -> None:
    read: list[str] = []

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        read.append(request.path)
        if request.path.endswith("/models"):
            models = {"object": "list", "data": [{"id": "m", "owned_by": "tensorrt_llm"}]}
            await reply_with(models)(request, writer)
        elif request.path.endswith("/chat/completions"):
            await silence(request, writer)
        else:
            await reply_with({"detail": "Not Found"}, 404)(request, writer)

    async with LlmServer(play) as running, ChatClient() as client:
        probe = ProbeSettings(timeout_s=TIMEOUT_S)
        server = ServerSettings(name="s", base_url=running.url, model="m", probe=probe)
        outcome = await GenerationCheck(server, client).probe(None, 1000.0)
    assert {"/metrics", "/v1/metrics"} & set(read) == set()
    assert "/prometheus/metrics" in read
    assert DRAINED in outcome.summary()


async def test_metrics_that_are_json_are_not_told_as_missing(tmp_path: Path) -> None:
    metrics = reply_with('[{"iterLatencyMS": 1}]', 200, "application/json")
    async with LlmServer(routes(silence, metrics=metrics)) as running, ChatClient() as client:
        probe = ProbeSettings(timeout_s=TIMEOUT_S)
        server = ServerSettings(name="s", base_url=running.url, model="m", probe=probe)
        outcome = await GenerationCheck(server, client).probe(None, 1000.0)
    assert "the metrics hold JSON" in outcome.summary()


# Real nginx


class Nginx:
    def __init__(self, where: Path) -> None:
        self.ports = {name: free_port() for name in ("limited", "denied", "dead", "slow", "secure")}
        certificate, key = self_signed(where)
        self.slow_port = free_port()
        temporary = "".join(
            f"{kind}_temp_path {where}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        forward = f"proxy_pass http://127.0.0.1:{self.slow_port};"
        inside = {
            "limited": f"location / {{ limit_req zone=all; {forward} proxy_read_timeout 1s; }}",
            "denied": "location / { deny all; }",
            "dead": f"location / {{ proxy_pass http://127.0.0.1:{free_port()}; }}",
            "slow": f"location / {{ {forward} proxy_read_timeout 500ms; }}",
            "secure": f"ssl_certificate {certificate}; ssl_certificate_key {key}; "
            "location / { proxy_pass http://127.0.0.1:1; }",
        }
        servers = "".join(
            f"server {{ listen 127.0.0.1:{port}{' ssl' if name == 'secure' else ''}; {inside[name]} }}\n"
            for name, port in self.ports.items()
        )
        config = where / "nginx.conf"
        config.write_text(
            f"daemon off; pid {where}/pid; error_log {where}/error.log;\nevents {{}}\n"
            f"http {{ access_log off; {temporary}\n"
            f"limit_req_zone $binary_remote_addr zone=all:1m rate=1r/m;\n{servers}}}\n"
        )
        self.process = subprocess.Popen(
            ["nginx", "-c", str(config), "-p", str(where)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}/v1"


@pytest.fixture
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    require("nginx", packages="nginx-light")
    started = Nginx(tmp_path_factory.mktemp("nginx"))
    try:
        asyncio.run(_until_open(started.ports["dead"]))
        yield started
    finally:
        started.process.terminate()
        started.process.wait(10)


async def _until_open(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "reason", "severity", "words"),
    [
        ("denied", "auth", "page", "an allow-list or a proxy refuses this machine: 403 Forbidden nginx/"),
        ("dead", "upstream_down", "page", "the address answers, the server behind it does not: 502 Bad Gateway nginx/"),
        ("slow", "gateway_timeout", "page", "gave up waiting"),
        ("secure", "bad_request", "page", "this port speaks TLS: use https:// in base_url"),
        ("limited", "busy", "warn", "at capacity"),
    ],
)
async def test_what_real_nginx_answers_is_told_as_what_it_is(
    tmp_path: Path, nginx: Nginx, name: str, reason: str, severity: str, words: str
) -> None:
    async with await asyncio.start_server(_never_answer, "127.0.0.1", nginx.slow_port):
        if name == "limited":  # somebody else has used the limit up
            await _ask_once(nginx.ports[name])
        page = await page_of(tmp_path, url=nginx.url(name))
    assert (page.last.reason, page.last.severity.value) == (reason, severity)
    assert words in page.text
    assert "our key" not in page.text


async def _ask_once(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    await reader.read(12)
    writer.close()


async def _never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()
