"""The runbook misses no reason, no kernel kind, no diagnosis, and nothing the watchdog says about itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate_runbook as generator
from watchdog.completion.reason import Reason as Generation
from watchdog.config import RulesSettings
from watchdog.diagnosis import HOST_SIGNATURES, SERVER_SIGNATURES
from watchdog.rulebook import load_rules
from watchdog.ssh import Reason as Host
from watchdog.vitals.reading import GpuTool

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
AGAIN = "run `python docs/generate_runbook.py`"
NO_INCIDENT = {"self/plan", "self/maintenance"}
"""Places in the store, no alerts."""


def test_the_runbook_is_what_its_tables_give() -> None:
    assert generator.runbook() == RUNBOOK, AGAIN


def test_the_hand_written_part_names_every_reason_and_no_other() -> None:
    assert set(generator.GENERATION) == set(Generation)
    assert set(generator.HOST) == set(Host)
    assert set(generator.GPU_TOOL) == set(GpuTool)


@pytest.mark.parametrize("reason", [*Generation, *Host], ids=str)
def test_every_reason_stands_in_the_runbook(reason: Generation | Host) -> None:
    assert f"| `{reason.value}` |" in RUNBOOK, AGAIN


def test_every_kernel_kind_that_can_speak_stands_in_the_runbook() -> None:
    kinds = {rule.kind for rule in load_rules(RulesSettings()) if rule.severity is not None and not rule.detail}
    assert {kind for kind in kinds if f"### `{kind}` (" not in RUNBOOK} == set(), AGAIN


def test_every_diagnosis_stands_in_the_runbook() -> None:
    names = {signature.name for signature in (*SERVER_SIGNATURES, *HOST_SIGNATURES)}
    assert {name for name in names if f"| `{name}` |" not in RUNBOOK} == set(), AGAIN


def test_everything_the_watchdog_says_about_itself_stands_in_the_runbook() -> None:
    said: set[str] = set()
    for path in sorted((ROOT / "watchdog").rglob("*.py")):
        said |= {found.rstrip("/") for found in re.findall(r'f?"(self/[a-z]+/?)', path.read_text(encoding="utf-8"))}
    assert len(said) > 8
    missing = {key for key in said - NO_INCIDENT if f"`{key}`" not in RUNBOOK and f"`{key}/…`" not in RUNBOOK}
    assert missing == set(), f"add it to docs/generate_runbook.py and {AGAIN}"


def test_what_is_written_by_hand_is_in_the_tree_as_it_is_in_the_generator() -> None:
    written = [*generator.GENERATION.values(), *(text for pair in generator.HOST.values() for text in pair)]
    assert [text for text in written if " ".join(text.split()).replace("|", "\\|") not in RUNBOOK] == [], AGAIN
