"""`docs/reference.md` is what the settings classes and the full example say today."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_up_to_date() -> None:
    """If not: run `python docs/generate_reference.py` and commit what it writes."""
    generated = runpy.run_path(str(DOCS / "generate_reference.py"))["reference"]()
    assert generated == (DOCS / "reference.md").read_text(encoding="utf-8")


def test_every_key_has_a_meaning() -> None:
    """In a comment on its line in `config/full.yaml`."""
    rows = [line for line in (DOCS / "reference.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    assert [row for row in rows if row.endswith("|  |")] == []
