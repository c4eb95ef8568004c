"""One short look at a host for `init` and `doctor`: can we log in, may we read the kernel's lines, what is its time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watchdog.checks import host_requests as requests
from watchdog.clock import Clock
from watchdog.config import HostSettings
from watchdog.kernlog.transcript import Hello
from watchdog.ssh import HostError, Reason, Session, reading

SAMPLE_LINES = 20
"""So many lines prove that lines can be read."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What one login showed.

    `offset_s` is the host's clock minus ours, give or take `unsure_s`. `trouble` is why its kernel lines cannot be
    read, though the login works. `lines` counts kernel lines of the running boot, at most `SAMPLE_LINES`; `source` is
    where they came from.
    """

    hello: Hello
    offset_s: float
    unsure_s: float
    lines: int
    source: str
    forced_command: bool
    trouble: HostError | None = None


async def examine(host: HostSettings, clock: Clock, timeout_s: float, jump: HostSettings | None = None) -> Examined:
    """Log in to `host` once and look. Raises HostError when there is no login, or the reader does not run."""
    try:
        return await _look(host, clock, timeout_s, jump)
    except HostError as error:
        # A key that is bound to the installed reader takes no script: its reader refuses it as a request (rc 64).
        if error.reason is not Reason.CONFIG or host.forced_command or "refused our request" not in error.summary:
            raise
    return await _look(replace(host, forced_command=True), clock, timeout_s, jump)


async def _look(host: HostSettings, clock: Clock, timeout_s: float, jump: HostSettings | None) -> Examined:
    async with reading(host, timeout_s, jump=jump) as session:
        before = clock.wall()
        hello = await requests.greet(session)
        after = clock.wall()
        lines, source, trouble = await _lines(session, host, hello)
    return Examined(
        hello=hello,
        offset_s=hello.now + 0.5 - (before + after) / 2,  # the host gives whole seconds
        unsure_s=0.5 + (after - before) / 2,
        lines=lines,
        source=source,
        forced_command=host.forced_command,
        trouble=trouble,
    )


async def _lines(session: Session, host: HostSettings, hello: Hello) -> tuple[int, str, HostError | None]:
    """How many kernel lines of the running boot could be read, from where, and what was in the way."""
    if hello.journalctl and not hello.may_read_journal:
        return 0, "journal", requests.no_permission(host.user)
    try:
        if hello.journalctl and hello.boots:
            page = requests.Records(SAMPLE_LINES)
            await requests.ask(session, f"read1 journal {hello.boot} - {SAMPLE_LINES}", page.take)
            if page.records:
                return len(page.records), "journal", None
        ring, trouble = await requests.ring(session)
    except HostError as error:
        return 0, "journal", error
    empty = HostError(
        Reason.EMPTY_BOOT,
        "neither the journal nor the ring buffer shows one kernel line of the running boot",
        "Does `journalctl -k` show lines to this user? See `ReadKMsg=` and `Storage=` in journald.conf, and the disk.",
    )
    return len(ring), "kernel ring buffer", trouble if ring else empty
