"""Writes `docs/reference.md`: every key of the configuration, from the settings classes and `config/full.yaml`.

Kinds, defaults and limits come from the classes, meanings from the comments of the full example, so neither can
drift. Run `python docs/generate_reference.py`; a test holds that the file in the tree is what this gives.
"""

from __future__ import annotations

import re
from datetime import datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from watchdog.config import Config, HttpMethod, Secret, Size
from watchdog.loading.scalars import written
from watchdog.loading.schema import Form, Key, keys_of
from watchdog.loading.yaml_tree import Entries, Items, Node, Scalar, read_document
from watchdog.model import Severity, Weekday

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "config" / "full.yaml"
TARGET = ROOT / "docs" / "reference.md"
COMMENT = re.compile(r"(?:^|\s)# (.*)$")
KINDS = {
    str: "text",
    Secret: "secret",
    int: "whole number",
    float: "duration",
    Size: "size",
    bool: "true or false",
    Any: "JSON",
    Severity: "severity",
    Weekday: "day",
    HttpMethod: "`GET` or `POST`",
    time: "time of day",
    datetime: "timestamp",
    ZoneInfo: "time zone",
}
HEAD = """\
# Configuration reference

<!-- Written by docs/generate_reference.py from watchdog/config.py and config/full.yaml. Change those. -->

One YAML file. It is searched for in this order: `--config FILE`, `$INFERENCE_WATCHDOG_CONFIG`, `config.yaml` in your
user's configuration folder, `/etc/inference-watchdog/config.yaml`. `inference-watchdog validate` shows every error with
file, line and column, or the plan: which check runs how often, and whom it alerts. An unknown key, a value of the
wrong kind, a name that is not defined, a receiver that apprise does not accept, or a check that alerts nobody
prevents the start.

- **duration**: a number with its unit, `500ms`, `90s`, `2m`, `1h30m`, `7d`.
- **secret**: a text that is never shown. `${env:NAME}` takes an environment variable, `${file:/path}` the one line of a
  file that is closed to others (`chmod 600`), `${credential:NAME}` what systemd passes on with `LoadCredential=`. They
  may stand inside a longer text; `$${` is a literal `${`. Secrets may be written in the configuration, but then it
  must itself be closed to others.
- **text**: one line. Only `${env:NAME}` works inside it, as it may be shown in logs and alerts.
- **size**: bytes with their unit, `512MiB`, `4GiB`. `GB` is refused, as it is ambiguous.
- **true or false**: exactly these words. `on`, `yes` and the like are refused.
- **severity**: `info`, `warn` or `page`.
- **day**: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`. **time of day**: `02:30`. **time zone**: a name of the IANA
  database, `Europe/Berlin`. **timestamp**: a date and time with its offset from UTC, `2026-11-03T22:00+01:00`.
- Paths may be relative to the folder of the configuration, or start with `~/`.
- Anchors, aliases and merge keys (`<<: *fast`) work; YAML tags do not.

The whole of it with comments: [`config/full.yaml`](../config/full.yaml).
The least: [`config/minimal.yaml`](../config/minimal.yaml).
"""


def reference() -> str:
    """The whole text of the reference."""
    data = EXAMPLE.read_bytes()
    root = read_document(data)
    assert root is not None
    meanings = _meanings(root, data.decode().splitlines())
    sections = [_section(kind, path, meanings) for path, kind in _sections(Config, "")]
    return HEAD + "".join(sections)


def _meanings(root: Node, lines: list[str]) -> dict[str, str]:
    """Path of a key without list numbers → the comment on its line, at its first occurrence that has one."""
    found: dict[str, str] = {}

    def walk(node: Node, path: str) -> None:
        for item in node.items if isinstance(node, Items) else ():
            walk(item, path)
        for key, value in node.pairs if isinstance(node, Entries) else ():
            assert isinstance(key, Scalar)
            inner = f"{path}.{key.text}" if path else key.text
            comment = COMMENT.search(lines[key.mark.line - 1])
            if comment and lines[key.mark.line - 1][: key.mark.column - 1].strip(" -") == "":
                found.setdefault(inner, comment[1])
            walk(value, inner)

    walk(root, "")
    return found


def _sections(kind: type, path: str) -> list[tuple[str, type]]:
    """Every section with its path, outer ones first."""
    found = [(path, kind)]
    for key in keys_of(kind).values():
        if key.form.section is not None:
            found += _sections(key.form.section, f"{path}.{key.name}" if path else key.name)
    return found


def _section(kind: type, path: str, meanings: dict[str, str]) -> str:
    rows = ["| key | kind | default | meaning |", "|---|---|---|---|"]
    for key in keys_of(kind).values():
        inner = f"{path}.{key.name}" if path else key.name
        cells = (f"`{key.name}`", _kind(key.form), _default(key), meanings.get(inner, ""))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    summary = re.sub(r" \(design [^)]*\)", "", (kind.__doc__ or "").partition("\n")[0])
    return "\n".join(["", f"## `{path}`" if path else "## The file", "", summary, "", *rows, ""])


def _kind(form: Form) -> str:
    if form.limits is None:
        return _kind_words(form)
    return f"{_kind_words(form)}, {written(form, form.limits.least)} to {written(form, form.limits.most)}"


def _kind_words(form: Form) -> str:
    if form.item is None:
        return "section" if form.section else KINDS[form.type]
    if form.type is dict:
        return f"section: name to {_kind_words(form.item)}"
    return "list of sections" if form.section else f"list of {KINDS[form.item.type]}s"


def _default(key: Key) -> str:
    if key.required:
        return "**required**"
    if key.form.item is not None or key.default is None:
        return "" if key.form.section and key.form.item is None else "none"
    if key.form.section:
        return ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{written(key.form, key.default) if isinstance(key.default, float) else key.default}`"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
