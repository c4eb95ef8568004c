"""aiohttp's own TLS context reads the authorities at the first connection, and trusts nobody before."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path

from tests.support.certificate import self_signed
from tests.support.llm_server import LlmServer, chat_reply, reply_with, routes
from watchdog.chat.lazy_tls import late_context

ASK = """
import asyncio, ssl, sys
from watchdog.chat import ChatClient
from watchdog.checks.generation import GenerationCheck
from watchdog.config import ProbeSettings, ServerSettings
import aiohttp.connector

print(aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"])

async def main():
    async with ChatClient() as client:
        server = ServerSettings(name="s", base_url=sys.argv[1], model="m", probe=ProbeSettings(timeout_s=5))
        print((await GenerationCheck(server, client).probe(None, 1000.0)).reason.value)

asyncio.run(main())
"""


def ask(url: str, **environment: str) -> list[str]:
    """How many certificates a fresh process has read before its first probe, and what the probe of `url` gave."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, url],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()


async def test_authorities_are_read_at_the_first_tls_connection_and_then_decide(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with LlmServer(routes(reply_with(chat_reply())), tls=context) as server:
        assert await asyncio.to_thread(ask, server.url) == ["0", "tls"]
        assert await asyncio.to_thread(ask, server.url, SSL_CERT_FILE=str(certificate)) == ["0", "ok"]


def test_a_late_context_checks_what_the_default_context_checks() -> None:
    late, usual = late_context(), ssl.create_default_context()
    for name in ("verify_mode", "check_hostname", "verify_flags", "options", "minimum_version"):
        assert getattr(late, name) == getattr(usual, name), name
