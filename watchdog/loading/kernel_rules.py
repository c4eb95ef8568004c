"""Rules about the kernel rules in the configuration: the files are good, and the ids that are changed exist."""

from __future__ import annotations

from pathlib import Path

from watchdog.errors import RuleError
from watchdog.loading.problems import Problems, shown
from watchdog.loading.records import Record
from watchdog.loading.references import References


def check_kernel_rules(root: Record, problems: Problems, references: References) -> None:
    """Read the user's rule files and look up every id under `disable` and `severity`."""
    settings = root.section("rules")
    if not any(settings.get(name) for name in ("files", "disable", "severity")):
        return
    # Only who changes the rules pays for reading them here.
    from watchdog import rulebook  # noqa: PLC0415 - see above

    known = {rule.id for rule in rulebook.packaged_rules()}
    files = settings.get("files") or ()
    paths = [references.path(name) if isinstance(name, str) else name for name in files]
    if files:
        settings.values["files"] = tuple(str(path) for path in paths)
    for number, path in enumerate(paths):
        if isinstance(path, Path):
            try:
                known.update(rule.id for rule in rulebook.read_rule_file(path))
            except RuleError as error:
                problems.error(settings.at(f"files[{number}]"), str(error))
    changed = [(f"disable[{number}]", rule) for number, rule in enumerate(settings.get("disable") or ())]
    changed += [(f"severity.{rule}", rule) for rule in settings.get("severity") or {}]
    for where, rule in changed:
        if isinstance(rule, str) and rule not in known:
            hint = problems.suggest(rule, known)
            problems.error(settings.at(where), f"there is no kernel rule {shown(rule)}", hint)
