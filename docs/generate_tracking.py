"""Write docs/tracking.md from the tracker's own tables: `python docs/generate_tracking.py`. A test keeps it true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watchdog.model import Phase, Verdict
from watchdog.tracker import CONDITIONS, OCCURRENCES, Guard, Row

PAGE = Path(__file__).with_name("tracking.md")
_BEGIN = """# How a key is tracked

Generated from the tables in `watchdog/tracker.py` by `docs/generate_tracking.py`; do not edit.

A run of a check *passes*, *fails*, or is *unknown*. Unknown moves nothing below: it is only counted, and three in a row
open an incident of their own (`self/blind/…`). A failure that begins within three quarters of the interval after the
last one (a restart, a reload, a wake-up) is no further strike (`too_soon`).
Rows are tried from top to bottom; the first whose guard holds is taken.
"""
_OCCURRENCE_END = """
Time alone ends an occurrence: when it was not seen again for `occurrence_quiet` it expires (`went_quiet`), which claims
no recovery.
"""


def _diagram(table: Mapping[tuple[Phase, Verdict], tuple[Row, ...]]) -> list[str]:
    """Mermaid lines, one arrow a row; rows that stay where they are and say nothing are left out."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> ok"]
    for (phase, verdict), rows in table.items():
        for row in rows:
            if row.to is phase and row.says is None:
                continue
            guard = "" if row.guard is Guard.ALWAYS else f", {row.guard}"
            says = f" / {row.says}" if row.says else ""
            lines.append(f"    {phase} --> {row.to}: {verdict}{guard}{says}")
    return [*lines, "```"]


def _table(table: Mapping[tuple[Phase, Verdict], tuple[Row, ...]]) -> list[str]:
    lines = ["| phase | verdict | guard | goes to | says | reason |", "|---|---|---|---|---|---|"]
    for (phase, verdict), rows in table.items():
        lines += [
            f"| {phase} | {verdict} | {row.guard} | {row.to} | {row.says or '–'} | `{row.reason}` |" for row in rows
        ]
    return lines


def page() -> str:
    """The whole page."""
    conditions = ["", "## Conditions", "", *_diagram(CONDITIONS), "", *_table(CONDITIONS)]
    occurrences = ["", "## Occurrences", "", *_diagram(OCCURRENCES), "", *_table(OCCURRENCES)]
    return _BEGIN + "\n".join([*conditions, *occurrences]) + "\n" + _OCCURRENCE_END


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
