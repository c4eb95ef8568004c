"""What docs/receivers.md shows is what the program takes and does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from watchdog.loading import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/receivers.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"### ([^\n]+)\n(?:(?!\n### ).)*?```yaml\n(.*?)```", PAGE, re.DOTALL))
USUAL = {
    "ntfy", "Pushover", "Telegram", "Gotify", "Discord", "Slack", "Mail", "PagerDuty", "Opsgenie", "Home Assistant",
    "Matrix", "SMS",
}  # fmt: skip


def test_the_table_is_that_of_the_services() -> None:
    """If not: run `python docs/generate_receivers.py` and commit what it writes."""
    assert runpy.run_path(str(ROOT / "docs/generate_receivers.py"))["page"](PAGE) == PAGE


def test_every_usual_service_has_its_block() -> None:
    assert set(BLOCKS) == USUAL


@pytest.mark.parametrize("service", sorted(BLOCKS))
def test_a_block_can_be_used_as_it_stands(service: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("servers:\n  - name: llm\n    base_url: http://192.0.2.1:8000/v1\n" + BLOCKS[service])
    config.chmod(0o600)
    loaded = load(config)
    assert loaded.config.receivers
    assert [warning.path for warning in loaded.warnings if "receivers" in warning.path] == []
