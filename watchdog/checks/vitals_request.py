"""Asking a host for its vitals: the answer is over with its trailer, whatever hangs on behind it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from watchdog.checks.host_requests import SHORT_ANSWER_BYTES
from watchdog.clock import Clock
from watchdog.kernlog.transcript import Transcript
from watchdog.ssh import HostError, Reason, Session
from watchdog.vitals import Vitals, read_vitals

_GRACE_S = 0.2
"""After the trailer the connection may say so much longer that all is over; then it is left alone."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One answer, and how far the host's clock is ahead of ours in seconds (None: it does not tell the time)."""

    vitals: Vitals
    clock_offset_s: float | None


async def look(session: Session, clock: Clock) -> Looked:
    """Ask once; raises HostError when no complete answer comes.

    A hanging `nvidia-smi` keeps the far end of the channel open for ever, so its end is not waited for.
    """
    frame, lines, over = Transcript(), list[bytes](), asyncio.Event()
    heard: list[float] = []

    def feed(chunk: bytes) -> None:
        lines.extend(frame.feed(chunk))
        if frame.header is not None and not heard:
            heard.append(clock.wall())
        if frame.trailer is not None:
            over.set()

    asking = asyncio.create_task(session.ask("read1 vitals", feed, limit_bytes=SHORT_ANSWER_BYTES))
    waiting = asyncio.create_task(over.wait())
    try:
        await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            await asyncio.wait({asking}, timeout=_GRACE_S)
        if asking.done():
            asking.result()
    finally:
        waiting.cancel()
        asking.cancel()
        await asyncio.gather(waiting, asking, return_exceptions=True)
    vitals = read_vitals(frame.header or {}, lines) if frame.complete else None
    if vitals is None:
        why = frame.trailer.why if frame.trailer is not None else "no proper end"
        raise HostError(Reason.COMMAND_FAILED, f"the reader gave no vitals ({why})", "Install this version's reader.")
    return Looked(vitals, _offset(vitals.host_now, heard[0]))


def _offset(host_now: float | None, heard_at: float) -> float | None:
    """The host tells whole seconds, cut off: half a second is added, and less than a second is nothing."""
    if host_now is None:
        return None
    offset = host_now + 0.5 - heard_at
    return 0.0 if abs(offset) < 1.5 else round(offset, 1)
