"""File descriptors: as many as the configuration needs, the last ones kept for delivery, no target blamed for them."""

from __future__ import annotations

import errno
import os
import resource

import structlog

from watchdog.config import Config

log = structlog.get_logger("descriptors")

OF_THE_PROGRAM = 128
"""What it needs for itself: libraries, the state, logs, the event loop, threads that send."""
PAGE_CONNECTIONS = 64
"""Connections that the page holds at the same time; one more ends the one that has been idle longest."""
RESERVE = 48
"""The highest descriptors, which nothing but delivery may use."""
PER_SERVER, PER_HOST, PER_RECEIVER = 4, 6, 4
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""Errors of this machine, whatever it was talking to."""
_ALSO_WHEN_CONNECTING = EXHAUSTED | {errno.EADDRNOTAVAIL, errno.EAGAIN}
"""No local port is left, no thread can be started."""


_WHAT = {
    errno.EMFILE: "this program may open no more files and connections",
    errno.ENFILE: "the whole machine has no file descriptor left",
    errno.ENOMEM: "no memory is left",
    errno.ENOBUFS: "no memory is left for network buffers",
    errno.EADDRNOTAVAIL: "no local port is left for a connection",
    errno.EAGAIN: "no thread can be started",
}


def is_exhausted(error: BaseException | None, *, connecting: bool = False) -> bool:
    """Whether `error`, or one that it joins or wraps, means that this machine is out of something."""
    return used_up(error, connecting=connecting) is not None


def used_up(error: BaseException | None, *, connecting: bool = False) -> int | None:
    """The number of the error that says what this machine is out of, in `error` or one that it joins or wraps."""
    numbers = _ALSO_WHEN_CONNECTING if connecting else EXHAUSTED
    while error is not None:
        if isinstance(error, OSError):
            if error.errno in numbers:
                return error.errno
            # asyncio joins the errors of several addresses into one text without a number
            joined = (number for number in sorted(numbers) if f"[Errno {number}]" in str(error))
            found = next(joined, None) if error.errno is None else None
            if found is not None:
                return found
        error = error.__cause__
    return None


def words_for(number: int) -> str:
    """What error `number` says that this machine is out of; of a limit, how high it is."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if number == errno.EMFILE else resource.RLIM_INFINITY
    return _WHAT[number] + ("" if limit == resource.RLIM_INFINITY else f" (limit {limit})")


def needed(config: Config) -> int:
    """How many descriptors the daemon may need at once with `config`."""
    targets = PER_SERVER * len(config.servers) + PER_HOST * len(config.hosts) + PER_RECEIVER * len(config.receivers)
    return OF_THE_PROGRAM + PAGE_CONNECTIONS + RESERVE + targets


def raise_limit(count: int) -> int:
    """Raise this process's soft limit to `count`, as far as it may; returns the limit in force. It is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return soft
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a sandbox that forbids it, or the system's own maximum
        wanted = soft
    if wanted < count:
        log.warning("too_few_descriptors", limit=wanted, needed=count, advice="Raise LimitNOFILE= or `ulimit -Hn`.")
    return wanted


def require_room(descriptor: int | None = None) -> None:
    """Raise OSError (EMFILE) if `descriptor`, or the next one there is, is one of those kept for delivery.

    The system always gives the lowest free number, so a high one means that all below are taken.
    """
    limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    if descriptor is None:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.close(descriptor)
    if descriptor >= limit - min(RESERVE, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
