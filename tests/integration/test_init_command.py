"""`init` with nobody at the terminal: flags decide, everything is tried for real, nothing is overwritten."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.llm_server import LlmServer, Player, chat_reply, in_turn, reply_with, routes
from tests.support.receivers import WebhookSink
from tests.support.sshd import real_host
from watchdog.cli.init import command

SECRET = "k3y-of-the-server"


def models(*names: str) -> Player:
    """A list of models."""
    return reply_with({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})


async def run(home: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Run the command line with a closed standard input; gives the exit status and everything it said."""
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "XDG_STATE_HOME": str(home / "state"), **environment}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "watchdog", *words, env=variables,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode is not None
    print(said.decode())  # whole, where an assertion shows only its ends
    return process.returncode, said.decode()


async def init(home: Path, *words: str, **environment: str) -> tuple[int, str]:
    """`init` without machines, into `home`/config.yaml."""
    flags: Sequence[str] = ("--no-ssh", "--timeout", "5", "--output", str(home / "config.yaml"))
    return await run(home, "init", *words, *flags, **environment)


async def test_flags_alone_lead_to_a_configuration_that_validates_and_a_delivered_test(tmp_path: Path) -> None:
    async with (
        LlmServer(routes(reply_with(chat_reply()), models=models("org/Some-Model"))) as server,
        WebhookSink() as sink,
    ):
        status, said = await init(tmp_path, "--url", server.url, "--receiver-env", "PHONE", "--yes", PHONE=sink.url())
        assert status == 0, said
        assert len(sink.arrived) == 2
        status, said = await run(tmp_path, "validate", "--config", str(tmp_path / "config.yaml"), PHONE=sink.url())
    assert status == 0, said
    text = (tmp_path / "config.yaml").read_text()
    assert "name: some-model" in text
    assert "${env:PHONE}" in text
    assert sink.url() not in text


async def test_an_existing_configuration_is_left_alone_unless_forced(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("mine")
    flags = ("--url", "127.0.0.1:1", "--receiver", "json://127.0.0.1:9/x", "--no-test", "--yes")
    status, said = await init(tmp_path, *flags)
    assert (status, config.read_text()) == (64, "mine")
    assert "--force" in said
    status, said = await init(tmp_path, *flags, "--force")
    assert status == 1, said  # the server does not answer
    assert "http://127.0.0.1:1/v1" in config.read_text()


GOOD = ("--url", "127.0.0.1:1", "--receiver", "json://127.0.0.1:9/x")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "--url is needed"),
        (("--url", "ftp://x"), "is not a server address"),
        (("--url", "127.0.0.1:1"), "--receiver is needed"),
        (("--url", "127.0.0.1:1", "--receiver", "jsom://h/x"), "did you mean `json://`"),
        (("--url", "127.0.0.1:1", "--receiver-env", "NOT_SET_AT_ALL"), "NOT_SET_AT_ALL is not set"),
        (("--url", "127.0.0.1:1", "--api-key-env", "NOT_SET_AT_ALL"), "NOT_SET_AT_ALL is not set"),
        ((*GOOD, "--host", "-oProxyCommand=x@y"), "-oProxyCommand is not a valid name"),
        ((*GOOD, "--host", "m@a", "--host", "m@a"), "two hosts have the same name"),
        ((*GOOD, "--host", "m@a", "--identity", __file__), "key"),
        ((*GOOD, "--host", "m@a", "--url", "ftp://x"), "is not a server address"),
        ((*GOOD, "--model", ""), "--model"),
        ((*GOOD, "--receiver-env", "HOME"), "cannot be used together"),
    ],
)
async def test_what_cannot_be_right_stops_before_anything_is_written(
    tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    status, said = await init(tmp_path, *flags, "--yes")
    assert status == 64, said
    assert words in said
    assert list(tmp_path.iterdir()) == [], "something was made before the flags were read"
    assert "Server" not in said.splitlines()


async def test_without_yes_and_without_a_terminal_nothing_is_agreed_to(tmp_path: Path) -> None:
    async with LlmServer(routes(reply_with(chat_reply()), models=models("m"))) as server, WebhookSink() as sink:
        status, said = await init(tmp_path, "--url", server.url, "--receiver", sink.url())
    assert status == 0, said
    assert "no (unattended, and no --yes)" in said
    assert sink.arrived == []


async def test_a_server_of_several_models_needs_one_named(tmp_path: Path) -> None:
    async with LlmServer(routes(reply_with(chat_reply()), models=models("first", "second"))) as server:
        flags = ("--url", server.url, "--receiver", "json://127.0.0.1:9/x", "--no-test", "--yes")
        status, said = await init(tmp_path, *flags)
        assert status == 0, said
        assert "Using first; --model selects another" in said
        status, said = await init(tmp_path, *flags, "--force", "--model", "second")
    assert status == 0, said
    assert "model: second" in (tmp_path / "config.yaml").read_text()


async def test_a_thinking_model_is_said_to_be_alive(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": None, "reasoning_content": "Let me think about"}
    thinking = {"id": "c", "object": "chat.completion", "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}  # fmt: skip
    async with LlmServer(routes(reply_with(thinking), models=models("m"))) as server:
        status, said = await init(
            tmp_path, "--url", server.url, "--receiver", "json://127.0.0.1:9/x", "--no-test", "--yes"
        )
    assert status == 0, said
    assert "A thinking model" in said
    assert "thinking" in (tmp_path / "config.yaml").read_text()


async def test_a_server_that_loads_on_demand_is_not_woken_and_configured_so(tmp_path: Path) -> None:
    ollama = routes(reply_with(chat_reply()), models=models("qwen3:8b"), ps=reply_with({"models": []}))
    async with LlmServer(ollama) as server:
        status, said = await init(
            tmp_path, "--url", server.url, "--receiver", "json://127.0.0.1:9/x", "--no-test", "--yes"
        )
        assert server.asked() == []
    assert status == 0, said
    assert "on_demand: true" in (tmp_path / "config.yaml").read_text()


async def test_a_secret_is_nowhere_in_what_is_said_or_written(tmp_path: Path) -> None:
    refused = reply_with({"error": f"bad key {SECRET}"}, 401)
    async with LlmServer(in_turn(refused)) as server, WebhookSink() as sink:
        flags = ("--url", server.url, "--api-key-env", "LLM_KEY", "--receiver-env", "PHONE", "--yes")
        url = sink.url() + "/t0ken-of-the-phone"
        status, said = await init(tmp_path, *flags, LLM_KEY=SECRET, PHONE=url)
        assert status == 1
        assert "(auth)" in said
        found = await run(
            tmp_path, "doctor", "--json", "--config", str(tmp_path / "config.yaml"), LLM_KEY=SECRET, PHONE=url
        )
    everything = said + found[1] + (tmp_path / "config.yaml").read_text()
    assert SECRET not in everything
    assert "t0ken-of-the-phone" not in everything
    findings = [json.loads(line) for line in found[1].splitlines()]
    assert {"area", "name", "grade", "reason", "seen", "words", "fix"} == set(findings[0])
    assert [one["reason"] for one in findings if one["area"] == "server"] == ["auth"]
    assert found[0] == 2


async def test_the_doctor_goes_on_where_it_can_without_a_good_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "servers: [{name: a, base_ulr: http://127.0.0.1:1/v1}]\nreceivers: [{name: p, url: jsom://x/y}]\n"
    )
    status, said = await run(tmp_path, "doctor", "--config", str(config))
    assert status == 64
    assert "did you mean base_url?" in said
    assert "did you mean `json://`?" in said
    assert "cannot tell: servers, hosts" in said
    assert "pass  python" in said


def test_the_system_service_gets_secrets_and_key_as_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its account may not read what root keeps for itself; systemd hands it over (units/inference-watchdog.service)."""
    config = tmp_path / "config.yaml"
    monkeypatch.setattr("watchdog.cli.service.SYSTEM_CONFIG", str(config))
    monkeypatch.setattr("sys.platform", "linux")
    flags = ["--url", "127.0.0.1:1", "--host", "head=monitor@192.0.2.10", "--no-ssh", "--no-test", "--yes"]
    flags += ["--receiver", "json://127.0.0.1:9/t0ken-of-the-phone", "--output", str(config)]
    said = CliRunner().invoke(command, flags, standalone_mode=False)
    assert said.exception is None, said.output
    text = config.read_text()
    assert "identity: ${credential:secret_id_ed25519}" in text
    assert "url: ${credential:secret_phone_url}" in text
    assert "t0ken" not in text
    assert config.stat().st_mode & 0o777 == 0o644
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "credentials").iterdir()}
    assert modes["id_ed25519"] == modes["phone_url"] == 0o600
    assert (tmp_path / "credentials").stat().st_mode & 0o777 == 0o700
    assert "restrict ssh-ed25519 " in said.output


@pytest.mark.real
async def test_a_key_that_is_bound_to_the_reader_is_found_out(tmp_path: Path) -> None:
    with real_host(tmp_path / "lab") as host:
        journal = host.journal(wall_us=int((time.time() - 100) * 1e6))
        journal.kernel(host.boot, 1_000_000, "Linux version 6.17")
        host.plant(journal)
        config = tmp_path / "config.yaml"
        status, said = await run(
            tmp_path, "init", "--url", "127.0.0.1:1", "--host", f"head=watch@127.0.0.1:{host.port}",
            "--yes", "--no-test",
            "--identity", str(host.forced_key), "--receiver", "json://127.0.0.1:9/x", "--output", str(config),
        )  # fmt: skip
        assert status == 1, said  # there is no server
        assert "the key is bound to the reader" in said
        text = config.read_text()
        assert "forced_command: true" in text
        _, said = await run(tmp_path, "doctor", "--config", str(config))
        assert "our key is bound to the reader" in said
        assert "fail  host" not in said
        assert "is older" not in said
        reader = host.root / "lab/reader"
        newest = reader.read_text()
        reader.write_text(newest.replace("    echo can=nccl", "    :"))
        _, said = await run(tmp_path, "doctor", "--config", str(config))
        flat = " ".join(said.split())
        assert "reader on head is older: install it again" in flat
        assert "sudo ACCOUNT=watch sh install.sh 'ssh-ed25519 " in flat
        reader.write_text(newest)
        config.write_text(text.replace("forced_command: true", "forced_command: false"))
        _, said = await run(tmp_path, "doctor", "--config", str(config))
        assert "Set `forced_command: true` for host head." in said
