"""The configuration that `init` writes: short, commented, with every secret by reference."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from watchdog.config import HostSettings
from watchdog.setup.receiver import NewReceiver
from watchdog.setup.server import NewServer

PLAIN = re.compile(r"[A-Za-z/~][A-Za-z0-9_./:@~-]*|[0-9]+(?:\.[0-9]+){3}")
SPECIAL = frozenset({"~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})

HEAD = """\
# Written by `inference-watchdog init`; it is yours to change. docs/reference.md lists every key, and
# `inference-watchdog validate` shows what is wrong with it, or who is alerted about what.
"""
SERVERS = "servers: # each is asked for real text every 2 minutes and must answer within 60 s; three failures alert"
HOSTS = "hosts: # kernel logs are read over SSH, live and every 10 minutes in full; nothing is changed there"
NO_HOSTS = """\
# hosts: # no kernel log is read yet. Run `inference-watchdog init` again, or see config/full.yaml:
#   - {name: head, address: 192.0.2.10, user: monitor, identity_file: id_ed25519, known_hosts: known_hosts}
"""
RECEIVERS = "receivers: # who gets alerts; `inference-watchdog test-alert` proves it"


def scalar(text: str) -> str:
    """`text` as a YAML scalar: plain where that is safe, else quoted (a JSON string is a YAML one)."""
    bare = PLAIN.fullmatch(text) and text.lower() not in SPECIAL and not text.endswith(":") and ": " not in text
    return text if bare else json.dumps(text, ensure_ascii=False)


def render(
    servers: Sequence[NewServer], hosts: Sequence[HostSettings], receivers: Sequence[NewReceiver], key: str
) -> str:
    """The text of the configuration. `key` is how the private key is given: a path or a reference."""
    parts = [HEAD, SERVERS]
    for server in servers:
        parts += _server(server, [host.name for host in hosts])
    parts.append("")
    if hosts:
        parts.append(HOSTS)
        for host in hosts:
            parts += _host(host, key)
    else:
        parts.append(NO_HOSTS.rstrip("\n"))
    parts += ["", RECEIVERS]
    for receiver in receivers:
        parts += [f"  - name: {scalar(receiver.name)}", f"    url: {receiver.reference}"]
    return "\n".join(parts) + "\n"


def _server(server: NewServer, hosts: Sequence[str]) -> list[str]:
    settings = server.settings
    lines = [f"  - name: {scalar(settings.name)}", f"    base_url: {scalar(settings.base_url)}"]
    if server.engine:
        lines[-1] += f" # engine: {server.engine}"
    if settings.model:
        lines.append(f"    model: {scalar(settings.model)}")
    if server.thinks:
        lines.append("    # a thinking model: five tokens of thinking prove that it is alive; max_tokens can stay low")
    if server.key_reference:
        lines.append(f"    api_key: {server.key_reference}")
    if settings.on_demand:
        lines.append("    on_demand: true # it loads models on request: a probe does not load one")
    if hosts:
        lines.append(f"    hosts: [{', '.join(scalar(name) for name in hosts)}]")
    return lines


def _host(host: HostSettings, key: str) -> list[str]:
    lines = [f"  - name: {scalar(host.name)}", f"    address: {scalar(host.address)}"]
    if host.port != 22:
        lines.append(f"    port: {host.port}")
    lines.append(f"    user: {scalar(host.user)}")
    if key.startswith("${"):
        lines.append(f"    identity: {key}")
    else:
        lines.append(f"    identity_file: {scalar(key)}")
    lines.append(f"    known_hosts: {scalar(host.known_hosts)}")
    if host.forced_command:
        lines.append("    forced_command: true # the key is bound to the installed reader")
    return lines
