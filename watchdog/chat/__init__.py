"""HTTP to chat servers: one exchange under one total deadline, and small requests beside it.

`ChatClient` is shared by all checks; `endpoint.endpoint_of` turns a server's settings into what it needs.
"""

from watchdog.chat.client import ChatClient

__all__ = ["ChatClient"]
