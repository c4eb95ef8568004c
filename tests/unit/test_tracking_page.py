"""The page about tracking is generated from the tables, and is up to date."""

from __future__ import annotations

from docs.generate_tracking import PAGE, page


def test_the_page_about_tracking_follows_the_tables() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python docs/generate_tracking.py`"
