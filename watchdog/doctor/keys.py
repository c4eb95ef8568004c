"""What we log in with: key and known_hosts, judged on this machine alone, before any connection."""

from __future__ import annotations

import stat
from pathlib import Path

from watchdog.config import HostSettings
from watchdog.doctor.finding import Finding, Grade
from watchdog.ssh import HostError
from watchdog.ssh.failure import Stage
from watchdog.ssh.login import options


def examine_key(host: HostSettings) -> Finding:
    """Whether the key of `host` can be used and is closed to others. A locked key takes half a second."""
    stage = Stage()
    try:
        given = options(host, stage)
    except HostError as error:
        return Finding(
            area="key",
            name=host.name,
            grade=Grade.FAIL,
            words=error.summary,
            fix=error.advice or "Correct that setting.",
            reason=error.reason.value,
        )
    keys = given.get("client_keys") or []
    prints = ", ".join(f"{key.get_algorithm()} {key.get_fingerprint()}" for key in keys)
    if not prints:
        where = "the running ssh-agent" if host.agent else "ssh_config"
        return Finding(
            area="key",
            name=host.name,
            grade=Grade.PASS,
            words=f"cannot see: the key comes from {where}, which a service may not have",
            seen=False,
            reason="unseen",
        )
    if host.identity_file is None:
        return Finding(area="key", name=host.name, grade=Grade.PASS, words=f"{prints}, handed over as a secret")
    mode = stat.S_IMODE(Path(host.identity_file).expanduser().stat().st_mode)
    return Finding(
        area="key", name=host.name, grade=Grade.PASS, words=f"{prints}, in {host.identity_file} (mode {mode:04o})"
    )
