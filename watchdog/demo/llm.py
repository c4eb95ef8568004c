"""An OpenAI-compatible chat server that can be told to misbehave while `/v1/models` keeps answering 200."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum

from aiohttp import web

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
