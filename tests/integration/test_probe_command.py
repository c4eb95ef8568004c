"""The `probe` command as a user runs it: flags, JSON fields, exit codes, plain words."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.llm_server import LlmServer, chat_reply, in_turn, recorded, reply_with, routes, silence

_ROOT = Path(__file__).parents[2]
_FIELDS = [
    "verdict", "reason", "severity", "summary", "text", "reasoning", "finish_reason", "completion_tokens",
    "http_status", "ttft_s", "duration_s", "resent", "alive", "evidence", "engine",
]  # fmt: skip


async def _probe(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "watchdog", "probe", *arguments,
        cwd=_ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment},
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_healthy_server_exits_0_with_every_field() -> None:
    async with LlmServer(routes(recorded("vllm-stream-ok"))) as server:
        code, out, _ = await _probe(server.url, "--model", "m", "--json")
    fields = json.loads(out)
    assert code == 0
    assert list(fields) == _FIELDS
    assert (fields["verdict"], fields["reason"], fields["text"], fields["alive"]) == ("pass", "ok", "ok.", True)
    assert (fields["completion_tokens"], fields["finish_reason"], fields["http_status"]) == (3, "stop", 200)
    assert (fields["resent"], fields["engine"]) == (0, None)


async def test_a_hang_is_told_at_the_deadline_and_exits_2() -> None:
    async with LlmServer(routes(silence)) as server:
        code, out, _ = await _probe(server.url, "--model", "m", "--timeout", "1", "--json")
    fields = json.loads(out)
    assert (code, fields["reason"], fields["alive"], fields["severity"]) == (2, "no_reply", None, "page")
    assert 1.0 <= fields["duration_s"] < 1.1


async def test_a_busy_engine_exits_1_and_shows_its_movement() -> None:
    scrapes = (
        reply_with(
            f"llamacpp:requests_processing 1\nllamacpp:requests_deferred 7\nllamacpp:n_decode_total {n}\n".encode()
        )
        for n in (63, 1290)
    )
    async with LlmServer(routes(silence, metrics=in_turn(*scrapes))) as server:
        code, out, _ = await _probe(server.url, "--model", "m", "--timeout", "1", "--json")
    fields = json.loads(out)
    assert (code, fields["reason"], fields["alive"], fields["severity"]) == (1, "busy", True, "warn")
    assert fields["engine"] == {
        "name": "llama.cpp", "running": 1, "waiting": 7, "kv_usage": None, "movement": "busy",
    }  # fmt: skip


async def test_metrics_are_read_where_the_flag_says() -> None:
    metrics = reply_with("vllm:num_requests_running 1\nvllm:generation_tokens_total 5\n")
    async with LlmServer(routes(silence)) as server, LlmServer(metrics) as other:
        url = f"http://127.0.0.1:{other.port}/m"
        _, out, _ = await _probe(server.url, "--model", "m", "--timeout", "1", "--json", "--metrics-url", url)
    assert json.loads(out)["engine"]["movement"] == "frozen"


async def test_garbage_passes_with_a_warning() -> None:
    async with LlmServer(routes(reply_with(chat_reply("!!!!!")))) as server:
        code, out, _ = await _probe(server.url, "--model", "m", "--no-stream", "--json")
        assert server.asked()[0].json["stream"] is False
    fields = json.loads(out)
    assert (code, fields["verdict"], fields["reason"], fields["severity"]) == (1, "pass", "garbage", "warn")


async def test_the_plain_line_says_what_happened_and_what_to_do_next() -> None:
    async with LlmServer(routes(recorded("vllm-401-string"))) as server:
        code, out, _ = await _probe(server.url, "--model", "m", "--api-key-env", "MY_KEY", MY_KEY="sk-mute_loggers")
        assert server.asked()[0].headers["authorization"] == "Bearer sk-mute_loggers"
    assert code == 2
    assert out.startswith("FAIL 127.0.0.1:")
    assert "configuration: the server refuses our key" in out
    assert "next: Set api_key" in out
    assert "sk-mute_loggers" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["localhost:8000"], "BASE_URL must start with http"),
        (["ftp://host/v1"], "BASE_URL must start with http"),
        (["http://host:99999/v1"], "BASE_URL is not a valid URL"),
        (["http://user:hunter2@host/v1"], "BASE_URL holds a user or password, and it is shown: give a key with --api"),
        (["http://hunter2@host/v1"], "BASE_URL holds a user or password"),
        (["http://ho\nst/v1"], "BASE_URL contains a line break"),
        (["http://host/v1\r\n"], "BASE_URL contains a line break"),
        (["http://host/\x1b[31mv1"], "BASE_URL contains a line break or another invisible character"),
        (["http://host/v1?key=hunter2"], "BASE_URL holds a ? or #"),
        (["http://host/v1", "--metrics-url", "http://user:hunter2@host/metrics"], "--metrics-url holds a user"),
        (["http://host/v1", "--timeout", "nan"], "nan is not a finite number"),
        (["http://host/v1", "--timeout", "0"], "--timeout"),
        (["http://host/v1", "--max-tokens", "0"], "--max-tokens"),
        (["http://host/v1", "--api-key-env", "NO_SUCH_VARIABLE_HERE"], "NO_SUCH_VARIABLE_HERE is not set"),
        (["http://host/v1", "--metrics-url", "host/metrics"], "--metrics-url must start"),
        ([], "Missing argument"),
    ],
)
async def test_wrong_usage_exits_64_with_a_plain_line(arguments: list[str], words: str) -> None:
    code, _, err = await _probe(*arguments)
    assert code == 64
    assert words in " ".join(err.split())
    assert "Traceback" not in err
    assert "hunter2" not in err
