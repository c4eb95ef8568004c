"""TLS servers are trusted by the authorities of the system."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path

from tests.support.certificate import self_signed
from tests.support.llm_server import LlmServer, chat_reply, reply_with, routes

ASK = """
import asyncio, sys
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.config import ProbeSettings, ServerSettings

async def main():
    async with ChatClient() as client:
        server = ServerSettings(name="s", base_url=sys.argv[1], model="m", probe=ProbeSettings(timeout_s=5))
        print((await GenerationCheck(server, client).probe(None, 1000.0)).reason.value)

asyncio.run(main())
"""


def ask(url: str, **environment: str) -> str:
    """The reason that the first probe of `url` gives in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, url],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


async def test_a_server_is_trusted_only_when_an_authority_of_the_system_vouches_for_it(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with LlmServer(routes(reply_with(chat_reply())), tls=context) as server:
        assert await asyncio.to_thread(ask, server.url) == "tls"
        assert await asyncio.to_thread(ask, server.url, SSL_CERT_FILE=str(certificate)) == "ok"
