"""Classifying kernel messages in time linear in their length, whatever the line and whatever the rule (design §11).

Two steps. First one pass for fixed texts: every match of a rule holds at least one of the rule's texts
(`fixed_texts.required_literals`), so a line without any of them is done; for whole logs Hyperscan takes this step, at
more than a gigabyte a second. Then the few alternatives whose text was seen decide, in the order of the rule set, each
a Hyperscan database compiled when its text is seen for the first time, which keeps an idle daemon small.
`tests/properties/test_matcher.py` proves the outcome equal to plain `re`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from watchdog.errors import RuleError
from watchdog.kernlog.devices import find_device
from watchdog.kernlog.patterns import Branch
from watchdog.kernlog.rules import Rule, RuleSet
from watchdog.model import Severity

# Finds which of many fixed texts stand in a short line, in plain Python: linear in the line, small in memory.

GRAM = 3
"""Every text has at least so many bytes (`fixed_texts.MIN_LITERAL_CHARS`)."""


class TextFinder:
    """Looks each text up by three of its bytes, chosen to be rare, and compares the whole text only there."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take the texts; each is numbered by its place."""
        encoded = [text.encode() for text in texts]
        common = Counter(gram for text in encoded for gram in {*_grams(text)})
        self._by_gram: dict[bytes, list[tuple[int, bytes, int]]] = {}
        for number, text in enumerate(encoded):
            grams = _grams(text)
            offset = min(
                range(len(grams)), key=lambda at: (grams[at].isalpha() and grams[at].islower(), common[grams[at]])
            )
            self._by_gram.setdefault(grams[offset], []).append((offset, text, number))

    def seen(self, line: bytes) -> set[int]:
        """The numbers of the texts that stand in `line`."""
        found: set[int] = set()
        by_gram = self._by_gram
        for at in range(len(line) - GRAM + 1):
            entries = by_gram.get(line[at : at + GRAM])
            if entries is not None:
                for offset, text, number in entries:
                    if at >= offset and line.startswith(text, at - offset):
                        found.add(number)
        return found


def _grams(text: bytes) -> list[bytes]:
    return [text[at : at + GRAM] for at in range(len(text) - GRAM + 1)]


ENCODED = ('"MESSAGE":[', '"MESSAGE" : [', '"MESSAGE": [', "\x1b[")
"""Marks of lines whose text may be hidden by their encoding: arrays of bytes, and colours. Always looked at."""
BUSY_AFTER_LINES = 5000
"""From so many lines on, the memory of a Hyperscan database (5 MiB) is worth its speed for single lines too."""


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
    """Classifies messages by a rule set. Compiles on first use; keep one per rule set, and use it in one thread."""

    def __init__(self, ruleset: RuleSet) -> None:
        """Take the rules; Hyperscan is imported and the texts are compiled only when first needed."""
        self.ruleset = ruleset
        self._rules = ruleset.rules
        self._places = [(number, branch) for number, rule in enumerate(self._rules) for branch in rule.branches]
        self._texts: _Texts | None = None
        self._loud: _Texts | None = None
        self._compiled: dict[int, Any] = {}

    def classify(self, message: str) -> Finding | None:
        """The finding for one message, None if no rule speaks of it.

        A message of several lines takes its gravest line; a device missing there is looked for in the other lines.
        """
        if "\n" not in message:
            return self._classify_line(message)
        best: Finding | None = None
        for line in message.split("\n"):
            found = self._classify_line(line)
            if found is not None and (best is None or _gravity(found) > _gravity(best)):
                best = found
        if best is not None and best.device is None:
            return replace(best, device=find_device(message, self.ruleset.by_id[best.rule].subject))
        return best

    def _classify_line(self, line: str) -> Finding | None:
        text = line.strip().encode("utf-8", "surrogatepass")
        if self._texts is None:
            self._texts = _Texts({place: branch for place, (_, branch) in enumerate(self._places)})
        for place in self._texts.seen(text):
            number, branch = self._places[place]
            if branch.plain or self._matches(place, branch, text):
                return _finding(self._rules[number], line)
        return None

    def _matches(self, place: int, branch: Branch, text: bytes) -> bool:
        database = self._compiled.get(place)
        if database is None:
            database = self._compiled[place] = _pattern_database(branch.pattern)
        hits: list[int] = []
        database.scan([text], match_event_handler=lambda *_: hits.append(1))
        return bool(hits)

    def candidates(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end, in order, of the lines of `block` that may hold a finding of warn or page; no `\\n` included.

        A line is among them if `classify` would find one in its message, in any form that `lines.parse_line` reads.
        """
        if self._loud is None:
            loud = {
                place: branch for place, (number, branch) in enumerate(self._places) if _is_loud(self._rules[number])
            }
            self._loud = _Texts(loud, ENCODED)
        line_end = -1
        for end in sorted(self._loud.ends(block)):
            if end <= line_end:
                continue
            start = block.rfind(b"\n", 0, end - 1) + 1
            line_end = block.find(b"\n", end - 1)
            if line_end < 0:
                line_end = len(block)
            yield start, line_end


class _Texts:
    """Fixed texts of branches, each with the places of the branches that need it.

    A few lines are searched in plain Python; whole blocks, and lines once there are many, by one Hyperscan database.
    """

    def __init__(self, branches: Mapping[int, Branch], more: tuple[str, ...] = ()) -> None:
        owners: dict[str, list[int]] = {text: [] for text in more}
        for place, branch in branches.items():
            for text in branch.texts:
                owners.setdefault(text, []).append(place)
        texts = sorted(owners)
        self._owners = [owners[text] for text in texts]
        self._texts = texts
        self._looks = 0
        self._finder: TextFinder | None = None
        self._database: Any = None

    def ends(self, block: bytes) -> list[int]:
        """Where in `block` a text ends, one entry per occurrence, in no order."""
        ends: list[int] = []
        if block and self._texts:
            self._database = self._database or _literal_database(self._texts)
            self._database.scan([block], match_event_handler=lambda _id, _start, end, *_: ends.append(end))
        return ends

    def seen(self, line: bytes) -> list[int]:
        """Places of the branches of which a text stands in `line`, in the order of the rule set."""
        self._looks += 1
        if self._database is None and self._looks > BUSY_AFTER_LINES and self._texts:
            self._database = _literal_database(self._texts)
        if self._database is not None and line:
            seen: set[int] = set()
            self._database.scan([line], match_event_handler=lambda number, *_: seen.add(number))
        else:
            self._finder = self._finder or TextFinder(self._texts)
            seen = self._finder.seen(line)
        return sorted({place for text in seen for place in self._owners[text]}) if seen else []


def _is_loud(rule: Rule) -> bool:
    """Whether a scan for warn and page needs the rule's lines; details are needed to join records."""
    return rule.detail or (rule.severity is not None and rule.severity is not Severity.INFO)


def _literal_database(texts: list[str]) -> Any:
    """Vectored mode: the same speed over blocks, a tenth of the memory while compiling, no small-buffer automaton."""
    import hyperscan  # noqa: PLC0415 - paid only by those who classify

    database = hyperscan.Database(mode=hyperscan.HS_MODE_VECTORED)
    database.compile(
        expressions=[text.encode() for text in texts],
        ids=list(range(len(texts))),
        elements=len(texts),
        flags=0,
        literal=True,
    )
    return database


def _pattern_database(pattern: str) -> Any:
    """One branch as a Hyperscan database; raises hyperscan.HyperscanError when it cannot be used."""
    import hyperscan  # noqa: PLC0415 - as above

    database = hyperscan.Database(mode=hyperscan.HS_MODE_VECTORED)
    database.compile(expressions=[pattern.encode()], ids=[0], elements=1, flags=hyperscan.HS_FLAG_SINGLEMATCH)
    return database


def check_rules(rules: Iterable[Rule]) -> None:
    """Compile each rule once; raises RuleError naming the first that cannot be used.

    For rules that nobody tested: a pattern must fail when it is loaded, not when its line comes.
    """
    import hyperscan  # noqa: PLC0415 - as above

    for rule in rules:
        for branch in rule.branches:
            try:
                _pattern_database(branch.pattern)
            except hyperscan.HyperscanError as error:
                problem = f"rule {rule.id}: pattern {branch.pattern!r} cannot be used: {error}; make it simpler"
                raise RuleError(problem) from None


def _finding(rule: Rule, line: str) -> Finding | None:
    if rule.severity is None:
        return None
    device = find_device(line, rule.subject)
    return Finding(rule.id, rule.kind, rule.severity, device, rule.summary, rule.advice, rule.detail)


def _gravity(finding: Finding) -> tuple[bool, int]:
    return (not finding.detail, finding.severity.rank)
