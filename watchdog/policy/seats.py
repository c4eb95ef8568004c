"""A seat: several servers take turns in one place, and exactly one of them should live.

Of the others, being refused is normal. Who answers with text holds the seat; when the holder is gone, the one that
answers next has taken it over. In between the seat is empty, and the holder's failures count as anyone's do, but for
a swap that is seen to be under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchdog.config import SeatSettings
from watchdog.model import Verdict
from watchdog.reasons import ServerReason


class Standing(StrEnum):
    """What a probe of one of a seat's servers means for it."""

    HOLDS = "holds"
    TAKES_OVER = "takes_over"
    NEXT = "next"
    """It gives text, and whether the holder still does is to be seen."""
    SECOND = "second"
    """It gives text while another one, that does as well, holds the seat."""
    EMPTY = "empty"
    """It fails, held the seat last, and nobody took it: this counts."""
    GIVES_WAY = "gives_way"
    """It held the seat and fails, and another one gives text."""
    AWAY = "away"
    """It fails while another one holds the seat, or held it last."""
    SWAPPING = "swapping"
    """It fails, held the seat last, and another one is starting."""
    UNDECIDED = "undecided"
    """It fails, and who held the seat last is not known before the others were looked at."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The last probe of one server: when (Unix seconds), its verdict and reason."""

    at: float
    verdict: Verdict
    reason: ServerReason

    @property
    def starts(self) -> bool:
        """Whether it is there, without text yet: it loads, or takes requests and does not answer them in time."""
        return self.reason is ServerReason.LOADING or self.reason.row.unanswered


@dataclass(slots=True)
class Seat:
    """Who holds the seat (`holder`), since when, and what was last seen of each server.

    `text_at` is when each of them last gave text (Unix seconds), also before this process began. What was seen longer
    than `fresh_s` ago says nothing about now. `missed_at` is when the holder first failed since it gave text.
    """

    settings: SeatSettings
    fresh_s: float = 600.0
    holder: str = ""
    seen: dict[str, Seen] = field(default_factory=dict)
    text_at: dict[str, float] = field(default_factory=dict)
    taken_from: str = ""
    missed_at: float | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def is_held(self) -> bool:
        """Whether its holder gave text when it was last looked at."""
        holder = self.seen.get(self.holder)
        return holder is not None and holder.verdict is Verdict.PASS

    def remember(self, server: str, text_at: float | None) -> None:
        """When `server` gave text in an earlier process; None = never."""
        if text_at is not None:
            self.text_at[server] = max(text_at, self.text_at.get(server, text_at))

    def others(self, server: str) -> Mapping[str, Seen]:
        """What was last seen of the other servers."""
        return {name: seen for name, seen in self.seen.items() if name != server}

    def look(self, server: str, seen: Seen) -> Standing:
        """Take what a probe of `server` saw, and say what it means."""
        before, self.seen[server] = self.seen.get(server), seen
        if seen.verdict is Verdict.PASS:
            return self._text(server, before, seen)
        living = self._living(server, seen.at)
        if living:
            was_holder = self.holder == server
            if self.holder != living:
                self._take(living)
            return Standing.GIVES_WAY if was_holder else Standing.AWAY
        if not self.holder:
            if set(self.seen) != set(self.settings.servers):
                return Standing.UNDECIDED
            self.holder = max(self.settings.servers, key=lambda name: self.text_at.get(name, 0.0))
        if self.holder != server:
            return Standing.AWAY
        self.missed_at = seen.at if self.missed_at is None else self.missed_at
        return Standing.SWAPPING if self._is_swapping(server, seen) else Standing.EMPTY

    def _text(self, server: str, before: Seen | None, seen: Seen) -> Standing:
        self.text_at[server] = seen.at
        if not self.holder or self.holder == server:
            self.holder, self.missed_at = server, None
            return Standing.HOLDS
        holder = self.seen.get(self.holder)
        if holder is not None and holder.verdict is Verdict.PASS and seen.at - holder.at < self.fresh_s:
            together = before is not None and before.verdict is Verdict.PASS and holder.at > before.at
            return Standing.SECOND if together else Standing.NEXT
        self._take(server)
        return Standing.TAKES_OVER

    def _take(self, server: str) -> None:
        self.taken_from, self.holder, self.missed_at = self.holder, server, None

    def _living(self, server: str, now: float) -> str:
        """Another server that gave text when it was last looked at, not long ago; "" if none did."""
        living = [
            name
            for name, seen in self.others(server).items()
            if seen.verdict is Verdict.PASS and now - seen.at < self.fresh_s
        ]
        return self.holder if self.holder in living else next(iter(living), "")

    def _is_swapping(self, server: str, seen: Seen) -> bool:
        """Whether its process is gone, another one is starting, and that has not taken too long yet."""
        if not seen.reason.row.must_last:
            return False  # it hangs, or says that it is broken: nobody ended it to make room
        text_at = self.text_at.get(server, 0.0)
        starting = any(one.starts and one.at > text_at for one in self.others(server).values())
        return starting and seen.at - (self.missed_at or seen.at) <= self.settings.swap_for_s
