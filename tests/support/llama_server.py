"""llama.cpp's own HTTP server, from the `xllamacpp` wheel, with a tiny model of random weights.

The wheel lives in an environment of its own, `.lab/llm` in the checkout (or where INFERENCE_WATCHDOG_LAB_LLM says):

    python3 -m venv .lab/llm && .lab/llm/bin/pip install --require-hashes -r requirements/lab.txt

Run as a program by that environment's interpreter it serves until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_LAB = Path(os.environ.get("INFERENCE_WATCHDOG_LAB_LLM", _HERE.parents[1] / ".lab/llm"))


def lab_python() -> Path:
    """The interpreter of the lab environment. Skips the test where it is missing; fails it in CI."""
    python = _LAB / "bin/python"
    if not python.exists():
        import pytest

        message = (
            f"no llama.cpp server: create {_LAB.name} from requirements/lab.txt (see tests/support/llama_server.py)"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return python


async def tiny_model(folder: Path, width: int = 128, layers: int = 4, kind: str = "") -> Path:
    """A model file in `folder`, written if it is not there yet."""
    path = folder / f"tiny-{width}-{layers}{kind}.gguf"
    if not path.exists():
        arguments = [str(path), str(width), str(layers), *([kind] if kind else [])]
        maker = await asyncio.create_subprocess_exec(lab_python(), _HERE / "tiny_gguf.py", *arguments)
        assert await maker.wait() == 0
    return path


@dataclass
class LlamaServer:
    """A running server."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def url(self) -> str:
        """The base URL of its API."""
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        """Freeze the whole process: the port still accepts, nothing answers."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        self.process.send_signal(signal.SIGCONT)

    async def answers(self, path: str = "/health") -> int:
        """The HTTP status of `path`, 0 if nobody listens."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return 0
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
        finally:
            writer.close()
        return int(line.split()[1]) if line else 0


@asynccontextmanager
async def llama_server(
    model: Path, *, slots: int = 1, api_key: str = "", wait: bool = True
) -> AsyncIterator[LlamaServer]:
    """Start the server on a free port and wait until it has loaded `model` (unless not to); stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        lab_python(), _HERE / "llama_server.py", str(model), str(port), str(slots), api_key,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    server = LlamaServer(process, port)
    try:
        async with asyncio.timeout(60):
            while wait and await server.answers() != 200:
                assert process.returncode is None, "the server died while it started"
                await asyncio.sleep(0.05)
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _serve(model: str, port: int, slots: int, api_key: str) -> None:
    import time

    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.n_ctx = 8192
    settings.n_parallel = slots
    settings.port = port
    settings.model_alias = {"tiny"}
    settings.endpoint_metrics = True
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    settings.n_threads_http = 24  # each waiting reply holds one: /metrics must not wait behind them
    settings.warmup = False
    settings.use_jinja = True
    if api_key:
        settings.api_keys = [api_key]
    server = xllamacpp.Server(settings)
    while server:
        time.sleep(3600)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
