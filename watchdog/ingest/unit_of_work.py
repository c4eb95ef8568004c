"""What one step changes: together in memory and in the store, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from watchdog.model import Incident, Json, Observation, TrackState, Transition
from watchdog.policy import Decision
from watchdog.store import Commit, Queued

_MISSING = object()


@dataclass(slots=True)
class UnitOfWork:
    """What one step changed, to be written together. `decisions` are for the log; `full` names full outboxes.

    `untaken` holds what could not be taken in: each fails alone, and nothing of it is in the rest.
    """

    observations: list[Observation] = field(default_factory=list)
    tracks: dict[str, TrackState | None] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    messages: list[Queued] = field(default_factory=list)
    decisions: list[tuple[Incident, Transition | None, Decision]] = field(default_factory=list)
    full: set[str] = field(default_factory=set)
    hurried: bool = False
    untaken: list[tuple[Observation, Exception]] = field(default_factory=list)
    _before: dict[tuple[int, str], tuple[dict[str, Any], Any]] = field(default_factory=dict)
    _after: dict[tuple[int, str], Any] | None = None

    def changes(self, memory: dict[str, Any], key: str) -> None:
        """Say so before `memory[key]` changes, so that it can be taken back."""
        self._before.setdefault((id(memory), key), (memory, memory.get(key, _MISSING)))

    def seal(self) -> None:
        """All changes are made. What others change from here on, while this is written, is theirs to keep."""
        self._after = {place: memory.get(place[1], _MISSING) for place, (memory, _) in self._before.items()}

    def roll_back(self) -> None:
        """Take back what changed in memory: it could not be written, or failed half-way."""
        for place, (memory, old) in self._before.items():
            if self._after is not None and memory.get(place[1], _MISSING) is not self._after[place]:
                continue
            if old is _MISSING:
                memory.pop(place[1], None)
            else:
                memory[place[1]] = old

    def absorb(self, part: UnitOfWork) -> None:
        """Add what `part` changed to this."""
        self.observations += part.observations
        self.tracks |= part.tracks
        self.incidents |= part.incidents
        self.messages += part.messages
        self.decisions += part.decisions
        self.full |= part.full
        self.hurried |= part.hurried
        for place, before in part._before.items():
            self._before.setdefault(place, before)

    def attempt(self, step: Callable[[UnitOfWork], None]) -> Exception | None:
        """Do `step` and keep what it changed, or nothing of it: then the exception that ended it is returned."""
        part = UnitOfWork()
        try:
            step(part)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the others with it
            part.roll_back()
            return error
        self.absorb(part)
        return None

    def commit(self, memory: tuple[str, Json] | None, *, forgettable: bool = False) -> Commit:
        """The same as a transaction, with what the check wants to remember."""
        return Commit(
            observations=tuple(self.observations),
            tracks=self.tracks,
            incidents=tuple(self.incidents.values()),
            messages=tuple(self.messages),
            memory=memory,
            forgettable=forgettable,
            hurried=self.hurried,
        )

    @property
    def receivers(self) -> set[str]:
        """The names of the receivers that have something new in the outbox."""
        return {message.notification.receiver for message in self.messages}
