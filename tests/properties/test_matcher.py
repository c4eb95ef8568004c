"""The matcher against plain `re`: the same rule for every message, the same findings for every log, in linear time."""

from __future__ import annotations

import json
import re
import time
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernel_corpus import copied_lines
from watchdog.errors import RuleError
from watchdog.kernlog.file_scan import LogScan
from watchdog.kernlog.lines import Origin, parse_line
from watchdog.kernlog.matcher import Matcher, check_rules
from watchdog.kernlog.rules import RuleSet, parse_rules
from watchdog.model import Severity
from watchdog.rulebook import packaged_rules

RULES = RuleSet(packaged_rules())
MATCHER = Matcher(RULES)


@cache
def naive_patterns() -> tuple[re.Pattern[bytes], ...]:
    return tuple(re.compile(rule.pattern.encode()) for rule in RULES)


def naive_rule(message: str) -> str | None:
    """The id of the first rule, in order, whose pattern `re` finds; None if none or if it is a benign one."""
    text = message.strip().encode("utf-8", "surrogatepass")
    for rule, pattern in zip(RULES, naive_patterns(), strict=True):
        if pattern.search(text):
            return rule.id if rule.severity is not None else None
    return None


def rule_of(message: str) -> str | None:
    finding = MATCHER.classify(message)
    return finding.rule if finding else None


REAL = [line.line for line in copied_lines()] + [sample for rule in RULES for sample in (*rule.matches, *rule.ignores)]
WORDS = sorted({text for rule in RULES for text in re.findall(r"(?:[\w:,#'-] ?){3,}", rule.pattern)})
ODD = st.sampled_from(
    ["\t", "  ", "\x00", "\x1b[31m", "\ufffd", "é", "日本", "\\", '"', ")", "(", "]", "0x10", "1", ": "]
)
PIECES = st.one_of(st.sampled_from(WORDS), ODD, st.text(max_size=6), st.from_regex(r"\A[0-9a-f:. ]{0,9}\Z"))
INVENTED = st.lists(PIECES, max_size=8).map("".join)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real line with a piece cut out, doubled, or something odd put in."""
    line = draw(st.sampled_from(REAL))
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(len(line), start + 20)))
    return line[:start] + draw(st.one_of(ODD, st.just(""), st.just(line[start:end] * 2))) + line[end:]


MESSAGES = st.one_of(st.sampled_from(REAL), mutated(), INVENTED).map(lambda text: text.replace("\n", " "))


@settings(max_examples=600, deadline=None)
@given(MESSAGES)
def test_every_message_gets_the_rule_that_plain_re_finds_first(message: str) -> None:
    assert rule_of(message) == naive_rule(message)


def test_every_real_line_gets_the_rule_that_plain_re_finds_first() -> None:
    assert [rule_of(line) for line in REAL] == [naive_rule(line) for line in REAL]


def as_log_line(message: str, form: int, number: int) -> bytes:
    """`message` as one of the tools would print it."""
    text = message.encode("utf-8", "surrogatepass")
    journal = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "_BOOT_ID": "b", "PRIORITY": "3"}
    match form:
        case 0:
            return b"[%5d.123456] %s" % (number, text)
        case 1:
            return b"2026-11-01T00:00:%02d.000000+00:00 host01 kernel: [%5d.123456] %s" % (number % 60, number, text)
        case 2:
            return json.dumps(journal | {"MESSAGE": message}, ensure_ascii=number % 2 == 0).encode("utf-8", "replace")
        case 3:
            return json.dumps(journal | {"MESSAGE": list(text)}).encode()
        case 4:
            return b"\x1b[32m[%5d.123456] \x1b[0m%s\x1b[1m%s" % (number, text[: len(text) // 2], text[len(text) // 2 :])
        case _:
            return b"Nov 01 00:00:%02d host01 kernel: %s" % (number % 60, text)


def naive_scan(log: bytes) -> list[tuple[int, str]]:
    """(line number, rule) of every finding of warn or page, each line taken apart and matched by `re` alone."""
    found = []
    for number, raw in enumerate(log.split(b"\n"), start=1):
        line = parse_line(raw)
        if line.origin is Origin.USERSPACE:
            continue
        finding = MATCHER.ruleset.by_id.get(_gravest(line.message) or "")
        if finding and not finding.detail and finding.severity in (Severity.WARN, Severity.PAGE):
            found.append((number, finding.id))
    return found


def _gravest(message: str) -> str | None:
    rules = [RULES.by_id[name] for part in message.split("\n") if (name := naive_rule(part))]
    best = None
    for rule in rules:
        if best is None or (not rule.detail, rank(rule.severity)) > (not best.detail, rank(best.severity)):
            best = rule
    return best.id if best else None


def rank(severity: Severity | None) -> int:
    return -1 if severity is None else severity.rank


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.integers(0, 5)), max_size=12), st.integers(1, 400), st.binary(max_size=60))
def test_a_log_gives_the_same_findings_however_it_is_cut_into_blocks(
    lines: list[tuple[str, int]], size: int, junk: bytes
) -> None:
    log = b"\n".join([*(as_log_line(text, form, number) for number, (text, form) in enumerate(lines)), junk])
    scan = LogScan(MATCHER)
    found = [one for start in range(0, len(log), size) for one in scan.feed(log[start : start + size])]
    found += scan.finish()
    assert [(one.number, one.finding.rule) for one in found if one.finding] == naive_scan(log)
    assert scan.lines == log.count(b"\n") + (not log.endswith(b"\n") and bool(log))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_make_the_scan_fail(data: bytes) -> None:
    scan = LogScan(MATCHER, every_line=True)
    assert len([*scan.feed(data), *scan.finish()]) == scan.lines


HOSTILE = (
    b"NVRM: Xid (" * 100_000,
    b"INFO: task " * 100_000,
    b"mlx5_core " * 100_000,
    b"[14] CmpltTO" * 90_000,
    b"BUG: soft lockup - CPU#" + b"1" * 1_000_000,
    b"mlx5" + b"failed" * 170_000,
    b"EXT4-fs (" + b"(" * 1_000_000,
    b"0000:" * 210_000,
    b"[" * 1_000_000,
    b"<1>" * 340_000,
    b"a: " * 340_000,
    b'{"MESSAGE":' + b"[" * 1_000_000,
)


def test_no_line_makes_the_scan_slower_than_linear() -> None:
    """Lines of 1 MB made of what the rules look for: each a small multiple of reading them, not its square."""
    for line in HOSTILE:
        started = time.perf_counter()
        scan = LogScan(MATCHER)
        for start in range(0, len(line), 1 << 18):
            list(scan.feed(line[start : start + (1 << 18)]))
        list(scan.finish())
        assert time.perf_counter() - started < 5, line[:40]


def one_rule(pattern: str) -> Matcher:
    """A matcher of one rule; raises RuleError as loading it would."""
    rules = parse_rules(
        {"rules": [{"id": "one", "kind": "one", "severity": "warn", "summary": "One", "pattern": pattern}]}, "own.yaml"
    )
    check_rules(rules, "own.yaml")
    return Matcher(RuleSet(rules))


def test_no_rule_of_a_user_makes_the_scan_slower_than_linear() -> None:
    entry = {
        "id": "slow",
        "kind": "slow",
        "severity": "warn",
        "summary": "Slow",
        "pattern": "(?:(?:a+)+b?)+abc.*def.*g$",
    }
    matcher = Matcher(RuleSet(parse_rules({"rules": [entry]}, "own.yaml")))
    started = time.perf_counter()
    assert matcher.classify("abcdef" * 150_000 + "!") is None
    assert matcher.classify("a" * 900_000 + "abcdefg") is not None
    assert time.perf_counter() - started < 5


SAFE = st.sampled_from(list("abc01 -:_#"))
ATOMS = st.one_of(
    st.lists(SAFE, min_size=1, max_size=4).map("".join),
    st.sampled_from(
        [".", r"\d", r"\w", "[abc]", "[^)]", "[0-9a-f]", r"\(", r"\.", r"\b", "x?", "ab*", "c+", "[ab]{2,3}"]
    ),
)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> str:
    """A pattern of the rule language."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            inner = draw(st.lists(patterns(depth - 1), min_size=1, max_size=3))
            parts.append("(?:" + "|".join(inner) + ")" + draw(st.sampled_from(["", "", "?", "*", "+"])))
        else:
            parts.append(draw(ATOMS))
    return draw(st.sampled_from(["", "", "^"])) * (depth == 2) + "".join(parts)


@settings(max_examples=250, deadline=None)
@given(patterns(), st.lists(st.one_of(SAFE, st.sampled_from(["abc", "01", "(", ")", "x", "é"])), max_size=24))
def test_any_pattern_of_the_language_means_what_it_means_in_re(pattern: str, pieces: list[str]) -> None:
    pattern, message = pattern + "zq1", "".join(pieces) + "zq1" + "".join(pieces[:5])
    try:
        matcher = one_rule(pattern)
    except RuleError as error:
        assert "can never match" in str(error)  # noqa: PT017 - such as "1\\b1"
        return
    found = matcher.classify(message)
    text = message.strip().encode()
    assert (found is not None) == bool(re.search(pattern.encode(), text))
    log = b"host kernel: [    1.000000] " + text + b"\nsomething else\n"
    assert found is None or (0, log.index(b"\n")) in matcher.candidates(log)
