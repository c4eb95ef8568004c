"""Certificate authorities are read when the first TLS connection is opened, not when aiohttp is imported.

aiohttp (3.14) makes a context with all the system's authorities at its import: 30 ms and 2 MiB that a daemon whose
servers speak plain HTTP in their own network should not pay before its first probe (design §11).
"""

from __future__ import annotations

import ssl
import sys
from typing import Any


class LateTrust(ssl.SSLContext):
    """What `ssl.create_default_context()` gives, but it reads the authorities when it is first used.

    Until then it trusts nobody: forgetting to load them could only refuse a server, never take a wrong one.
    """

    _trusting = False

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """As `ssl.SSLContext` does; asyncio opens every TLS connection here."""
        self._trust()
        return super().wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """As `ssl.SSLContext` does."""
        self._trust()
        return super().wrap_socket(*arguments, **named)

    def _trust(self) -> None:
        if not self._trusting:
            self.load_default_certs(ssl.Purpose.SERVER_AUTH)
            self._trusting = True


def late_context() -> LateTrust:
    """A context for clients with the checks of `ssl.create_default_context()`: names and certificates."""
    context = LateTrust(ssl.PROTOCOL_TLS_CLIENT)  # verifies both by itself
    if sys.version_info >= (3, 13):
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
    return context


def import_aiohttp() -> None:
    """Import aiohttp so that its own context is a late one. Where it is imported already, nothing is left to do."""
    if "aiohttp" in sys.modules:
        return
    usual = ssl.create_default_context
    ssl.create_default_context = late_context  # type: ignore[assignment]  # called without arguments
    # Its other context, the one that verifies nothing, reads the authorities too and never looks at them.
    ssl.SSLContext.set_default_verify_paths = lambda _context: None  # type: ignore[method-assign, assignment]
    try:
        import aiohttp.connector  # noqa: F401, PLC0415 - here, because it asks for its contexts when imported
    finally:
        ssl.create_default_context = usual
        del ssl.SSLContext.set_default_verify_paths
