"""The command line of `init`, checked before a server is asked and a file is written."""

from __future__ import annotations

import os
from dataclasses import dataclass

from watchdog.config import Secret
from watchdog.errors import WatchdogError
from watchdog.setup import host, receiver, server
from watchdog.text import clean_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    urls: tuple[str, ...]
    model: str | None
    api_key_env: str | None
    hosts: tuple[str, ...]
    identity: str | None
    no_ssh: bool
    receiver: str | None
    receiver_env: str | None
    no_test: bool
    force: bool
    timeout_s: float

    def check(self, *, unattended: bool) -> None:
        """Raises WatchdogError for the first flag that cannot be used. Writes nothing."""
        if not self.urls and unattended:
            raise WatchdogError("--url is needed: the base URL of the server, like http://192.0.2.10:8000/v1")
        for url in self.urls:
            server.usable_url(url)
        if self.model is not None and (not self.model or clean_line(self.model) != self.model):
            raise WatchdogError("--model: that is not a model name")
        self.api_key()
        host.check_hosts(self.hosts, self.identity)
        receiver.check(self.receiver, self.receiver_env, self.receiver_value(), unattended=unattended)

    def api_key(self) -> tuple[Secret, str] | None:
        """The API key and the reference to it. Raises WatchdogError for a variable that is not set."""
        if self.api_key_env is None:
            return None
        value = os.environ.get(self.api_key_env, "").strip()
        if not value:
            raise WatchdogError(f"--api-key-env: the environment variable {self.api_key_env} is not set or empty")
        return Secret(value), f"${{env:{self.api_key_env}}}"

    def receiver_value(self) -> str | None:
        """The receiver's URL from the environment; None when no variable is named."""
        return os.environ.get(self.receiver_env, "").strip() if self.receiver_env else None
