"""Rule files: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdog.config import RulesSettings
from watchdog.errors import RuleError
from watchdog.kernlog.matcher import Matcher
from watchdog.kernlog.patterns import PatternError, check_pattern, without_anchors
from watchdog.model import Severity
from watchdog.rulebook import load_rules, packaged_rules

GOOD = """
rules:
  - id: my.disk
    kind: storage
    severity: page
    pattern: 'FOO-RAID: array degraded'
    device: disk
    summary: My array lost a disk
    matches: ['FOO-RAID: array degraded on md0']
"""


def written(folder: Path, text: str) -> RulesSettings:
    path = folder / "own.yaml"
    path.write_text(text, "utf-8")
    return RulesSettings(files=(str(path),))


def test_a_users_rules_come_before_the_packaged_ones(tmp_path: Path) -> None:
    text = GOOD.replace("FOO-RAID: array degraded", "Uncorrectable .Fatal.").replace("page", "warn")
    finding = Matcher(load_rules(written(tmp_path, text))).classify("AER: Uncorrectable (Fatal) error message received")
    assert finding is not None
    assert (finding.rule, finding.severity) == ("my.disk", Severity.WARN)


def test_rules_can_be_disabled_and_made_milder_by_id() -> None:
    line = "watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [x:1]"
    milder = Matcher(load_rules(RulesSettings(severity={"lockup.soft": Severity.WARN}))).classify(line)
    assert milder is not None
    assert milder.severity is Severity.WARN
    assert Matcher(load_rules(RulesSettings(disable=("lockup.soft",)))).classify(line) is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (RulesSettings(disable=("lockup.sofd",)), "there is no rule 'lockup.sofd' (did you mean 'lockup.soft'?)"),
        (RulesSettings(severity={"mlx5.healt": Severity.WARN}), "did you mean 'mlx5.health'?"),
        (RulesSettings(files=("/nonexistent/own.yaml",)), "cannot read this rule file: No such file or directory"),
        (RulesSettings(files=("/",)), "cannot read this rule file: Is a directory"),
    ],
)
def test_a_typo_in_the_settings_is_named_with_a_suggestion(settings: RulesSettings, says: str) -> None:
    with pytest.raises(RuleError) as caught:
        load_rules(settings)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("severity: page", "severity: pge"),
            "severity must be one of page, warn, info, ignore, not 'pge' (did you mean",
        ),
        (("pattern:", "patern:"), "unknown key 'patern' (did you mean 'pattern'?)"),
        (("    summary: My array lost a disk\n", ""), "'summary' is missing"),
        (("'FOO-RAID: array degraded'", "'FOO(?=BAR)'"), "no look-around"),
        (("'FOO-RAID: array degraded'", "'(FOO)\\1'"), "'\\1' is not part of the rule language"),
        (("'FOO-RAID: array degraded'", "'FOO\\sBAR'"), "write a blank"),
        (("'FOO-RAID: array degraded'", "'(?:x|\\b)'"), "it matches the empty text, and so every line"),
        (("'FOO-RAID: array degraded'", "'(?:(?:(?:a{64}){64}){64})'"), "cannot be used: invalid repetition size"),
        (("'FOO-RAID: array degraded'", "'.*'"), "it matches the empty text, and so every line"),
        (
            ("'FOO-RAID: array degraded'", "'FOO-RAID|.+x'"),
            "is too general: it matches the routine line 'Linux version",
        ),
        (("'FOO-RAID: array degraded'", "'FOO(BAR'"), "missing ), unterminated subpattern at position 3"),
        (("'FOO-RAID: array degraded'", "'FOO[BAR'"), "unterminated character set at position 3"),
        (("'FOO-RAID: array degraded'", "'FOO)'"), "unbalanced parenthesis at position 3"),
        (("'FOO-RAID: array degraded'", "'FOO*?'"), "lazy"),
        (("'FOO-RAID: array degraded'", "'FOO{2,900}'"), "up to 64"),
        (("'FOO-RAID: array degraded'", "'FOO{a}'"), "write a repeat as"),
        (("'FOO-RAID: array degraded'", "'FOO[[:alpha:]]'"), "POSIX classes are not allowed"),
        (("'FOO-RAID: array degraded'", "'FOO\u00e9'"), "only printable ASCII"),
        (("'FOO-RAID: array degraded'", "''"), "the pattern is empty"),
        (("'FOO-RAID: array degraded'", "'FOO^BAR'"), "'^' may only stand where a branch starts"),
        (("'FOO-RAID: array degraded'", "'FOO$BAR'"), "'$' may only stand where a branch ends"),
        (("'FOO-RAID: array degraded'", "'+FOO'"), "nothing to repeat at position 0"),
        (("'FOO-RAID: array degraded'", "'FOO1\\b2'"), "can never match"),
        (("device: disk", "device: dsk"), "did you mean 'disk'?"),
        (("id: my.disk", "id: My Disk"), "may hold small letters"),
        (("id: my.disk", "id: lockup.soft"), "two rules are called 'lockup.soft'"),
        (("device: disk", "burst: {count: 1, window: 10m, severity: page}"), "burst.count must be"),
        (("device: disk", "burst: {count: 5, window: soon, severity: page}"), "burst.window must be a duration"),
        (("device: disk", "burst: 5"), "burst must hold count, window and severity"),
        (("device: disk", "burst: []"), "burst must hold count, window and severity"),
        (
            (
                "device: disk",
                "burst: [{count: 5, window: 10m, severity: warn}, {count: 9, window: 1h, severity: page}]",
            ),
            "the bursts of one rule must have the same window",
        ),
        (("device: disk", "detail: maybe"), "detail must be true or false"),
        (("matches: ['FOO-RAID: array degraded on md0']", "matches: 5"), "matches must be a list"),
        (("summary: My array lost a disk", "summary: 5"), "summary must be a text"),
        (("rules:", "rulez:"), "a rule file holds one key, 'rules'"),
        (("rules:", "rules: ["), "not valid YAML"),
    ],
)
def test_a_faulty_rule_file_is_refused_with_file_rule_and_reason(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    assert change[0] in GOOD
    with pytest.raises(RuleError) as caught:
        load_rules(written(tmp_path, GOOD.replace(*change)))
    assert says in str(caught.value)
    if "two rules" not in says:
        assert "own.yaml" in str(caught.value)


def test_every_faulty_rule_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    twice = GOOD + GOOD.split("rules:\n")[1].replace("my.disk", "my.other")
    with pytest.raises(RuleError) as caught:
        load_rules(written(tmp_path, twice.replace("severity: page", "severity: loud")))
    assert "rule my.disk" in str(caught.value)
    assert "rule my.other" in str(caught.value)


def test_a_rule_file_that_is_no_text_or_far_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(b"rules: \xff\xfe")
    with pytest.raises(RuleError, match="not UTF-8 text"):
        load_rules(RulesSettings(files=(str(path),)))
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(RuleError, match="larger than 1 MiB"):
        load_rules(RulesSettings(files=(str(path),)))


def test_a_good_rule_file_is_taken_whole(tmp_path: Path) -> None:
    rules = load_rules(written(tmp_path, GOOD))
    assert len(rules) == len(packaged_rules()) + 1
    assert next(iter(rules)).id == "my.disk"


@pytest.mark.parametrize(
    ("pattern", "loose"),
    [
        ("^abc(?:def|^ghi)|jkl$", "abc(?:def|ghi)|jkl"),
        (r"\babc\b(?:\d\w|$)", r"abc(?:\d\w|)"),
        (r"[$^]abc[^$)]\^\$\\b", r"[$^]abc[^$)]\^\$\\b"),
        (r"abc[]^$](?:[\]^]|$)", r"abc[]^$](?:[\]^]|)"),
    ],
)
def test_a_pattern_for_whole_logs_has_no_anchors(pattern: str, loose: str) -> None:
    assert without_anchors(pattern) == loose


def test_a_pattern_may_not_be_endless_or_bottomless() -> None:
    with pytest.raises(PatternError, match="longer than"):
        check_pattern("abc" * 1000)
    with pytest.raises(PatternError, match="nested too deeply"):
        check_pattern("(" * 990 + "abc" + ")" * 990)
