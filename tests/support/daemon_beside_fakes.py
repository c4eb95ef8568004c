"""The daemon's command line, with what apprise sends to the world going to fakes on loopback.

    python -m tests.support.daemon_beside_fakes '{"pagerduty": PORT, …}' run …

A request goes to the fake of the service whose thread sends it: threads are named after their receiver.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter

from watchdog.cli import main


def stand_in(ports: dict[str, int]) -> None:
    plain = HTTPAdapter.send

    def send(adapter: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        split = urlsplit(request.url)
        port = ports[threading.current_thread().name.removeprefix("notify-")]
        query = f"?{split.query}" if split.query else ""
        request.url = f"http://127.0.0.1:{port}/{split.hostname}{split.path}{query}"
        return plain(adapter, request, *arguments, **options)

    HTTPAdapter.send = send  # type: ignore[method-assign,assignment]  # this process is the test's own


if __name__ == "__main__":
    stand_in(json.loads(sys.argv[1]))
    main(sys.argv[2:])
