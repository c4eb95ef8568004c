"""The road to a chat server over HTTP: one exchange under one total deadline, and small look-ups beside it.

`ChatClient` is shared by all checks; `request.endpoint_of` turns a server's settings into what it needs.
"""

from watchdog.chat.lazy_tls import import_aiohttp

import_aiohttp()

from watchdog.chat.client import ChatClient  # noqa: E402 - it imports aiohttp as well

__all__ = ["ChatClient"]
