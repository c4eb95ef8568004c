"""Proof that a host's journal is being written: our own login must have left a record in it.

A journal that nobody writes reads like one in which nothing happens: complete, to its end, exit status 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.journal.frame import FULL_KIB, Hello
from watchdog.model import Json
from watchdog.reasons import HostReason
from watchdog.ssh import ReaderError
from watchdog.text import duration

CLOCK_SLACK_S = 2.0
"""The reader tells whole seconds, and sshd may write its record a moment before we count the login as begun."""


@dataclass(slots=True)
class JournalProof:
    """What is known of one host. `logins_recorded`: a login was seen to leave a record there; `stale_at`: our time in
    Unix seconds when its journal was first found stale, None while it is not.
    """

    logins_recorded: bool = False
    stale_at: float | None = None

    @classmethod
    def from_json(cls, stored: Json) -> JournalProof:
        """What `to_json` gave; anything else is nothing known."""
        values = stored if isinstance(stored, dict) else {}
        at = values.get("stale_at")
        known = isinstance(at, int | float) and not isinstance(at, bool)
        return cls(values.get("logins_recorded") is True, float(at) if known else None)  # type: ignore[arg-type]

    def to_json(self) -> Json:
        """For the check's memory."""
        return {"logins_recorded": self.logins_recorded, "stale_at": self.stale_at}

    def is_doubtful(self, hello: Hello, login_age_s: float) -> bool:
        """Whether a second look would be worth it: a record may come a moment after the login."""
        if hello.journald in {"stopped", "gone"}:
            return True
        expected = self.logins_recorded or _is_full(hello)
        return expected and hello.newest_age_s is not None and not _is_fresh(hello.newest_age_s, login_age_s)

    def judge(self, hello: Hello, login_age_s: float, now: float) -> ReaderError | None:
        """Why the journal proves nothing; None if it is written, or if nothing speaks against it.

        `login_age_s`: seconds since our login began. Where logins leave no record, only journald's state counts, and
        that it has no room to write.
        """
        age_s = hello.newest_age_s
        if hello.journald not in {"stopped", "gone"}:
            if age_s is None:
                return None
            if _is_fresh(age_s, login_age_s):
                self.logins_recorded, self.stale_at = True, None
                return None
            if self.stale_at is not None and now - age_s > self.stale_at + CLOCK_SLACK_S:
                # Written since we called it stale, and yet without this login: logins leave no record any more.
                self.logins_recorded, self.stale_at = False, None
            if not self.logins_recorded and not _is_full(hello):
                return None
        if self.stale_at is None:
            self.stale_at = now
        return _stale_error(hello)


def _is_fresh(age_s: float, login_age_s: float) -> bool:
    return abs(age_s) <= login_age_s + CLOCK_SLACK_S


def _is_full(hello: Hello) -> bool:
    return hello.free_kib is not None and hello.free_kib < FULL_KIB


def _stale_error(hello: Hello) -> ReaderError:
    journald, age_s = hello.journald, hello.newest_age_s
    newest = "" if age_s is None or age_s < 0 else f"; its newest record is {duration(age_s)} old"
    if journald == "gone":
        why, advice = "systemd-journald is not running", "Run there: `sudo systemctl start systemd-journald`."
    elif journald == "stopped":
        why = "systemd-journald is suspended (SIGSTOP, or a debugger)"
        advice = "Run there: `sudo systemctl kill -s CONT systemd-journald`."
    elif _is_full(hello):
        why, place = "its disk is full", "/var/log/journal"
        if hello.in_memory:
            why, place = "the memory it is kept in is full", "/run"
        advice = f"Run there: `df {place}`, make room, then `sudo systemctl restart systemd-journald`."
    else:
        why = "systemd-journald runs, but recorded not even our login"
        advice = (
            "Run there: `df /var/log/journal /run/log/journal` (is it full?), then `sudo systemctl restart "
            "systemd-journald`."
        )
    return ReaderError(
        HostReason.STALE,
        f"the journal is not being written: {why}{newest}",
        f"New kernel errors are not seen until then. {advice}",
    )
