"""What one examination found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How one thing stands, mildest first."""

    PASS = "pass"  # noqa: S105 - a grade, no password
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor: what was looked at, how it stands, and what to do about it.

    `seen` is false where nothing bad was found only because it cannot be seen from here; `words` then say so. A
    finding that is no pass always has a `fix`.
    """

    area: str
    name: str
    grade: Grade
    words: str
    fix: str = ""
    reason: str = "ok"
    seen: bool = True

    def as_json(self) -> dict[str, str | bool]:
        """The fields of `doctor --json`."""
        return {
            "area": self.area,
            "name": self.name,
            "grade": self.grade.value,
            "reason": self.reason,
            "seen": self.seen,
            "words": self.words,
            "fix": self.fix,
        }
