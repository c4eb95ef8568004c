"""Write the table in docs/receivers.md from `watchdog/notify/services.yaml`: `python docs/generate_receivers.py`.

A test keeps it true.
"""

from __future__ import annotations

import re
from pathlib import Path

from watchdog.notify.services import END, LEVELS, Service, services

PAGE = Path(__file__).with_name("receivers.md")
_TABLE = re.compile(r"(?<=-->\n).*(?=<!-- end of table -->)", re.DOTALL)
_HEAD = ["| service | schemes | page | warn | info | end | incidents there |", "|---|---|---|---|---|---|---|"]


def _row(row: Service) -> str:
    if row.attribute:
        loud = [row.words[level] for level in LEVELS]
    else:
        loud = ["its own rule"] * (len(LEVELS) - 1) + ["closes" if row.key else "its own rule"]
    incidents = "opened once, closed once" if row.key else "–"
    schemes = ", ".join(f"`{scheme}`" for scheme in row.schemes)
    return f"| {row.name} | {schemes} | {' | '.join(loud)} | {incidents} |"


def page(now: str) -> str:
    """The page with the table as it must be."""
    assert LEVELS[-1] == END
    rows = sorted({row.name: row for row in services().values()}.values(), key=lambda row: row.name.lower())
    table = "\n".join([*_HEAD, *map(_row, rows)]) + "\n"
    return _TABLE.sub(lambda _: table, now)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
