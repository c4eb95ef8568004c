"""The rules in force: the packaged ones, the user's own, and the configuration's changes to them."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from watchdog.config import RulesSettings
from watchdog.errors import RuleError
from watchdog.kernlog.matcher import check_rules
from watchdog.kernlog.rules import Rule, RuleSet, parse_rules

MAX_FILE_BYTES = 1 << 20


def load_rules(settings: RulesSettings | None = None) -> RuleSet:
    """The user's rules first (the first match decides), then the packaged ones, with disabled ones left out.

    Raises RuleError naming file and rule for a file that cannot be read, an entry that is wrong, an id used twice, or
    a configured id that no rule has.
    """
    settings = settings or RulesSettings()
    rules: list[Rule] = []
    for name in settings.files:
        rules += read_rule_file(Path(name))
    return RuleSet((*rules, *packaged_rules())).changed(settings.disable, settings.severity)


@cache
def packaged_rules() -> tuple[Rule, ...]:
    """The rules shipped in `watchdog/rules/*.yaml`, in the order of their numbers: the precise before the general."""
    folder = resources.files("watchdog") / "rules"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    rules: list[Rule] = []
    for file in files:
        rules += parse_rules(_yaml(file.read_text("utf-8"), file.name), file.name)
    return tuple(rules)


def read_rule_file(path: Path) -> tuple[Rule, ...]:
    """The rules of one file; raises RuleError naming the file and what is wrong."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise RuleError(f"{path}: cannot read this rule file: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise RuleError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB; this cannot be a rule file")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: not UTF-8 text (byte {error.start + 1})") from None
    rules = parse_rules(_yaml(text, str(path)), str(path))
    check_rules(rules, str(path))
    return rules


def _yaml(text: str, name: str) -> object:
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe in both forms
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise RuleError(f"{name}{where}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
