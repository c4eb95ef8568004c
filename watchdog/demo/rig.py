"""The whole rig: one chat server, two machines, one phone, and a configuration that points at them.

    python -m watchdog.demo.rig DIRECTORY

serves with intervals as shipped until it is told to stop, for measuring a daemon from outside: it prints one line of
JSON when it is ready (`{"config": …}`) and one when the first probe arrives (`{"at": …}`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import asyncssh
from aiohttp import web

from watchdog.demo.hosts import USER, Machine

MODEL = "demo-model"
TOKENS = ("All", " is", " well", " here", ".")
TOKEN_S = 0.01
"""A hundred tokens a second, so that there is a speed to measure."""


class Mode(StrEnum):
    """How the server treats a chat completion."""

    OK = "ok"
    FROZEN = "frozen"
    EMPTY = "empty"
    ERROR = "500"
    SLOW = "slow"
    LOADING = "503"


class ChatServer:
    """Serves `/v1/models`, `/v1/chat/completions` and `/metrics` on loopback; `mode` may change at any time."""

    def __init__(self) -> None:
        self.mode = Mode.OK
        self.slow_s = 1.0
        self.generated_tokens = 0
        self.replied = asyncio.Event()
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """What goes into `base_url:` of a configuration."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        """Listen on a free loopback port, then known as `port`; again on the same one after a stop."""
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "demo"}]})

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self.mode is Mode.LOADING:
            return _loading()
        waiting = 1 if self.mode is Mode.FROZEN else 0
        body = (
            f'vllm:num_requests_running{{model_name="{MODEL}"}} {waiting}\n'
            f'vllm:num_requests_waiting{{model_name="{MODEL}"}} 0\n'
            f'vllm:generation_tokens_total{{model_name="{MODEL}"}} {self.generated_tokens}\n'
        )
        return web.Response(text=body)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.replied.set()
        if self.mode is Mode.ERROR:
            error = {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}
            return web.json_response({"error": error}, status=500)
        if self.mode is Mode.LOADING:
            return _loading()
        if self.mode is Mode.FROZEN:
            await asyncio.Event().wait()
        if self.mode is Mode.SLOW:
            await asyncio.sleep(self.slow_s)
        tokens = () if self.mode is Mode.EMPTY else TOKENS[: int(asked.get("max_tokens", 5))]
        self.generated_tokens += len(tokens)
        if asked.get("stream"):
            return await self._stream(request, tokens)
        message = {"role": "assistant", "content": "".join(tokens)}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
        whole = {"id": "chatcmpl-demo", "object": "chat.completion", "created": 0, "model": MODEL}
        return web.json_response(whole | {"choices": [choice], "usage": usage})

    async def _stream(self, request: web.Request, tokens: tuple[str, ...]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
        deltas += [({"content": token}, None) for token in tokens]
        deltas.append(({}, "length"))
        for delta, finish in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
            await response.write(b"data: " + json.dumps(chunk | {"choices": [choice]}).encode() + b"\n\n")
            await asyncio.sleep(TOKEN_S if delta.get("content") else 0.0)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _loading() -> web.Response:
    error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
    return web.json_response({"error": error}, status=503)


# A receiver that stands for your phone: a webhook on loopback that hands each alert to a callback.


@dataclass(frozen=True, slots=True)
class Alert:
    """What arrived: apprise's JSON form."""

    title: str
    message: str


class Phone:
    """Receives apprise `json://` notifications and passes each to `on_alert`, in the order of arrival."""

    def __init__(self, on_alert: Callable[[Alert], None]) -> None:
        self._on_alert = on_alert
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """What goes into a receiver's `url:`."""
        return f"json://127.0.0.1:{self.port}/alerts"

    async def start(self) -> None:
        """Listen on a free loopback port."""
        app = web.Application()
        app.router.add_post("/alerts", self._receive)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._on_alert(Alert(body.get("title", ""), body.get("message", "")))
        return web.Response(text="ok")


SERVER = "deepseek"
SPARE = "hikari"
HOSTS = ("head", "worker")


class Rig:
    """Starts and stops all parts; `write_config` makes the configuration file for a daemon."""

    def __init__(self, directory: Path, on_alert: Callable[[Alert], None]) -> None:
        self.directory = directory
        self.chat = ChatServer()
        self.spare = ChatServer()
        self.machines = {name: Machine(name, _made(directory / name)) for name in HOSTS}
        self.phone = Phone(on_alert)

    async def start(self) -> None:
        """Open all ports, with fresh keys for login and hosts."""
        client, host = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        identity = self.directory / "id_ed25519"
        identity.touch(mode=0o600)
        identity.write_bytes(client.export_private_key())
        await self.chat.start()
        await self.spare.start()
        await self.phone.start()
        public = host.export_public_key().decode().strip()
        known = []
        for machine in self.machines.values():
            await machine.start(host, client)
            known.append(f"[127.0.0.1]:{machine.port} {public}\n")
        (self.directory / "known_hosts").write_text("".join(known))

    async def stop(self) -> None:
        await self.chat.stop()
        await self.spare.stop()
        await self.phone.stop()
        for machine in self.machines.values():
            await machine.stop()

    def write_config(self, *, probe: str = "", kernel_log: str = "", spare: str = "") -> Path:
        """Write the configuration; `probe` and `kernel_log` are YAML flow mappings that shorten the intervals.

        With `spare`, such a mapping too, a second server is watched.
        """
        lines = [
            "servers:",
            f"  - name: {SERVER}",
            f"    base_url: {self.chat.base_url}",
            f"    hosts: [{', '.join(HOSTS)}]",
            *([f"    probe: {probe}"] if probe else []),
            *([f"  - {{name: {SPARE}, base_url: '{self.spare.base_url}', probe: {spare}}}"] if spare else []),
            "hosts:",
        ]
        for machine in self.machines.values():
            lines += [
                f"  - name: {machine.name}",
                "    address: 127.0.0.1",
                f"    port: {machine.port}",
                f"    user: {USER}",
                f"    identity_file: {self.directory / 'id_ed25519'}",
                f"    known_hosts: {self.directory / 'known_hosts'}",
                *([f"    kernel_log: {kernel_log}"] if kernel_log else []),
            ]
        lines += ["receivers:", "  - name: phone", f"    url: {self.phone.url}", "    min_severity: page"]
        path = self.directory / "config.yaml"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n")
        return path


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


async def _serve(directory: Path) -> None:
    rig = Rig(directory, lambda _alert: None)
    await rig.start()
    print(json.dumps({"config": str(rig.write_config())}), flush=True)
    await rig.chat.replied.wait()
    print(json.dumps({"at": time.time()}), flush=True)  # noqa: TID251 - measured outside the daemon
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(Path(sys.argv[1])))
