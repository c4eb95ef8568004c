"""Evidence as lines: in time order, the same thing said again folded into its first line, the middle left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo

from watchdog.message.clean import clean_line, shortened
from watchdog.message.moments import moment
from watchdog.model import Evidence

LINES = 10
WIDTH = 200
_FIGURES = re.compile(r"\d+(?:\.\d+)?")


@dataclass(slots=True)
class _Line:
    """A fact, how often it was said, and when last."""

    fact: Evidence
    text: str
    count: int = 1
    last_at: float | None = None


def proof_lines(evidence: Iterable[Evidence], said: str, now: float, zone: tzinfo | None) -> list[str]:
    """At most ten lines for `evidence`. What `said`, the words above them, holds already is left out.

    Facts of one source that differ only in their figures are one line, with their number and the time of the last.
    """
    lines: list[_Line] = []
    newest: dict[tuple[str, str], _Line] = {}
    ordered = sorted(evidence, key=lambda fact: -1.0 if fact.at is None else fact.at)
    for fact in ordered:
        source, text = clean_line(fact.source), clean_line(fact.text)
        if not text or text in said:
            continue
        pattern = (source, _FIGURES.sub("#", text))
        line = newest.get(pattern)
        if line is None:
            newest[pattern] = line = _Line(fact, f"{source}: {text}")
            lines.append(line)
        elif _folds(source):
            line.count, line.last_at = line.count + 1, fact.at
        elif fact != line.fact:
            lines.append(_Line(fact, f"{source}: {text}"))
    written = [_written(line, now, zone) for line in lines]
    if len(written) > LINES:
        head = LINES // 2
        written = [*written[:head], f"- … {len(written) - 2 * head} more …", *written[-head:]]
    return written


def _folds(source: str) -> bool:
    """Kernel lines are shown as they are: their figures are addresses and counters that a person wants to see."""
    return "kernel" not in source.split()


def _written(line: _Line, now: float, zone: tzinfo | None) -> str:
    when = "" if line.fact.at is None else f"{moment(line.fact.at, now, zone, seconds=True)} "
    again = ""
    if line.count > 1:
        last = "" if line.last_at is None else f", last {moment(line.last_at, now, zone, seconds=True)}"
        again = f" (×{line.count}{last})"
    return shortened(f"- {when}{line.text}", WIDTH - len(again)) + again
