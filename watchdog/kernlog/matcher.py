"""Classifying kernel messages with RE2, in time linear in their length whatever the line and whatever the rule.

A message is matched against all rules at once by an RE2 set. Whole logs are searched block by block for one alternation
of all rules that matter there; in a log a time and a host stand before each message, so the alternation does without
`^`, `$` and word boundaries, and only the lines it finds are taken apart and classified.
`tests/properties/test_matcher.py` holds the outcome equal to plain `re`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import re2

from watchdog.errors import RuleError
from watchdog.kernlog.devices import find_device
from watchdog.kernlog.patterns import without_anchors
from watchdog.kernlog.rules import Rule, RuleSet
from watchdog.model import Severity

MEMORY_BYTES = 64 << 20
"""The most that an automaton may keep of what it has seen. With RE2's usual 8 MiB the packaged rules run at 1 MB/s, for
it throws its states away all the time; with 24 MiB or more at 400 MB/s, most of it never used."""

ENCODED = (r"\\", r"\x1b\[", r"#0[0-3][0-7]", r'"MESSAGE" ?: ?\[')
"""Marks of log lines whose bytes may differ from their message's: JSON and kmsg escapes, colours, rsyslog's control
characters, JSON arrays of bytes. Such lines are always taken apart."""

ROUTINE_LINES = (
    "Linux version 6.8.0-45-generic (buildd@lcy02-amd64-115) (x86_64-linux-gnu-gcc-13) #45-Ubuntu SMP PREEMPT_DYNAMIC",
    "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
    'audit: type=1400 audit(1700000000.123:456): apparmor="ALLOWED" operation="open" pid=4242 comm="node_exporter"',
)
"""A rule that matches one of these would match nearly everything."""


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
    """Classifies messages by a rule set. Keep one per rule set."""

    def __init__(self, ruleset: RuleSet) -> None:
        """Compile the rules; raises RuleError when they are too large together."""
        self.ruleset = ruleset
        self._rules = ruleset.rules
        self._set = re2.Set.SearchSet(_options())
        in_logs = [f"(?:{without_anchors(rule.pattern)})" for rule in self._rules if _is_loud(rule)]
        try:
            for rule in self._rules:
                self._set.Add(rule.pattern.encode())
            self._set.Add(b"")  # matches everything: an answer without it is wrong
            self._set.Compile()
            self._in_logs = re2.compile("|".join([*in_logs, *ENCODED]).encode(), _options())
            self._first_match(b"")
        except (re2.error, RuntimeError) as error:
            raise RuleError(f"the rules cannot be used together: {_words(error)}") from None

    def classify(self, message: str) -> Finding | None:
        """The finding for one message, None if no rule matches it.

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
        first = self._first_match(line.strip().encode("utf-8", "surrogatepass"))
        return _finding(self._rules[first], line) if first < len(self._rules) else None

    def _first_match(self, text: bytes) -> int:
        """The place of the first rule that matches, or the number of rules.

        Raises RuntimeError when RE2 ran out of memory, which its set otherwise reports as "nothing matches".
        """
        places = self._set.Match(text)
        if not places:
            raise RuntimeError("RE2 had too little memory for a line")
        return int(min(places))

    def candidates(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end, in order, of the lines of `block` that may hold a finding of warn or page; no `\\n` included.

        A line is among them if `classify` would find one in its message, in any form that `lines.parse_line` reads.
        """
        if not _is_utf8(block):  # such bytes are others in the message, so every line is looked at
            yield from (match.span() for match in re.finditer(rb"[^\n]+", block))
            return
        end = -1
        while (match := self._in_logs.search(block, end + 1)) is not None:
            start = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", match.start())
            if end < 0:
                end = len(block)
            yield start, end


def _options() -> Any:
    """Bytes as they are, as in `re` on bytes; no match across lines."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = MEMORY_BYTES
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    return options


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_loud(rule: Rule) -> bool:
    """Whether a scan for warn and page needs the rule's lines; details are needed to join records."""
    return rule.detail or bool(rule.bursts) or (rule.severity is not None and rule.severity is not Severity.INFO)


def check_rules(rules: Iterable[Rule], file: str) -> None:
    """Raises RuleError naming `file` and every rule that RE2 refuses or that matches routine lines.

    For rules that nobody tested: a pattern must fail when it is loaded, not when its line comes.
    """
    problems = []
    for rule in rules:
        try:
            pattern = re2.compile(rule.pattern.encode(), _options())
        except re2.error as error:
            problems.append(f"{file}: rule {rule.id}: pattern {rule.pattern!r} cannot be used: {_words(error)}")
            continue
        if routine := next((line for line in ROUTINE_LINES if pattern.search(line.encode())), None):
            what = f"is too general: it matches the routine line {routine!r}"
            problems.append(f"{file}: rule {rule.id}: pattern {rule.pattern!r} {what}")
    if problems:
        raise RuleError("\n".join(problems))


def _words(error: Exception) -> str:
    words = error.args[0] if error.args else ""
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)


def _finding(rule: Rule, line: str) -> Finding | None:
    if rule.severity is None:
        return None
    device = find_device(line, rule.subject)
    return Finding(rule.id, rule.kind, rule.severity, device, rule.summary, rule.advice, rule.detail)


def _gravity(finding: Finding) -> tuple[bool, int]:
    return (not finding.detail, finding.severity.rank)
