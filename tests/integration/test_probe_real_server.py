"""The probe against a real server: llama.cpp's own, with a tiny model of random weights."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.llama_server import llama_server, tiny_model
from watchdog.chat import ChatClient
from watchdog.chat.endpoint import endpoint_of, request_body
from watchdog.config import ProbeSettings, ServerSettings

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.alone]

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models of this module are written."""
    return tmp_path_factory.mktemp("models")


async def _probe(*arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "watchdog", "probe", *arguments, "--json",
        cwd=_ROOT, stdout=asyncio.subprocess.PIPE, env={**os.environ, **environment},
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(out)


async def test_a_real_server_gives_text_with_its_timings(models: Path) -> None:
    async with llama_server(await tiny_model(models)) as server:
        code, fields = await _probe(server.url, "--timeout", "20")
        _, plain = await _probe(server.url, "--no-stream", "--model", "any name at all", "--timeout", "20")
    assert (code, fields["reason"], fields["alive"], fields["finish_reason"]) == (0, "ok", True, "length")
    assert fields["text"].strip()
    assert 0 < fields["ttft_s"] <= fields["duration_s"]
    assert fields["engine"]["name"] == "llama.cpp"
    assert (plain["reason"], plain["completion_tokens"], plain["ttft_s"]) == ("ok", 5, None)


async def test_a_real_server_that_is_stopped_accepts_and_gives_no_reply_at_the_deadline(models: Path) -> None:
    async with llama_server(await tiny_model(models)) as server:
        server.stop()
        code, fields = await _probe(server.url, "--model", "tiny", "--timeout", "2")
        with socket.create_connection(("127.0.0.1", server.port), 1):
            pass  # the kernel still accepts: a port check would call this healthy
        server.go_on()
    assert (code, fields["reason"], fields["alive"]) == (2, "no_reply", None)
    assert 2.0 <= fields["duration_s"] < 2.1


async def test_a_real_server_with_a_key_is_a_configuration_fault_without_it(models: Path) -> None:
    async with llama_server(await tiny_model(models), api_key="sk-lab") as server:
        wrong, refused = await _probe(server.url, "--model", "tiny", "--api-key-env", "K", K="sk-wrong")
        right, answered = await _probe(server.url, "--model", "tiny", "--api-key-env", "K", K="sk-lab")
    assert (wrong, refused["reason"], refused["http_status"]) == (2, "auth", 401)
    assert (right, answered["reason"]) == (0, "ok")


async def test_broken_weights_are_alive_but_garbage(models: Path) -> None:
    async with llama_server(await tiny_model(models, kind="nan")) as server:
        code, fields = await _probe(server.url, "--model", "tiny", "--timeout", "20")
    assert (code, fields["verdict"], fields["reason"], fields["alive"]) == (1, "pass", "garbage", True)


async def test_a_real_server_with_one_slot_and_eight_long_replies_is_busy_and_alive(models: Path) -> None:
    async with llama_server(await tiny_model(models, 512, 8)) as server, ChatClient() as client:
        long = ServerSettings(name="user", base_url=server.url, probe=ProbeSettings(max_tokens=4000))
        deadline = asyncio.get_running_loop().time() + 60
        users = [
            asyncio.create_task(client.complete(endpoint_of(long), request_body(long, "tiny", f"user {n}"), deadline))
            for n in range(8)
        ]
        await asyncio.sleep(1)
        code, fields = await _probe(server.url, "--model", "tiny", "--timeout", "6")
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)
    assert (code, fields["reason"], fields["severity"], fields["alive"]) == (1, "busy", "warn", True), fields
    assert "n_decode_total rose by" in fields["summary"]
    assert fields["engine"]["movement"] == "busy"
    assert (fields["engine"]["running"], fields["engine"]["waiting"]) == (1, 8)


async def test_a_real_server_that_is_killed_is_refused(models: Path) -> None:
    async with llama_server(await tiny_model(models)) as server:
        server.process.kill()
        await server.process.wait()
        code, fields = await _probe(server.url, "--model", "tiny", "--timeout", "5")
    assert (code, fields["reason"], fields["alive"]) == (2, "refused", False)


async def test_a_real_server_that_loads_a_larger_model_says_so(models: Path) -> None:
    model = await tiny_model(models, 1024, 6)
    async with llama_server(model, wait=False) as server:
        seen: set[str] = set()
        async with asyncio.timeout(60):
            while await server.answers() == 0:
                await asyncio.sleep(0.002)
            settings = ServerSettings(name="s", base_url=server.url, model="tiny")
            async with ChatClient() as client:
                while "ok" not in seen:
                    body = request_body(settings, "tiny", "n")
                    judged = await client.complete(endpoint_of(settings), body, asyncio.get_running_loop().time() + 20)
                    seen.add(judged.reason.value)
    model.unlink()  # a third of a gigabyte
    assert seen == {"loading", "ok"}
