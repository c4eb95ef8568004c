"""A folder with the files that the configurations under `tests/fixtures/config` mention, with their modes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path

from watchdog.notify import url_problem

FIXTURES = Path(__file__).parents[1] / "fixtures" / "config"

ENVIRON = {
    "PHONE_URL": "json://127.0.0.1:9/hook",
    "MAIL_PASSWORD": "p4ssw0rd-of-the-mail",
    "DEEPSEEK_API_KEY": "k3y-of-the-server",
    "DEEPSEEK_PROJECT": "project",
    "HEARTBEAT_URL": "https://hc.example.org/s3cr3t-ping",
    "EMPTY_VARIABLE": "",
}
"""The environment that the fixtures are read with."""

PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nbm90IGEga2V5\n-----END OPENSSH PRIVATE KEY-----\n"
PUBLIC_KEY = "ssh-ed25519 bm90IGEga2V5 nobody@example.org\n"

_FILES: dict[str, tuple[bytes, int]] = {
    "id_ed25519": (PRIVATE_KEY.encode(), 0o600),
    "id_ed25519.pub": (PUBLIC_KEY.encode(), 0o600),
    "id_ed25519.passphrase": (b"passphrase of the key\n", 0o600),
    "id_ed25519.world-readable": (PRIVATE_KEY.encode(), 0o644),
    "known_hosts": (b"192.0.2.10,192.0.2.11 " + PUBLIC_KEY.encode(), 0o644),
    "web.token": (b"s3cr3t-token-of-the-page\n", 0o600),
    "ca.pem": (b"-----BEGIN CERTIFICATE-----\n", 0o644),
    "secret.good": (b"s3cr3t-in-a-file\n", 0o600),
    "secret.binary": (b"s3cr3t\xff\xfe\n", 0o600),
    "secret.two-lines": (b"s3cr3t\nsecond line\n", 0o600),
    "secret.empty": (b"\n", 0o600),
    "secret.world-readable": (b"s3cr3t-for-all\n", 0o604),
    "secret.group-readable": (b"s3cr3t-for-us\n", 0o640),
    "bad-rules.yaml": (b"- id: x\n", 0o644),
}

SECRETS = ("s3cr3t", "p4ssw0rd", "k3y-of")
"""A part of every secret in the fixtures, in `ENVIRON` and in the files: none may ever be printed."""


with warnings.catch_warnings():
    # The first question imports all services of apprise; one of them uses a module that Python 3.13 drops.
    warnings.simplefilter("ignore", DeprecationWarning)
    url_problem("json://127.0.0.1/")

_cached_problem = functools.cache(url_problem)


def asking_apprise(urls: Sequence[str]) -> Sequence[str | None]:
    """Checks receivers as the program does, in this process, each URL once."""
    return [_cached_problem(url) for url in urls]


def accepting(urls: Sequence[str]) -> Sequence[str | None]:
    """Accepts every receiver, for tests that are not about receivers."""
    return [None] * len(urls)


def lay_out(folder: Path, source: Path, mode: int = 0o600) -> Path:
    """Copy the configuration `source` into `folder` beside all files that it may mention; gives its new path."""
    for name, (data, file_mode) in _FILES.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(file_mode)
    (folder / "a-directory").mkdir(exist_ok=True)
    target = folder / "config.yaml"
    target.write_bytes(source.read_bytes())
    target.chmod(mode)
    return target
