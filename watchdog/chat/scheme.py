"""Is base_url's scheme the wrong one? A second connection asks the port in the other one's language."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from yarl import URL

_PATIENCE_S = 2.0


async def speaks_plain_http(base: URL) -> bool:
    """Whether the port of `base` answers a request without TLS. Sends neither path nor key."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(base.host, base.port)
            with contextlib.closing(writer):
                writer.write(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n")
                status = (await reader.readexactly(12)).decode("latin-1")
                page = (await reader.read(4096)).decode("latin-1").lower()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return False
    # A port that speaks TLS may say so in plain HTTP, with 400.
    return status.startswith("HTTP/") and not (status.endswith("400") and ("https" in page or "ssl" in page))


async def speaks_tls(base: URL) -> bool:
    """Whether the port of `base` begins TLS with us, with whatever certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(
                base.host, base.port, ssl=context, server_hostname=base.host, ssl_handshake_timeout=_PATIENCE_S
            )
            writer.transport.abort()
    except ssl.SSLError as error:
        return (error.reason or "").startswith(("TLSV", "SSLV3_ALERT", "TLS_ALERT"))  # it refused us, in TLS
    except (OSError, TimeoutError, ValueError):
        return False
    return True
