"""Classifying kernel messages: one pass of Hyperscan over blocks for candidates, one over each candidate to decide.

Both passes are linear in time whatever the line or the rule (design §11). The first looks for fixed texts of which
every match of a rule holds at least one (`patterns.required_literals`), so it can miss nothing; the second runs the
rules themselves. `tests/properties/test_matcher.py` proves both equal to plain `re`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from watchdog.errors import RuleError
from watchdog.kernlog.devices import find_device
from watchdog.kernlog.patterns import parse_pattern, required_literals
from watchdog.kernlog.rules import Rule, RuleSet
from watchdog.model import Severity

ENCODED = ('"MESSAGE":[', '"MESSAGE" : [', '"MESSAGE": [', "\x1b[")
"""Marks of lines whose text may be hidden by their encoding: arrays of bytes, and colours. Always looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says of one message. `device` is None when the message names none."""

    rule: str
    kind: str
    severity: Severity
    device: str | None
    summary: str
    advice: str
    detail: bool = False


class Matcher:
    """Classifies messages by a rule set. Compiles on first use; keep one per rule set."""

    def __init__(self, ruleset: RuleSet) -> None:
        """Take the rules; Hyperscan is imported and the databases are built only when first needed."""
        self.ruleset = ruleset
        self._rules = ruleset.rules
        self._exact: Any = None
        self._coarse: Any = None

    def compile(self) -> None:
        """Build what `classify` needs now; raises RuleError naming the rule whose pattern cannot be used."""
        if self._exact is None:
            self._exact = _exact_database(self._rules)

    def classify(self, message: str) -> Finding | None:
        """The finding for one message, None if no rule speaks of it.

        A message of several lines takes its gravest line; a device missing there is looked for in the other lines.
        """
        best: Finding | None = None
        for line in message.split("\n"):
            found = self._classify_line(line)
            if found is not None and (best is None or _gravity(found) > _gravity(best)):
                best = found
        if best is not None and best.device is None and "\n" in message:
            device = find_device(message, self.ruleset.by_id[best.rule].subject)
            return replace(best, device=device)
        return best

    def _classify_line(self, line: str) -> Finding | None:
        self.compile()
        hits: list[int] = []
        text = line.strip().encode("utf-8", "surrogatepass")
        if text and self._rules:
            self._exact.scan(text, match_event_handler=lambda number, *_: hits.append(number))
        if not hits:
            return None
        rule = self._rules[min(hits)]
        if rule.severity is None:
            return None
        device = find_device(line, rule.subject)
        return Finding(rule.id, rule.kind, rule.severity, device, rule.summary, rule.advice, rule.detail)

    def candidates(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end offsets, in order, of the lines of `block` that a rule may match; the end excludes `\\n`.

        Every line that `classify` would find something in is among them, if its message stands in it in any form
        that `lines.parse_line` reads.
        """
        if self._coarse is None:
            self._coarse = _coarse_database(self._rules)
        ends: list[int] = []
        self._coarse.scan(block, match_event_handler=lambda _id, _start, end, *_: ends.append(end))
        if not ends:
            return
        ends.sort()
        line_end = -1
        for end in ends:
            if end <= line_end:
                continue
            start = block.rfind(b"\n", 0, end - 1) + 1
            line_end = block.find(b"\n", end - 1)
            if line_end < 0:
                line_end = len(block)
            yield start, line_end


def _gravity(finding: Finding) -> tuple[bool, int]:
    return (not finding.detail, finding.severity.rank)


def _exact_database(rules: tuple[Rule, ...]) -> Any:
    import hyperscan  # noqa: PLC0415 - 10 MiB, paid only by those who classify

    database = hyperscan.Database()
    if not rules:
        return database
    try:
        database.compile(
            expressions=[rule.pattern.encode() for rule in rules],
            ids=list(range(len(rules))),
            elements=len(rules),
            flags=hyperscan.HS_FLAG_SINGLEMATCH,
        )
    except hyperscan.HyperscanError as error:
        raise RuleError(_blame(rules, str(error))) from None
    return database


def _blame(rules: tuple[Rule, ...], problem: str) -> str:
    """Name the rule that does not compile; each is tried alone, since the error names none."""
    import hyperscan  # noqa: PLC0415 - as above

    for rule in rules:
        try:
            hyperscan.Database().compile(expressions=[rule.pattern.encode()], flags=hyperscan.HS_FLAG_SINGLEMATCH)
        except hyperscan.HyperscanError as error:
            return f"rule {rule.id}: pattern {rule.pattern!r} cannot be used: {error}; make it shorter or simpler"
    return f"the rules cannot be used together: {problem}; use fewer or shorter patterns"


def _coarse_database(rules: tuple[Rule, ...]) -> Any:
    import hyperscan  # noqa: PLC0415 - as above

    texts = set(ENCODED)
    for rule in rules:
        texts |= required_literals(parse_pattern(rule.pattern))
    fewest = [text for text in sorted(texts) if not any(other != text and other in text for other in texts)]
    database = hyperscan.Database()
    database.compile(
        expressions=[text.encode() for text in fewest],
        ids=list(range(len(fewest))),
        elements=len(fewest),
        flags=0,
        literal=True,
    )
    return database
