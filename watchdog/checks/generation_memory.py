"""What a generation check remembers from run to run."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.completion.question import MAX_COMPLETION_TOKENS, MAX_TOKENS
from watchdog.model import Json


@dataclass(slots=True)
class GenerationMemory:
    """Facts found out about a server. All can be found out again: losing them costs a request or two.

    `after` is the sample taken behind the last passing probe while requests ran; `stuck_rounds` counts the rounds in
    a row in which such requests made no progress between two probes.
    """

    limit_field: str = MAX_TOKENS
    model: str | None = None
    metrics_path: str | None = None
    metrics_absent_since: float | None = None
    after: Json = None
    stuck_rounds: int = 0

    @classmethod
    def read(cls, value: Json) -> GenerationMemory:
        """Memory from its JSON form; what is missing or of a wrong type starts anew."""
        memory = cls()
        if not isinstance(value, dict):
            return memory
        if value.get("limit_field") == MAX_COMPLETION_TOKENS:
            memory.limit_field = MAX_COMPLETION_TOKENS
        model, path, since = value.get("model"), value.get("metrics_path"), value.get("metrics_absent_since")
        memory.model = model if isinstance(model, str) else None
        memory.metrics_path = path if isinstance(path, str) else None
        memory.metrics_absent_since = since if isinstance(since, (int, float)) else None
        memory.after = value.get("after")
        rounds = value.get("stuck_rounds")
        memory.stuck_rounds = rounds if isinstance(rounds, int) else 0
        return memory

    def write(self) -> Json:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}
