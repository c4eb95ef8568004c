"""Errors by fault: the target's fault is a failed observation, our road's fault an unknown one, these are ours.

Nothing here is raised for a sick target. A check turns a target's fault into `Verdict.FAIL` with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass


class WatchdogError(Exception):
    """Base of every error this program raises on purpose; its text is meant for a person."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong with a configuration: where it stands, what it is, and what may have been meant."""

    file: str
    line: int
    column: int
    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        """`file:line:column: path: problem (hint)`, the form editors can jump to; line 0 means the file as a whole."""
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        what = f"{self.path}: {self.problem}" if self.path else self.problem
        return where + what + (f" ({self.hint})" if self.hint else "")


class ConfigError(WatchdogError):
    """A configuration that must not be started with; carries every problem found, not only the first."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        """Take all problems of one loading, in the order of their place in the file."""
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class RuleError(WatchdogError):
    """A kernel rule file that cannot be used."""


class StoreError(WatchdogError):
    """The state database could not be read or written."""


class NotRememberedError(StoreError):
    """The alerts of a result are on their way, but its observations and memory could not be stored."""


class StateLockedError(StoreError):
    """Another watchdog already runs on this state directory."""


class NotReloadedError(WatchdogError):
    """The running daemon follows another configuration than the file."""


class StateVersionError(StoreError):
    """A newer version of this program wrote the state; trying again does not help."""
